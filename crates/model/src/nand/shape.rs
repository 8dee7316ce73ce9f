//! Sizes derived from a configuration, and smaller drives with the same parallelism.

use super::config::{Config, ConfigError, Endurance, UNIT_BYTES};
use crate::endurance::Life;

/// No unit, slot or block; in the map: not on the media.
pub(super) const NONE: u32 = u32::MAX;
/// Flags a map entry whose low bits are a slot of the write buffer.
pub(super) const BUFFERED: u32 = 1 << 31;
/// A scaled drive with fewer blocks a group than this gets shorter blocks instead.
const SCALED_BLOCKS_MIN: u64 = 128;

/// Sizes in units of 4 KiB, rows and blocks. A row is one page on each plane of a die. A group is the dies whose blocks are erased
/// together. A block here is that erase unit, over all dies of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Logical units.
    pub logical_units: u32,
    /// Units of a row.
    pub row_units: u32,
    /// Units of a page.
    pub page_units: u32,
    /// Dies of the drive.
    pub dies: u32,
    /// Channels.
    pub channels: u32,
    /// Dies of a group.
    pub wide: u32,
    /// Groups.
    pub groups: u32,
    /// Blocks of a group.
    pub group_blocks: u32,
    /// Rows of a block, over all its dies.
    pub block_rows: u32,
    /// Rows of a block in single-level mode.
    pub slc_rows: u32,
    /// Units of a block.
    pub block_units: u32,
    /// Blocks of a group in the fixed part of the single-level cache.
    pub slc_fixed: u32,
    /// Maximum number of blocks of a group in the single-level cache.
    pub slc_most: u32,
}

/// Blocks of a group without data in the steady state: open blocks and those kept erased.
fn overhead_blocks(config: &Config) -> u64 {
    u64::from(config.ftl.streams)
        + 1
        + u64::from(config.slc.is_some())
        + u64::from(config.ftl.level_spread.is_some())
        + u64::from(config.ftl.collect_below_blocks + config.ftl.reserve_blocks) / 2
}

impl Shape {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let g = &config.geometry;
        let dies = g.channels * g.dies_per_channel;
        let wide = config.ftl.superblock_dies;
        if wide == 0 || wide > dies || !dies.is_multiple_of(wide) {
            return Err(ConfigError::Range {
                key: "ftl.superblock_dies",
                value: wide.into(),
                why: "at least 1 and a divisor of the number of dies",
            });
        }
        let page_units = g.page_bytes / UNIT_BYTES as u32;
        let row_units = page_units * g.planes;
        let groups = dies / wide;
        let physical =
            u64::from(dies) * u64::from(g.blocks_per_plane) * u64::from(g.pages_per_block) * u64::from(row_units);
        let logical = config.capacity_bytes / UNIT_BYTES;
        if physical >= u64::from(BUFFERED) {
            return Err(ConfigError::Range {
                key: "geometry (units of 4 KiB)",
                value: physical,
                why: "below 2^31: 8 TiB of flash",
            });
        }
        let block_units = u64::from(g.pages_per_block) * u64::from(row_units) * u64::from(wide);
        let slc_rows = u64::from(g.pages_per_block / g.bits_per_cell) * u64::from(wide);
        let slc_blocks =
            |bytes: u64| (bytes / UNIT_BYTES).div_ceil((slc_rows * u64::from(row_units)).max(1) * u64::from(groups));
        let (slc_fixed, slc_most) = config.slc.map_or((0, 0), |s| {
            let fixed = slc_blocks(s.fixed_bytes);
            (fixed, slc_blocks(s.fixed_bytes + s.dynamic_bytes).max(fixed))
        });
        let needed =
            overhead_blocks(config).max(u64::from(config.ftl.collect_below_blocks) + u64::from(config.ftl.streams) + 2);
        let spare = (physical.saturating_sub(logical)) / (block_units * u64::from(groups));
        if spare < needed + slc_fixed {
            return Err(ConfigError::Range {
                key: "geometry.blocks_per_plane",
                value: g.blocks_per_plane.into(),
                why: "too few: the spare flash must hold the open, erased and single-level blocks of every group",
            });
        }
        let buffer_units = config.buffer.size_bytes / UNIT_BYTES;
        if buffer_units < u64::from(row_units) * u64::from(config.ftl.streams + 1) || buffer_units > 1 << 24 {
            return Err(ConfigError::Range {
                key: "buffer.size_bytes",
                value: config.buffer.size_bytes,
                why: "at least a row of pages for each stream and one more, at most 64 GiB",
            });
        }
        Ok(Self {
            logical_units: logical as u32,
            row_units,
            page_units,
            dies,
            channels: g.channels,
            wide,
            groups,
            group_blocks: g.blocks_per_plane,
            block_rows: g.pages_per_block * wide,
            slc_rows: slc_rows as u32,
            block_units: block_units as u32,
            slc_fixed: slc_fixed as u32,
            slc_most: slc_most as u32,
        })
    }

    /// The die that holds row `row` of the drive.
    pub(super) fn die_of(&self, row: u32) -> u32 {
        let block = row / self.block_rows;
        let group = block / self.group_blocks;
        group * self.wide + (row % self.block_rows) % self.wide
    }

    /// The page within its block of the drive's row `row`.
    pub(super) fn page_of(&self, row: u32) -> u32 {
        (row % self.block_rows) / self.wide
    }

    /// Blocks of the drive.
    pub(super) fn blocks(&self) -> u32 {
        self.groups * self.group_blocks
    }
}

