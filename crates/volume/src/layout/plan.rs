//! Where everything goes on the devices of a new pool.

use super::Id;
use super::band_summary::{BandShape, PACKED_TIMES_MAX};
use super::capacity_area::CapacityArea;
use super::member_label::logical_block_bytes;
use super::page::{INDEX_ENTRIES, LEAF_ENTRIES, SECTORS_MAX};
use super::root::Root;
use super::superblock::{
    BAND_BYTES_MAX, BANDS_MAX, DEVICES_MAX, HEAD_BYTES, JOURNAL_MIN_BYTES, Member, Role, Superblock,
};
use forebay_block::{Geometry, SECTOR_BYTES};
use thiserror::Error;

/// Fewest bands a pool can work with: one open, one for collection, one to write on, one more.
pub const BANDS_MIN: u64 = 4;

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Name of the pool.
    pub name: String,
    /// Band size in bytes; `None`: what the devices ask for, otherwise by the size of the tier.
    pub band_bytes: Option<u64>,
    /// Length of the journal in bytes; `None`: a 64th of the fast tier, from 512 KiB to 64 MiB.
    pub journal_bytes: Option<u64>,
    /// Whether the fast device is a mirror.
    pub is_mirrored: bool,
    /// Where bands begin on the capacity device, in bytes, where it consists of several with parity.
    pub bands_offset_bytes: Option<u64>,
}

/// Why a pool cannot be laid out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// Too few or too many devices.
    #[error("a pool has one fast device and 1 to {} capacity devices, not {fast} and {capacity}", DEVICES_MAX - 1)]
    Devices {
        /// Fast devices given.
        fast: usize,
        /// Capacity devices given.
        capacity: usize,
    },
    /// A device is too small.
    #[error("{role} device {index} has {size_bytes} bytes; at least {needed_bytes} are needed")]
    TooSmall {
        /// Its role.
        role: &'static str,
        /// Its index in its tier.
        index: usize,
        /// Its size.
        size_bytes: u64,
        /// What it would take.
        needed_bytes: u64,
    },
    /// The band size is impossible.
    #[error("band of {0} bytes: use a multiple of 4096 from 8192 to {BAND_BYTES_MAX}")]
    Band(u64),
    /// Too many bands.
    #[error("{bands} bands of {band_bytes} bytes are more than the {BANDS_MAX} that this format has: use larger ones")]
    Bands {
        /// How many there would be.
        bands: u64,
        /// Of this size.
        band_bytes: u64,
    },
    /// More than 128 TiB.
    #[error("the devices together exceed 128 TiB, the most this format can address")]
    TooLarge,
}

/// Default band for a capacity tier of `total_bytes`: about 1/1024 of it, a power of two from 1 to 64 MiB. In bands that are open, free or being
/// collected nothing can die: with a dozen of them, at 1/64 each, they would take most of the spare space.
#[must_use]
pub fn default_band_bytes(total_bytes: u64) -> u64 {
    (total_bytes / 1024).max(1).next_power_of_two().clamp(1 << 20, 64 << 20)
}

