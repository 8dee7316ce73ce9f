//! The pool's linear address space, cut into device extents.

use crate::layout::band_summary::BandShape;
use crate::layout::page::{BLOCK_GRAINS, GRAIN_BYTES, SECTOR_GRAINS};
use crate::layout::superblock::{Member, Role};

const GRAIN: u64 = GRAIN_BYTES as u64;

/// One bit for each of the first `devices` devices; there are 1 to 32.
#[must_use]
pub fn device_bits(devices: usize) -> u32 {
    u32::MAX.checked_shr(32u32.saturating_sub(devices as u32)).unwrap_or(0)
}

/// Where in the linear space a device lies, in grains, and on the device.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: u64,
    grains: u64,
    data_offset_bytes: u64,
}

/// Translates locations to devices, slots and bands.
#[derive(Clone, Debug)]
pub struct Extents {
    members: Vec<Extent>,
    band_grains: u64,
    /// First band of each capacity device, in the order of `members[1..]`.
    band_base: Vec<u32>,
    bands: u32,
}

impl Extents {
    /// From the device table of a superblock.
    #[must_use]
    pub fn new(members: &[Member], band_bytes: u64) -> Self {
        let band_grains = band_bytes / GRAIN;
        let mut band_base = Vec::new();
        let mut bands = 0u32;
        for member in members.iter().filter(|m| m.role == Role::Capacity) {
            band_base.push(bands);
            bands += (member.sectors * SECTOR_GRAINS / band_grains) as u32;
        }
        let extent = |member: &Member| Extent {
            first: member.first_sector * SECTOR_GRAINS,
            grains: member.sectors * SECTOR_GRAINS,
            data_offset_bytes: member.data_offset_bytes,
        };
        Self { members: members.iter().map(extent).collect(), band_grains, band_base, bands }
    }

    /// Number of bands over all capacity devices.
    #[must_use]
    pub fn bands(&self) -> u32 {
        self.bands
    }

    /// Number of devices.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.members.len()
    }

    /// All devices, one bit each.
    #[must_use]
    pub fn all_devices(&self) -> u32 {
        device_bits(self.members.len())
    }

    /// Whether a location lies on the fast tier.
    #[must_use]
    pub fn is_fast(&self, location: u64) -> bool {
        location < self.members[0].grains
    }

    /// Device index and byte offset of a location; `None` where it is outside the pool.
    #[must_use]
    pub fn place(&self, location: u64) -> Option<(usize, u64)> {
        if self.is_fast(location) {
            return Some((0, self.members[0].data_offset_bytes + location.checked_sub(BLOCK_GRAINS)? * GRAIN));
        }
        let i = self.members.partition_point(|m| m.first <= location).checked_sub(1)?;
        let member = &self.members[i];
        let inside = location - member.first;
        (inside < member.grains).then(|| (i, member.data_offset_bytes + inside * GRAIN))
    }

    /// Slot of a fast location.
    #[must_use]
    pub fn slot(&self, location: u64) -> u64 {
        // Location 0 stands for a hole in a page reference, so slot 0 is the second block.
        (location / BLOCK_GRAINS).saturating_sub(1)
    }

    /// Location of a slot.
    #[must_use]
    pub fn slot_location(&self, slot: u64) -> u64 {
        (slot + 1) * BLOCK_GRAINS
    }

    /// Band and block inside it of a capacity location; `None` where it is not one.
    #[must_use]
    pub fn band(&self, location: u64) -> Option<(u32, u32)> {
        self.band_grain(location).map(|(band, grain)| (band, grain / BLOCK_GRAINS as u32))
    }

    /// Band and grain inside it of a capacity location; `None` where it is not one.
    #[must_use]
    pub fn band_grain(&self, location: u64) -> Option<(u32, u32)> {
        if self.is_fast(location) {
            return None;
        }
        let i = self.members.partition_point(|m| m.first <= location).checked_sub(1)?;
        let member = &self.members[i];
        let inside = location - member.first;
        if inside >= member.grains {
            return None;
        }
        let band = self.band_base[i - 1] + (inside / self.band_grains) as u32;
        Some((band, (inside % self.band_grains) as u32))
    }

    /// Whether so many grains from a location on lie in slots, or in one group of a band before its summary: where data can be.
    #[must_use]
    pub fn holds_data(&self, location: u64, grains: u64) -> bool {
        let Some(last) = grains.checked_sub(1).and_then(|more| location.checked_add(more)) else { return false };
        if self.is_fast(location) || self.is_fast(last) {
            return location >= BLOCK_GRAINS && self.is_fast(last);
        }
        let shape = BandShape::new(self.band_grains * GRAIN);
        match (self.band(location), self.band(last)) {
            (Some((band, first)), Some((same, last))) => {
                let group = shape.group_of(first);
                band == same && group == shape.group_of(last) && last < shape.summary_block(group)
            }
            _ => false,
        }
    }

    /// Location of a block of a band.
    #[must_use]
    pub fn band_location(&self, band: u32, block: u32) -> u64 {
        let i = self.band_base.partition_point(|&base| base <= band) - 1;
        let member = &self.members[i + 1];
        member.first + u64::from(band - self.band_base[i]) * self.band_grains + u64::from(block) * BLOCK_GRAINS
    }
}
