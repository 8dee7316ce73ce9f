//! The shape of a new array.

use super::parts::geometry_of;
use crate::layout::array_shape::{BLOCK, Redundancy, SLOT_BYTES, Shape};
use crate::layout::band_summary::BandShape;
use crate::layout::capacity_area::CapacityArea;
use crate::layout::member_label::logical_block_bytes;
use crate::layout::plan::default_band_bytes;
use crate::layout::superblock::HEAD_BYTES;
use forebay_block::Geometry;
use thiserror::Error;

/// Why devices cannot be an array.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ShapeError {
    /// Another number of devices than the redundancy needs.
    #[error("redundancy {redundancy} takes {needed} capacity devices, and {given} are configured")]
    Devices {
        /// The redundancy.
        redundancy: Redundancy,
        /// So many are needed.
        needed: usize,
        /// So many are there.
        given: usize,
    },
    /// A band is no whole number of rows.
    #[error("band of {band_bytes} bytes: with redundancy {redundancy} use a multiple of {row_bytes}")]
    Band {
        /// The band.
        band_bytes: u64,
        /// The redundancy.
        redundancy: Redundancy,
        /// Bytes of data in a row.
        row_bytes: u64,
    },
    /// There is no room for a band.
    #[error(
        "the smallest capacity device has {member_bytes} bytes, which is too little for bands of {band_bytes} bytes over all of them"
    )]
    TooSmall {
        /// The smallest member.
        member_bytes: u64,
        /// The band.
        band_bytes: u64,
    },
}

/// Lays an array out over devices: its shape, and its geometry as one device.
///
/// # Errors
/// See [`ShapeError`].
pub fn plan_shape(
    members: &[Geometry],
    redundancy: Redundancy,
    band_bytes: Option<u64>,
    fast_bytes: u64,
) -> Result<(Shape, Geometry), ShapeError> {
    let Redundancy { data, parity } = redundancy;
    if members.len() != data + parity {
        return Err(ShapeError::Devices { redundancy, needed: data + parity, given: members.len() });
    }
    let member_bytes = members.iter().map(|member| member.size_bytes / BLOCK * BLOCK).min().unwrap_or(0);
    let total_bytes = data as u64 * member_bytes;
    let row_bytes = data as u64 * BLOCK;
    let own = members.iter().filter_map(|member| member.optimal_band_bytes).max();
    let own = own.map(|bytes| bytes.saturating_mul(data as u64));
    let band_bytes =
        band_bytes.unwrap_or_else(|| own.unwrap_or(default_band_bytes(total_bytes)).next_multiple_of(row_bytes));
    if band_bytes == 0 || !band_bytes.is_multiple_of(row_bytes) {
        return Err(ShapeError::Band { band_bytes, redundancy, row_bytes });
    }
    let bands = BandShape::new(band_bytes);
    let area = CapacityArea::plan(HEAD_BYTES, total_bytes + fast_bytes, total_bytes / band_bytes, bands);
    let head_bytes = (HEAD_BYTES + area.len_bytes()).next_multiple_of(1 << 20);
    // A two-hundredth of a member, at most 8 MiB.
    let log_slots = (member_bytes / 200 / SLOT_BYTES).clamp(64, 1024) as u32;
    let shape = Shape { data, parity, member_bytes, head_bytes, band_bytes, log_slots };
    if !shape.is_possible() {
        return Err(ShapeError::TooSmall { member_bytes, band_bytes });
    }
    Ok((shape, geometry_of(&shape, logical_block_bytes(members), members.iter())))
}