/// Lays a pool out over `fast` and `capacity` devices. `ids` are the pool's and then each device's.
///
/// # Errors
/// See [`PlanError`].
pub fn plan(
    options: &PoolOptions,
    fast: &Geometry,
    capacity: &[Geometry],
    pool: Id,
    device_ids: &[Id],
) -> Result<Superblock, PlanError> {
    if capacity.is_empty() || capacity.len() >= DEVICES_MAX || device_ids.len() != capacity.len() + 1 {
        return Err(PlanError::Devices { fast: 1, capacity: capacity.len() });
    }
    let total: u64 = capacity.iter().map(|g| g.size_bytes).sum();
    let optimal_band_bytes = capacity.iter().filter_map(|g| g.optimal_band_bytes).max();
    let band_bytes = options.band_bytes.or(optimal_band_bytes).unwrap_or_else(|| default_band_bytes(total));
    if !(8192..=BAND_BYTES_MAX).contains(&band_bytes) || !band_bytes.is_multiple_of(4096) {
        return Err(PlanError::Band(band_bytes));
    }
    let block = 4096;
    let usable = |size: u64| (size / block).saturating_sub(1) * block;
    let mut members = Vec::new();
    let mut first_sector = 0;
    let mut bands = 0;
    let shape = BandShape::new(band_bytes);
    let area = CapacityArea::plan(HEAD_BYTES, total + fast.size_bytes, total / band_bytes, shape);
    for (i, geometry) in capacity.iter().enumerate() {
        let align = geometry.optimal_band_bytes.unwrap_or_else(|| band_bytes.min(1 << 20));
        let head_bytes = HEAD_BYTES + if i == 0 { area.len_bytes() } else { 0 };
        let start = options.bands_offset_bytes.unwrap_or_else(|| head_bytes.next_multiple_of(align));
        let mine = usable(geometry.size_bytes).saturating_sub(start) / band_bytes;
        if mine < BANDS_MIN || start < head_bytes {
            let needed_bytes = start + BANDS_MIN * band_bytes + 2 * block;
            let size_bytes = geometry.size_bytes;
            return Err(PlanError::TooSmall { role: "capacity", index: i, size_bytes, needed_bytes });
        }
        bands += mine;
        members.push((start, mine * band_bytes, geometry.size_bytes));
    }
    let journal_sector_bytes = logical_block_bytes([fast]);
    let journal_len_bytes = options
        .journal_bytes
        .unwrap_or_else(|| (fast.size_bytes / 64).clamp(512 * 1024, 64 << 20))
        .max(JOURNAL_MIN_BYTES)
        .next_multiple_of(block);
    let index_span = (LEAF_ENTRIES * INDEX_ENTRIES) as u64 * block;
    // Twice the index pages of a capacity tier full of compressed blocks, and room for small disks: every disk has at least one page.
    let index_pages = 2 * PACKED_TIMES_MAX * total / index_span + 4096;
    let fast_blocks = fast.size_bytes / block;
    let blob = Root::size_bound_bytes(fast_blocks, bands, shape, index_pages);
    let root_len_bytes = (blob + 2 * block).next_multiple_of(block);
    let journal_offset_bytes = HEAD_BYTES + 2 * root_len_bytes;
    let slots_offset = journal_offset_bytes + journal_len_bytes;
    let slots = (usable(fast.size_bytes)).saturating_sub(slots_offset) / block;
    if slots < 64 {
        let needed_bytes = slots_offset + 65 * block;
        return Err(PlanError::TooSmall { role: "fast", index: 0, size_bytes: fast.size_bytes, needed_bytes });
    }
    let sectors = |bytes: u64| bytes / SECTOR_BYTES as u64;
    let mut table = vec![Member {
        id: device_ids[0],
        role: Role::Fast,
        first_sector,
        // One slot is never addressed: location 0 means "hole", so the extent starts one block early.
        sectors: sectors((slots + 1) * block),
        size_bytes: fast.size_bytes,
        data_offset_bytes: slots_offset,
    }];
    first_sector += table[0].sectors;
    for (i, (start, len, size_bytes)) in members.into_iter().enumerate() {
        table.push(Member {
            id: device_ids[i + 1],
            role: Role::Capacity,
            first_sector,
            sectors: sectors(len),
            size_bytes,
            data_offset_bytes: start,
        });
        first_sector += sectors(len);
    }
    if first_sector > SECTORS_MAX {
        return Err(PlanError::TooLarge);
    }
    if bands > BANDS_MAX {
        return Err(PlanError::Bands { bands, band_bytes });
    }
    Ok(Superblock {
        compatible: 0,
        read_only_compatible: 0,
        is_mirrored: options.is_mirrored,
        pool,
        index: 0,
        serving: false,
        generation: 1,
        epoch: 1,
        opening: 0,
        opening_before: 0,
        journal_sector_bytes,
        band_bytes,
        root_offsets_bytes: [HEAD_BYTES, HEAD_BYTES + root_len_bytes],
        root_len_bytes,
        journal_offset_bytes,
        journal_len_bytes,
        slots,
        name: options.name.clone(),
        capacity_area: area,
        members: table,
    })
}
