//! What does not change while a pool is served.

use super::EngineOptions;
use super::copies::CacheLimits;
use super::limits::Limits;
use crate::layout::superblock::Superblock;
use crate::request::RequestError;
use crate::space::extents::Extents;
use forebay_block::{IoError, Op};

/// Layout, devices and settings.
pub(crate) struct Setup {
    pub options: EngineOptions,
    pub limits: Limits,
    pub superblock: Superblock,
    pub extents: Extents,
    /// Device names for messages.
    pub names: Vec<String>,
    /// One bit per device with a volatile cache.
    pub volatile: u32,
    /// Copies that the fast device has of everything: the members of its mirror.
    pub copies: u8,
    /// In how many other ways the data of the capacity device can be read: several with parity.
    pub variants: u8,
    /// Most copies of blocks of the capacity tier.
    pub cache: CacheLimits,
    /// Memory for all but tables and leaves of the map, in bytes.
    pub beside_bytes: u64,
    /// One bit per device with a volatile cache that the system flushes behind a durable write.
    pub flushed_behind: u32,
    /// The unit in which all capacity devices can be read, in grains.
    pub unit_grains: u64,
    /// One bit per device that gives space back on discard.
    pub discards: u32,
}

impl Setup {
    /// Whether durable writes go past the caches, and no flush follows. Where a device has no such writes, durable writes of hosts are ended by a flush, of
    /// which the engine knows what it covers.
    pub fn has_durable_writes(&self) -> bool {
        self.flushed_behind == 0
    }

    /// How often the same data is read from a device before it is believed to be damaged. Where there are several copies: all of it from one, then block by
    /// block from each, as blocks of one read may lie in places of which different copies are read first.
    pub fn read_attempts(&self, device: usize) -> u8 {
        match device {
            0 if self.copies > 1 => self.copies + 1,
            // A tier with parity is one device: all of it is read at its place, in each other way, and once more at its
            // place.
            1 if self.variants > 0 => self.variants + 2,
            _ => 2,
        }
    }

    /// The attempt of a repeated read of the fast device that decides what is lost. Of several copies each is read by itself, so that a wrong one does not
    /// answer for one that cannot be read now.
    pub fn of_each_copy(&self, attempt: u8) -> u8 {
        if self.copies > 1 && attempt > 0 { attempt | Op::ALONE } else { attempt }
    }

    /// The same for a location.
    pub fn read_attempts_at(&self, location: u64) -> u8 {
        self.read_attempts(usize::from(!self.extents.is_fast(location)))
    }

    /// Whether data that cannot be read at one place may be read in another way, and is then written there again.
    pub fn mends(&self) -> bool {
        self.copies > 1 || self.variants > 0
    }

    /// The same for a device.
    pub fn mends_on(&self, device: usize) -> bool {
        if device == 0 { self.copies > 1 } else { self.variants > 0 }
    }

    /// Whether what recovery finds among a device's latest writes is written again: it may be in a cache only, or on one of several copies only.
    pub fn is_written_again(&self, device: usize) -> bool {
        self.volatile & 1 << device != 0 || self.mends_on(device)
    }

    /// A device failure as the host sees it.
    pub fn device_error(&self, device: usize, source: IoError) -> RequestError {
        RequestError::Device { device: self.names.get(device).cloned().unwrap_or_default(), source }
    }
}
