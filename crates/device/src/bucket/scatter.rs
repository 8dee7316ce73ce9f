//! Between the buffers of requests and the bytes of objects.

use bytes::Bytes;
use forebay_block::{Buf, SharedBuf, Vectored};

/// The bytes of a write, copied: how much memory its buffers keep is not known.
pub(crate) fn gather(bufs: &Vectored<SharedBuf>) -> Bytes {
    let bufs = bufs.as_slice();
    let mut bytes = Vec::with_capacity(bufs.iter().map(|buf| buf.len()).sum());
    bufs.iter().for_each(|buf| bytes.extend_from_slice(buf));
    Bytes::from(bytes)
}

/// Calls `each` with the parts of buffers that lie in a range, and where in the range they begin.
fn parts(bufs: &mut Vectored<Buf>, at: usize, len: usize, mut each: impl FnMut(&mut [u8], usize)) {
    let mut before = 0;
    for buf in bufs.as_mut_slice() {
        let (from, to) = (at.max(before), (at + len).min(before + buf.len()));
        if from < to {
            each(&mut buf[from - before..to - before], from - at);
        }
        before += buf.len();
    }
}

/// Copies bytes to a place in the buffers of a read.
pub(crate) fn scatter(bufs: &mut Vectored<Buf>, at: usize, bytes: &[u8]) {
    parts(bufs, at, bytes.len(), |part, from| part.copy_from_slice(&bytes[from..from + part.len()]));
}

/// Fills a place in the buffers of a read with zeros.
pub(crate) fn fill(bufs: &mut Vectored<Buf>, at: usize, len: usize) {
    parts(bufs, at, len, |part, _| part.fill(0));
}