impl Config {
    /// Checks every value and their consistency.
    ///
    /// # Errors
    /// [`ConfigError::Range`] with the key, its value and what is allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_values()?;
        Shape::new(self).map(|_| ())
    }

    /// Raw flash of the drive in bytes.
    #[must_use]
    pub fn physical_bytes(&self) -> u64 {
        let g = &self.geometry;
        u64::from(g.channels)
            * u64::from(g.dies_per_channel)
            * u64::from(g.planes)
            * u64::from(g.blocks_per_plane)
            * u64::from(g.pages_per_block)
            * u64::from(g.page_bytes)
    }

    /// Flash that holds data in the steady state over the host's capacity: what the theory of write amplification
    /// takes as the physical over the logical size. Open and erased blocks and the fixed single-level cache do not
    /// count.
    #[cfg(test)]
    pub(super) fn effective_over_provisioning(&self) -> f64 {
        let g = &self.geometry;
        let slc = Shape::new(self).map_or(0, |s| u64::from(s.slc_fixed));
        let unused = (overhead_blocks(self) + slc) as f64 / f64::from(g.blocks_per_plane);
        self.physical_bytes() as f64 * (1.0 - unused) / self.capacity_bytes as f64
    }

    /// Bytes of a block over all dies; none where not all dies are erased together.
    #[must_use]
    pub fn superblock_bytes(&self) -> Option<u64> {
        let g = &self.geometry;
        let dies = g.channels * g.dies_per_channel;
        let is_whole = self.ftl.superblock_dies == dies;
        is_whole.then(|| self.physical_bytes() / u64::from(g.blocks_per_plane))
    }

    /// Writes that the flash endures; none where the preset rates no cycles. Counted over the capacity, as in
    /// [`Config::drive_writes_per_day`].
    #[must_use]
    pub fn life(&self) -> Option<Life> {
        let Endurance { cycles, years } = self.endurance?;
        let capacity_bytes = self.capacity_bytes as f64;
        Life::from_cycles(capacity_bytes, capacity_bytes, f64::from(cycles), years).ok()
    }

    /// Full drive writes a day over the warranty that the rated cycles allow at this write amplification; none where the preset rates no
    /// cycles. As vendors do, the cycles count over the capacity: spare flash replaces failed blocks and holds the drive's own parity and
    /// tables.
    #[must_use]
    pub fn drive_writes_per_day(&self, write_amplification: f64) -> Option<f64> {
        self.endurance.map(|e| f64::from(e.cycles) / write_amplification / (e.years * 365.0))
    }

    /// The same drive with less flash: the same channels, dies, planes and times, and the same ratio of flash to capacity without open and
    /// erased blocks. It has fewer blocks, or shorter ones where they would become too few. A shorter block takes less time to erase in
    /// proportion, so that erases cost the same share of time. The size is rounded down to 4 KiB.
    ///
    /// # Errors
    /// [`ConfigError::Range`] where the size exceeds the drive's or is too small for its parallelism.
    pub fn scaled(&self, size_bytes: u64) -> Result<Self, ConfigError> {
        let size_bytes = size_bytes / UNIT_BYTES * UNIT_BYTES;
        if size_bytes == 0 || size_bytes > self.capacity_bytes {
            return Err(ConfigError::Range {
                key: "size_bytes",
                value: size_bytes,
                why: "at least 4096, at most the capacity of the drive",
            });
        }
        if size_bytes == self.capacity_bytes {
            return Ok(self.clone());
        }
        let mut small = self.clone();
        small.capacity_bytes = size_bytes;
        if let Some(slc) = &mut small.slc {
            let share =
                |bytes: u64| (u128::from(bytes) * u128::from(size_bytes) / u128::from(self.capacity_bytes)) as u64;
            slc.fixed_bytes = share(slc.fixed_bytes);
            slc.dynamic_bytes = share(slc.dynamic_bytes);
        }
        let g = &self.geometry;
        let overhead = overhead_blocks(self);
        let data_blocks = u64::from(g.blocks_per_plane).saturating_sub(overhead);
        let data_pages = u128::from(data_blocks) * u128::from(g.pages_per_block) * u128::from(size_bytes);
        let data_pages = (data_pages / u128::from(self.capacity_bytes)) as u64;
        // Whole repetitions of the page types and, for the single-level mode, of the bits per cell.
        let types = self.timing.read_ns.len() as u64;
        let step =
            if types.is_multiple_of(u64::from(g.bits_per_cell)) { types } else { types * u64::from(g.bits_per_cell) };
        let longest = data_pages / SCALED_BLOCKS_MIN / step * step;
        let pages = longest.clamp(step.min(u64::from(g.pages_per_block)), u64::from(g.pages_per_block));
        small.geometry.pages_per_block = pages as u32;
        small.geometry.blocks_per_plane = (data_pages.div_ceil(pages) + overhead) as u32;
        small.timing.erase_ns = (self.timing.erase_ns * pages / u64::from(g.pages_per_block)).max(1);
        small.validate()?;
        Ok(small)
    }
}
