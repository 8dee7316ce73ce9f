//! The stored form of a [`Geometry`], part of `evidence::codec`.

use super::Geometry;
use super::geometry::{Checksums, Copies};
use crate::bytes::{Reader, Writer};

const HAS_JOURNAL: u8 = 1;
const EXTERNAL_JOURNAL: u8 = 2;
const META_BG: u8 = 4;

pub(in super::super) fn encode(out: &mut Writer, geometry: &Geometry) {
    out.bytes(&geometry.uuid);
    out.u64(geometry.blocks);
    for value in [
        geometry.block_log,
        geometry.first_block,
        geometry.group_blocks,
        geometry.groups,
        geometry.inodes,
        geometry.descriptor_bytes,
        geometry.table_blocks,
        geometry.reserved_descriptors,
        geometry.first_meta_bg.unwrap_or_default(),
        geometry.flex,
    ] {
        out.u32(value);
    }
    let (kind, seed) = match geometry.checksums {
        Checksums::None => (0, 0),
        Checksums::Crc16 => (1, 0),
        Checksums::Crc32c(seed) => (2, seed),
    };
    out.u8(kind);
    out.u32(seed);
    let (kind, groups) = match geometry.copies {
        Copies::All => (0, [0; 2]),
        Copies::Sparse => (1, [0; 2]),
        Copies::Two(groups) => (2, groups),
    };
    out.u8(kind);
    out.u32(groups[0]);
    out.u32(groups[1]);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.u8(flag(geometry.has_journal, HAS_JOURNAL)
        | flag(geometry.external_journal, EXTERNAL_JOURNAL)
        | flag(geometry.first_meta_bg.is_some(), META_BG));
}

/// `None` for any value that would make arithmetic on the geometry fail.
pub(in super::super) fn decode(input: &mut Reader<'_>) -> Option<Geometry> {
    let (uuid, blocks) = (input.uuid()?, input.u64()?);
    let block_log = input.u32().filter(|log| (10..=16).contains(log))?;
    let first_block = input.u32().filter(|&first| first <= 1)?;
    let group_blocks = input.u32().filter(|&blocks| blocks > 0)?;
    let (groups, inodes) = (input.u32()?, input.u32()?);
    let descriptor_bytes = input.u32().filter(|&bytes| bytes.is_power_of_two() && (32..=1024).contains(&bytes))?;
    let table_blocks = input.u32().filter(|&blocks| blocks <= 1 << 24)?;
    let reserved_descriptors = input.u32().filter(|&blocks| blocks <= 0xffff)?;
    let first_meta_bg = input.u32()?;
    let flex = input.u32().filter(|groups| groups.is_power_of_two())?;
    let (kind, seed) = (input.u8()?, input.u32()?);
    let checksums = match kind {
        0 => Checksums::None,
        1 => Checksums::Crc16,
        2 => Checksums::Crc32c(seed),
        _ => return None,
    };
    let (kind, two) = (input.u8()?, [input.u32()?, input.u32()?]);
    let copies = match kind {
        0 => Copies::All,
        1 => Copies::Sparse,
        2 => Copies::Two(two),
        _ => return None,
    };
    let flags = input.u8()?;
    blocks.checked_mul(1 << block_log)?;
    let mut geometry = Geometry {
        uuid,
        block_log,
        blocks,
        first_block,
        group_blocks,
        groups,
        inodes,
        descriptor_bytes,
        table_blocks,
        reserved_descriptors,
        first_meta_bg: (flags & META_BG != 0).then_some(first_meta_bg),
        flex,
        checksums,
        copies,
        has_journal: flags & HAS_JOURNAL != 0,
        external_journal: flags & EXTERNAL_JOURNAL != 0,
        widest_overhead: 0,
    };
    geometry.derive();
    Some(geometry)
}
