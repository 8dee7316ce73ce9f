//! Bases: devices with older data, over which disks lie while that data is adopted. Nothing is written to them.

use crate::layout::page::{BLOCK_GRAINS, Span};
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, DiskId};
use std::collections::BTreeMap;

/// Bit of a location: the rest is a place in the base of the block's own disk. No pool is long enough to have it.
const IN_BASE: u64 = 1 << 61;

/// The span of a block of a base.
pub(crate) fn span_of(block: u64) -> Span {
    Span::whole(IN_BASE + block * BLOCK_GRAINS)
}

/// Whether a location is in a base.
pub(crate) fn is_in_base(location: u64) -> bool {
    location >> 61 == 1
}

#[derive(Debug)]
struct Attached {
    device: usize,
    name: String,
}

/// The bases that are attached.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    attached: BTreeMap<u16, Attached>,
    /// Disks are served without their bases: what only a base has cannot be read.
    pub may_be_missing: bool,
    /// Devices that are not needed any more.
    given_up: Vec<usize>,
}

impl Bases {
    /// Attaches a device as the base of a disk.
    pub fn attach(&mut self, disk: DiskId, device: usize, name: String) {
        self.attached.insert(disk.0, Attached { device, name });
    }

    /// Whether a disk that lies over a base can be served.
    pub fn is_served(&self, disk: DiskId) -> bool {
        self.may_be_missing || self.attached.contains_key(&disk.0)
    }

    /// Device and offset of a location in the base of a disk; `None` where the base is not attached.
    pub fn place(&self, disk: DiskId, location: u64) -> Option<(usize, u64)> {
        let attached = self.attached.get(&disk.0)?;
        Some((attached.device, (location & !IN_BASE) / BLOCK_GRAINS * BLOCK))
    }

    /// The name of a device that is a base.
    pub fn name(&self, device: usize) -> Option<&str> {
        self.attached.values().find(|attached| attached.device == device).map(|attached| attached.name.as_str())
    }

    /// Gives up the bases of disks that need none any more.
    pub fn retain(&mut self, needs: impl Fn(u16) -> bool) {
        let Self { attached, given_up, .. } = self;
        attached.retain(|&disk, attached| {
            let is_needed = needs(disk);
            given_up.extend((!is_needed).then_some(attached.device));
            is_needed
        });
    }

    /// Takes a device that was given up.
    pub fn take_given_up(&mut self) -> Option<usize> {
        self.given_up.pop()
    }
}
