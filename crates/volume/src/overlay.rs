//! A device whose writes stay in memory: verification recovers a pool without changing it.

use forebay_block::{Buf, Completion, Device, Geometry, IoError, IoErrorKind, Op, Request, Vectored};
use std::collections::BTreeMap;

const UNIT: u64 = 512;

/// The wrapper. Requests run one at a time.
pub(crate) struct Overlay {
    inner: Box<dyn Device>,
    /// Without a volatile cache: what is written needs no flush.
    geometry: Geometry,
    /// Written sectors.
    written: BTreeMap<u64, Box<[u8; UNIT as usize]>>,
    done: Vec<Completion>,
}

impl Overlay {
    pub(crate) fn new(inner: Box<dyn Device>) -> Self {
        let geometry = Geometry { volatile_cache: false, ..inner.geometry().clone() };
        Self { inner, geometry, written: BTreeMap::new(), done: Vec::new() }
    }

    /// Puts every device behind an overlay.
    pub(crate) fn over_all(devices: &mut crate::io::Devices) {
        devices.is_read_only = true;
        let inner = std::mem::take(&mut devices.list);
        devices.list = inner.into_iter().map(|device| Box::new(Self::new(device)) as Box<dyn Device>).collect();
    }

    fn read(&mut self, request: Request) -> Completion {
        let (tag, start) = (request.tag, request.offset_bytes);
        self.inner.submit(request);
        let mut done = Vec::new();
        while done.is_empty() {
            self.inner.poll(&mut done);
            if done.is_empty() {
                self.inner.wait(1_000_000_000);
            }
        }
        let Some(mut completion) = done.pop() else {
            let result = Err(IoError { kind: IoErrorKind::Gone, operation: "read", offset_bytes: start, os_error: 0 });
            return Completion { tag, result, bufs: None };
        };
        let mut at = start;
        for buf in completion.bufs.iter_mut().flat_map(Vectored::as_mut_slice) {
            self.lay_over(at, buf);
            at += buf.len() as u64;
        }
        completion
    }

    fn lay_over(&self, start: u64, buf: &mut Buf) {
        let sectors = start / UNIT..(start + buf.len() as u64) / UNIT;
        for (&sector, bytes) in self.written.range(sectors) {
            let at = (sector * UNIT - start) as usize;
            buf[at..at + UNIT as usize].copy_from_slice(&bytes[..]);
        }
    }

    fn write(&mut self, mut at: u64, bytes: &[u8]) {
        for chunk in bytes.chunks_exact(UNIT as usize) {
            let mut sector = Box::new([0; UNIT as usize]);
            sector.copy_from_slice(chunk);
            self.written.insert(at / UNIT, sector);
            at += UNIT;
        }
    }
}

impl Device for Overlay {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        let tag = request.tag;
        let completion = match request.op {
            Op::Read { .. } => self.read(request),
            Op::Write { bufs, .. } => {
                let mut at = request.offset_bytes;
                for buf in bufs.as_slice() {
                    self.write(at, buf);
                    at += buf.len() as u64;
                }
                Completion { tag, result: Ok(()), bufs: None }
            }
            // A discarded band keeps its bytes here: nothing reads them.
            Op::Flush | Op::Discard { .. } => Completion { tag, result: Ok(()), bufs: None },
            Op::WriteZeroes { len_bytes } => {
                let zeros = Buf::zeroed(len_bytes as usize);
                self.write(request.offset_bytes, &zeros);
                Completion { tag, result: Ok(()), bufs: None }
            }
        };
        self.done.push(completion);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        64
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
