//! Copies between the buffers of requests and the bytes of objects.

use bytes::Bytes;
use forebay_block::{Buf, SharedBuf, Vectored};

/// Copies the bytes of a write. A reference to its buffers could keep an unknown amount of memory alive.
pub(crate) fn gather(bufs: &Vectored<SharedBuf>) -> Bytes {
    let bufs = bufs.as_slice();
    let mut bytes = Vec::with_capacity(bufs.iter().map(|buf| buf.len()).sum());
    bufs.iter().for_each(|buf| bytes.extend_from_slice(buf));
    Bytes::from(bytes)
}

/// Calls `each` with the part of every buffer that lies in a range, and the part's offset in the range.
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

/// Copies `bytes` to the offset `at` in the buffers of a read.
pub(crate) fn scatter(bufs: &mut Vectored<Buf>, at: usize, bytes: &[u8]) {
    parts(bufs, at, bytes.len(), |part, from| part.copy_from_slice(&bytes[from..from + part.len()]));
}

/// Fills `len` bytes at the offset `at` in the buffers of a read with zeros.
pub(crate) fn fill(bufs: &mut Vectored<Buf>, at: usize, len: usize) {
    parts(bufs, at, len, |part, _| part.fill(0));
}
