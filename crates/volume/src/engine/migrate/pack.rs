//! Compresses what leaves the fast tier, some blocks at a time, so that hosts are served in between.

use super::destinations::write_destinations;
use super::job::{Candidate, JobKind, Phase};
use super::rooms::{After, Moving};
use crate::engine::packing::Packing;
use crate::layout::packed::stored_checksum;
use crate::layout::page::GRAIN_BYTES;
use crate::layout::stored::Stored;
use forebay_block::SharedBuf;
use forebay_prism::Compress;

/// What a step may cost, in units of what LZ4 takes for a block: some 2 us.
const STEP_COST: u32 = 64;
/// What levels of Zstandard cost, in the same unit.
const ZSTD_COSTS: [(u8, u32); 4] = [(4, 12), (8, 32), (12, 80), (19, 400)];

fn cost_of(compress: Compress) -> u32 {
    match compress {
        Compress::Off => 0,
        Compress::Lz4 => 1,
        Compress::Zstd(level) => ZSTD_COSTS.iter().find(|(to, _)| level <= *to).map_or(STEP_COST, |(_, cost)| *cost),
    }
}

/// All sources were read: what is destaged is compressed. Collection moves blocks as they are stored, so that all copies of a block that have one origin are
/// alike.
pub(super) fn pack_sources(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.phase = Phase::Pack;
    job.next = 0;
    pack_on(rooms, id)
}

/// Goes on with a job's blocks.
pub(super) fn pack_on(rooms: &mut Moving<'_>, id: u32) -> After {
    let mut cost = 0;
    let Some(job) = rooms.migrate.jobs.get_mut(id as usize) else { return After::Wait };
    if job.kind == JobKind::Destage {
        while let Some(candidate) = job.candidates.get_mut(job.next) {
            let (class, compress) = (candidate.moved.class, Packing::of_class(rooms.prism, candidate.moved.class));
            if cost >= STEP_COST {
                return After::Wait;
            }
            cost += cost_of(compress);
            let whose = (candidate.moved.disk, candidate.moved.block);
            let block = candidate.data.as_deref().filter(|_| candidate.moved.source.is_whole());
            let packed = block.and_then(|block| rooms.packing.pack((class, compress), whose, block));
            if let Some(packed) = packed {
                take_packed(candidate, packed);
            }
            job.next += 1;
        }
    }
    job.next = 0;
    // Compressed blocks lie together, behind the uncompressed ones, which begin where blocks of the device do.
    job.candidates.sort_by_key(|c| (c.stream, c.is_packed(), c.moved.disk, c.moved.block));
    write_destinations(rooms, id)
}

fn take_packed(candidate: &mut Candidate, packed: SharedBuf) {
    let moved = &mut candidate.moved;
    if let Some(checksum) = stored_checksum(moved.disk, moved.block, &packed) {
        moved.stored = Stored { grains: (packed.len() / GRAIN_BYTES) as u8, checksum };
        candidate.data = Some(packed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_after_few_blocks_of_what_takes_long() {
        assert!(cost_of(Compress::Zstd(3)) * 8 > STEP_COST && cost_of(Compress::Zstd(19)) > STEP_COST);
        assert!(Compress::Lz4.to_string() == "lz4" && cost_of(Compress::Lz4) == 1);
    }
}
