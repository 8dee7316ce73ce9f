//! Reading the root that checkpoints leave on the capacity tier.

use crate::io::Devices;
use crate::layout::capacity_root::{CapacityHeader, CapacityRoot, HEADER_BYTES};
use crate::layout::superblock::Superblock;
use forebay_block::checksum::crc32c;

/// What an area holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No header: never written, or damaged.
    Nothing,
    /// A header whose blob is not what it says, or holds what cannot be.
    Damaged(CapacityHeader),
    /// A root.
    Root(CapacityHeader, CapacityRoot),
}

/// Reads both areas, from the device at `device` of the list. What is damaged is read once more: one transfer may go
/// wrong.
pub fn read_capacity_roots(devices: &mut Devices, device: usize, superblock: &Superblock) -> [Found; 2] {
    [0, 1].map(|parity| {
        let found = read_area(devices, device, superblock, parity);
        if let Found::Root(..) = found { found } else { read_area(devices, device, superblock, parity) }
    })
}

fn read_area(devices: &mut Devices, device: usize, superblock: &Superblock, parity: u64) -> Found {
    let area = superblock.capacity_area;
    if !area.exists() {
        return Found::Nothing;
    }
    let offset_bytes = area.header_offset_bytes(parity);
    let bytes = devices.read(device, offset_bytes, HEADER_BYTES);
    let header = bytes.ok().and_then(|bytes| CapacityHeader::decode(&bytes, &superblock.pool));
    let Some(header) = header.filter(|header| header.checkpoint % 2 == parity) else { return Found::Nothing };
    if header.blob_len_bytes > area.blob_bytes_max() {
        return Found::Damaged(header);
    }
    let padded = header.blob_len_bytes.next_multiple_of(4096) as usize;
    let Ok(mut blob) = devices.read(device, offset_bytes + HEADER_BYTES as u64, padded) else {
        return Found::Damaged(header);
    };
    blob.truncate(header.blob_len_bytes as usize);
    if crc32c(&blob) != header.blob_crc {
        return Found::Damaged(header);
    }
    match CapacityRoot::decode(&blob, superblock) {
        Some(root) => Found::Root(header, root),
        None => Found::Damaged(header),
    }
}

/// The root that was written with a checkpoint of the fast tier.
pub(super) fn capacity_root_of(
    devices: &mut Devices,
    superblock: &Superblock,
    checkpoint: u64,
    epoch: u64,
) -> Option<CapacityRoot> {
    let found = read_capacity_roots(devices, crate::layout::capacity_root::DEVICE, superblock);
    found.into_iter().find_map(|found| match found {
        Found::Root(header, root) if (header.checkpoint, header.epoch) == (checkpoint, epoch) => Some(root),
        _ => None,
    })
}
