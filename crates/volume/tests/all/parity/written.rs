//! What a life of an array writes.

use super::member::Member;
use forebay_block::{Geometry, Random};
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::{Superblock, copy_offsets_bytes};
use forebay_volume::mirror::Candidate;

/// Pool id of all arrays here.
pub const POOL: [u8; 16] = [7; 16];

/// A superblock as the pool has it on its only capacity device, whatever else it says.
fn superblock(epoch: u64) -> Vec<u8> {
    let geometry = |size_bytes| Geometry {
        size_bytes,
        logical_block_bytes: 512,
        optimal_band_bytes: None,
        volatile_cache: false,
        durable_writes: true,
        discards: false,
    };
    let options = PoolOptions {
        name: "array".into(),
        band_bytes: Some(64 << 10),
        journal_bytes: Some(256 << 10),
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let planned = plan(&options, &geometry(4 << 20), &[geometry(16 << 20)], POOL, &[[1; 16], [2; 16]]).unwrap();
    Superblock { index: 1, epoch, ..planned }.encode()
}

/// Writes superblocks as of an opening in this epoch.
pub fn put_superblocks(member: &Member, epoch: u64) {
    let mut medium = member.medium();
    for at in copy_offsets_bytes(medium.durable.len() as u64) {
        medium.durable[at as usize..][..4096].copy_from_slice(&superblock(epoch));
    }
}

/// Data written to a block of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub tag: u64,
    pub acked: bool,
    pub durable: bool,
}

/// What is in flight.
pub enum Flight {
    Write { first: u64, blocks: u64, fua: bool },
    Flush { covers: Vec<(u64, u64)> },
    Discard,
}

/// Contents that a write puts into a block.
pub fn content(block: u64, tag: u64) -> Vec<u8> {
    let mut random = Random::new(block << 32 ^ tag);
    (0..512).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

/// A member as found at the start.
pub fn candidate(member: &Member) -> Candidate {
    let medium = member.medium();
    let is_blank = medium.durable.iter().all(|&byte| byte == 0);
    let (name, is_dead) = (medium.name.clone(), medium.is_dead);
    drop(medium);
    Candidate {
        name,
        device: if is_dead { Err("dead".to_owned()) } else { Ok(member.boxed()) },
        contents: if is_blank { Vec::new() } else { vec!["something".to_owned()] },
    }
}
