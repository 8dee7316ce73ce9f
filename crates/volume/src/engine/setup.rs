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
    /// Copies that the fast device has of everything.
    pub copies: u8,
    /// How often what the capacity device has can be read in another way: it is several with parity.
    pub variants: u8,
    /// Most copies of blocks of the capacity tier.
    pub cache: CacheLimits,
    /// Memory for all else than tables and leaves of the map, in bytes.
    pub beside_bytes: u64,
    /// One bit per device with a volatile cache that the system flushes behind a durable write.
    pub flushed_behind: u32,
    /// The unit in which all capacity devices can be read, in grains.
    pub unit_grains: u64,
    /// One bit per device that gives space back on discard.
    pub discards: u32,
}

impl Setup {
    /// Whether durable writes go past the caches, and no flush follows. Where a device has none of its own those of hosts are
    /// ended by a flush, of which the engine knows what it covers.
    pub fn has_durable_writes(&self) -> bool {
        self.flushed_behind == 0
    }

    /// How often the same is read of a device before it is believed to be damaged. Where there are several copies: all of it of one, then block by block of
    /// each, for blocks of one read may lie in places of which different ones are read first.
    pub fn read_attempts(&self, device: usize) -> u8 {
        match device {
            0 if self.copies > 1 => self.copies + 1,
            // A tier with parity is one device: all of it at its place, by each other way, and once more at its place.
            1 if self.variants > 0 => self.variants + 2,
            _ => 2,
        }
    }

    /// The attempt of a repeated read of the fast device that decides what is lost: of several copies each is read by itself, so that one that cannot be read
    /// now is not answered for by another that is wrong.
    pub fn of_each_copy(&self, attempt: u8) -> u8 {
        if self.copies > 1 && attempt > 0 { attempt | Op::ALONE } else { attempt }
    }

    /// The same of what lies at a location.
    pub fn read_attempts_at(&self, location: u64) -> u8 {
        self.read_attempts(usize::from(!self.extents.is_fast(location)))
    }

    /// Whether what cannot be read at one place may be read otherwise, and is written there again.
    pub fn mends(&self) -> bool {
        self.copies > 1 || self.variants > 0
    }

    /// The same of a device.
    pub fn mends_on(&self, device: usize) -> bool {
        if device == 0 { self.copies > 1 } else { self.variants > 0 }
    }

    /// Whether what recovery finds in a device's latest writes is written again: what can be read there may lie in a cache alone, or on one of
    /// several copies.
    pub fn is_written_again(&self, device: usize) -> bool {
        self.volatile & 1 << device != 0 || self.mends_on(device)
    }

    /// A device failure as the host sees it.
    pub fn device_error(&self, device: usize, source: IoError) -> RequestError {
        RequestError::Device { device: self.names.get(device).cloned().unwrap_or_default(), source }
    }
}
