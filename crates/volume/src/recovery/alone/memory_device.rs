//! Stands in for the fast device: it serves the pages of a map that was put together in memory, and drops all writes.

use crate::layout::page::{Entry, LEAF_ENTRIES, PAGE_BYTES, PageName, seal_leaf, set_leaf_entry};
use forebay_block::{Buf, Completion, Device, DiskId, Geometry, IoError, IoErrorKind, Op, Request, Vectored};

/// A leaf of the map.
#[derive(Clone, Debug)]
pub(super) enum LeafPage {
    /// Its page.
    Page(Box<[u8]>),
    /// All of it is damaged: its page is made when it is read.
    Damaged(DiskId, u64),
}

/// A leaf of which nothing can be read.
pub(super) fn damaged_leaf(disk: DiskId, leaf: u64) -> (Vec<u8>, u32) {
    let mut page = vec![0; PAGE_BYTES];
    (0..LEAF_ENTRIES).for_each(|at| set_leaf_entry(&mut page, at, Entry::Damaged, 0));
    let crc = seal_leaf(&mut page, PageName { disk, number: leaf, generation: 0 });
    (page, crc)
}

/// The device.
pub(super) struct MemoryDevice {
    geometry: Geometry,
    pages: Vec<LeafPage>,
    done: Vec<Completion>,
}

impl MemoryDevice {
    /// A device with these pages, one after the other.
    pub fn new(pages: Vec<LeafPage>) -> Self {
        let geometry = Geometry {
            size_bytes: (pages.len() * PAGE_BYTES) as u64,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: false,
        };
        Self { geometry, pages, done: Vec::new() }
    }

    fn read(&self, offset_bytes: u64, buf: &mut Buf) -> Result<(), IoError> {
        let page = usize::try_from(offset_bytes / PAGE_BYTES as u64).ok().and_then(|number| self.pages.get(number));
        match page {
            Some(LeafPage::Page(page)) if buf.len() == PAGE_BYTES => buf.copy_from_slice(page),
            Some(LeafPage::Damaged(disk, leaf)) if buf.len() == PAGE_BYTES => {
                buf.copy_from_slice(&damaged_leaf(*disk, *leaf).0);
            }
            _ => return Err(IoError { kind: IoErrorKind::Invalid, operation: "read", offset_bytes, os_error: 0 }),
        }
        Ok(())
    }
}

impl Device for MemoryDevice {
    fn name(&self) -> &str {
        "the map in memory"
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        let (tag, offset_bytes) = (request.tag, request.offset_bytes);
        let completion = match request.op {
            Op::Read { bufs: Vectored::One(mut buf), .. } => {
                let result = self.read(offset_bytes, &mut buf);
                Completion { tag, result, bufs: Some(Vectored::One(buf)) }
            }
            Op::Read { bufs, .. } => {
                let result =
                    Err(IoError { kind: IoErrorKind::Unsupported, operation: "read", offset_bytes, os_error: 0 });
                Completion { tag, result, bufs: Some(bufs) }
            }
            _ => Completion { tag, result: Ok(()), bufs: None },
        };
        self.done.push(completion);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }

    fn wait(&mut self, _timeout_ns: u64) {}

    fn queue_limit(&self) -> usize {
        256
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

/// A device that is only read: other requests are completed without being executed.
pub(super) struct ReadOnly {
    inner: Box<dyn Device>,
    done: Vec<Completion>,
}

impl ReadOnly {
    pub fn new(inner: Box<dyn Device>) -> Self {
        Self { inner, done: Vec::new() }
    }
}

impl Device for ReadOnly {
    forebay_block::forward_device!(self => self.inner; name geometry wake_fds queue_limit virtual_time);

    fn submit(&mut self, request: Request) {
        match request.op {
            Op::Read { .. } => self.inner.submit(request),
            _ => self.done.push(Completion { tag: request.tag, result: Ok(()), bufs: None }),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
        self.inner.poll(done);
    }

    fn wait(&mut self, timeout_ns: u64) {
        if self.done.is_empty() {
            self.inner.wait(timeout_ns);
        }
    }

    fn completes_unseen(&self) -> bool {
        !self.done.is_empty() || self.inner.completes_unseen()
    }

    fn in_flight(&self) -> usize {
        self.done.len() + self.inner.in_flight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of two, as a tier with parity is.
    struct Two(MemoryDevice);

    impl Device for Two {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn geometry(&self) -> &Geometry {
            self.0.geometry()
        }

        fn submit(&mut self, request: Request) {
            self.0.submit(request);
        }

        fn poll(&mut self, done: &mut Vec<Completion>) {
            self.0.poll(done);
        }

        fn wait(&mut self, timeout_ns: u64) {
            self.0.wait(timeout_ns);
        }

        fn wake_fds(&self, out: &mut Vec<i32>) {
            out.extend([11, 12]);
        }

        fn completes_unseen(&self) -> bool {
            false
        }

        fn queue_limit(&self) -> usize {
            self.0.queue_limit()
        }

        fn in_flight(&self) -> usize {
            self.0.in_flight()
        }
    }

    /// A server over it was never woken, and asked without a pause for what was in flight.
    #[test]
    fn regression_descriptors_of_all_devices_below_are_watched() {
        let mut device = ReadOnly::new(Box::new(Two(MemoryDevice::new(vec![LeafPage::Damaged(DiskId(1), 0)]))));
        let mut fds = Vec::new();
        device.wake_fds(&mut fds);
        assert_eq!(fds, [11, 12]);
        let op = Op::read(Vectored::One(Buf::zeroed(PAGE_BYTES)));
        device.submit(Request { tag: 1, offset_bytes: 0, stream: 0, op });
        assert!(!device.completes_unseen(), "a descriptor tells of the read");
        // What was dropped is answered here, and no descriptor tells of that.
        device.submit(Request { tag: 2, offset_bytes: 0, stream: 0, op: Op::Flush });
        assert!(device.completes_unseen());
        device.poll(&mut Vec::new());
        assert!(!device.completes_unseen());
    }
}
