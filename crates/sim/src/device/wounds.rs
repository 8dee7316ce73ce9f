//! Damage at rest, and single misreads.

use crate::fault::FaultKind;
use crate::medium::Medium;
use crate::stamp::{SECTOR_BYTES, tag_of};
use forebay_block::{Buf, Random};
use std::collections::{BTreeSet, VecDeque};

/// Flips a bit in byte `at` of read data.
pub(super) fn misread(bufs: &mut [Buf], mut at: usize, bit: u32) {
    for buf in bufs {
        if let Some(byte) = buf.get_mut(at) {
            *byte ^= 1 << (bit % 8);
            return;
        }
        at -= buf.len();
    }
}

/// A byte of the last writes (offsets and lengths in bytes), or of any stored data.
fn place(medium: &Medium, last_written: &VecDeque<(usize, usize)>, random: &mut Random) -> usize {
    let (offset, len) = match random.below(2) {
        0 if !last_written.is_empty() => last_written[random.index(last_written.len())],
        _ => {
            let sectors = medium.len_bytes() / SECTOR_BYTES;
            let any = |random: &mut Random| random.index(sectors) * SECTOR_BYTES;
            let mut at = any(random);
            // Bounded, so that an empty device also gets rot somewhere.
            for _ in 0..200 {
                if medium.read(at, SECTOR_BYTES).iter().any(|&byte| byte != 0) {
                    break;
                }
                at = any(random);
            }
            (at, SECTOR_BYTES)
        }
    };
    offset + random.index(len)
}

/// Flips a bit at rest. Returns the byte, and the tag where it lies in a host's sector.
pub(super) fn rot(medium: &mut Medium, last_written: &VecDeque<(usize, usize)>, seed: u64) -> (u64, Option<u32>) {
    let mut random = Random::new(seed);
    let at = place(medium, last_written, &mut random);
    let tag = tag_of(medium.read(at / SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES)).filter(|&tag| tag != 0);
    medium.flip(at, random.below(8) as u32);
    (at as u64, tag)
}

/// Makes a stored sector unreadable. Returns its number.
pub(super) fn die(
    (medium, dead_sectors): (&Medium, &mut BTreeSet<u64>),
    last_written: &VecDeque<(usize, usize)>,
    seed: u64,
) -> u64 {
    let sector = (place(medium, last_written, &mut Random::new(seed)) / SECTOR_BYTES) as u64;
    dead_sectors.insert(sector);
    sector
}

/// Blocks of 4 KiB with a sector whose tag is wanted.
pub(super) fn blocks_with(medium: &Medium, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u64> {
    let mut blocks: Vec<u64> = sectors_with(medium, is_wanted).into_iter().map(|(sector, _)| sector / 8).collect();
    blocks.dedup();
    blocks
}

/// Tags of the sectors of a 4 KiB block; `None` where a power cut lost the last write, or the block is a summary.
pub(super) fn tags_at(medium: &Medium, block: u64) -> Option<Vec<u32>> {
    let bytes = medium.read(block as usize * 4096, 4096);
    if bytes.starts_with(b"FBBS") || (block * 8..block * 8 + 8).any(|sector| medium.is_lost(sector)) {
        return None;
    }
    Some(bytes.chunks_exact(SECTOR_BYTES).filter_map(tag_of).filter(|&tag| tag != 0).collect())
}

/// Sectors with one of these tags, except those whose newest write a power cut lost: where their old content is unreadable, nothing shows
/// that it is not the new content, and the tag does not show whose block that was.
fn sectors_with(medium: &Medium, is_wanted: &dyn Fn(u32) -> bool) -> Vec<(u64, u32)> {
    let sectors = medium.read(0, medium.len_bytes()).chunks_exact(SECTOR_BYTES);
    let tagged = (0..).zip(sectors).filter_map(|(at, sector)| Some((at, tag_of(sector)?)));
    tagged.filter(|&(at, tag)| tag != 0 && is_wanted(tag) && !medium.is_lost(at)).collect()
}

/// Selects a sector by byte offset, first bytes of its 4 KiB block, and tag.
pub type Wanted<'a> = dyn Fn(u64, &[u8], Option<u32>) -> bool + 'a;

/// Wanted sectors, selected by byte offset, first bytes of their 4 KiB block, and tag, except those whose newest write a power cut lost.
pub(super) fn sectors_of(medium: &Medium, is_wanted: &Wanted<'_>) -> Vec<u64> {
    let bytes = medium.read(0, medium.len_bytes());
    let is_one = |&(at, sector): &(u64, &[u8])| {
        let block = at as usize / 8 * 8 * SECTOR_BYTES;
        let tag = tag_of(sector).filter(|&tag| tag != 0);
        is_wanted(at * SECTOR_BYTES as u64, &bytes[block..block + 4], tag) && !medium.is_lost(at)
    };
    (0..).zip(bytes.chunks_exact(SECTOR_BYTES)).filter(is_one).map(|(at, _)| at).collect()
}

/// Flips a bit of a sector, or makes it unreadable.
pub(super) fn hurt((medium, dead): (&mut Medium, &mut BTreeSet<u64>), kind: FaultKind, sector: u64, seed: u64) {
    let mut random = Random::new(seed);
    if kind == FaultKind::DeadSector {
        dead.insert(sector);
    } else {
        medium.flip(sector as usize * SECTOR_BYTES + random.index(SECTOR_BYTES), random.below(8) as u32);
    }
}

/// Makes sectors at rest unreadable, or flips a bit of each, among those with a wanted tag. Returns the tags.
pub(super) fn wound(
    (medium, dead_sectors): (&mut Medium, &mut BTreeSet<u64>),
    kind: FaultKind,
    count: usize,
    seed: u64,
    is_wanted: &dyn Fn(u32) -> bool,
) -> Vec<u32> {
    let mut sectors = sectors_with(medium, is_wanted);
    let mut random = Random::new(seed);
    let mut tags = Vec::new();
    for _ in 0..count {
        if sectors.is_empty() {
            break;
        }
        let (sector, tag) = sectors.swap_remove(random.index(sectors.len()));
        if kind == FaultKind::DeadSector {
            dead_sectors.insert(sector);
        } else {
            medium.flip(sector as usize * SECTOR_BYTES + random.index(SECTOR_BYTES), random.below(8) as u32);
        }
        tags.push(tag);
    }
    tags
}
