//! Data on its way to a device, with the summaries between and behind its parts.

use super::outbox::Groups;
use forebay_block::{Op, SharedBuf, Vectored};
use smallvec::SmallVec;

/// Data for one place of a device.
#[derive(Debug)]
pub(crate) struct Append {
    pub device: usize,
    pub offset_bytes: u64,
    /// Stream hint for the device.
    pub hint: u8,
    /// Whether it is written past the device's cache.
    fua: bool,
    /// Mostly one buffer, for which nothing is allocated.
    bufs: SmallVec<[SharedBuf; 1]>,
    pub len_bytes: u64,
    pub groups: Groups,
}

impl Append {
    pub fn new(device: usize, offset_bytes: u64, hint: u8, fua: bool) -> Self {
        Self { device, offset_bytes, hint, fua, bufs: SmallVec::new(), len_bytes: 0, groups: Groups::new() }
    }

    /// Whether a write at this place could be part of the same request.
    pub fn meets(&self, device: usize, offset_bytes: u64, hint: u8) -> bool {
        (self.device, self.hint) == (device, hint) && self.offset_bytes + self.len_bytes == offset_bytes
    }

    pub fn push(&mut self, buf: SharedBuf) {
        self.len_bytes += buf.len() as u64;
        self.bufs.push(buf);
    }

    pub fn into_op(mut self) -> (Op, Groups) {
        let bufs = match (self.bufs.pop(), self.bufs.is_empty()) {
            (Some(only), true) => Vectored::One(only),
            (last, _) => Vectored::Many(self.bufs.into_iter().chain(last).collect()),
        };
        (Op::Write { bufs, fua: self.fua }, self.groups)
    }
}
