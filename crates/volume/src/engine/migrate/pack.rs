//! Compressing what leaves the fast tier, some blocks at a time, so that hosts are served in between.

use super::job::{Candidate, JobKind, Phase};
use super::rooms::{After, Moving};
use super::destinations::write_destinations;
use crate::layout::record::Stored;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, ClassId, SECTOR_BYTES};
use forebay_prism::{Compress, Place, Prism};
use std::collections::BTreeMap;

/// How long a step may take, in units of what LZ4 takes for a block: some 2 us.
const STEP_COST: u32 = 64;
/// What levels of Zstandard take, in the same unit.
const ZSTD_COSTS: [(u8, u32); 4] = [(4, 12), (8, 32), (12, 80), (19, 400)];
/// After so many blocks of a class in a row that would not shrink only some are tried.
const FAILURES_MAX: u32 = 16;
/// Then each time so many are stored as they are before one is tried again.
const PASSED_OVER: u32 = 31;

/// What is known of a class's data.
#[derive(Clone, Copy, Debug, Default)]
struct Luck {
    /// Blocks in a row that would not shrink.
    failures: u32,
    /// Blocks to be passed over before the next is tried.
    pass_over: u32,
}

/// Which classes are worth the attempt.
#[derive(Debug, Default)]
pub(crate) struct Lucks {
    by_class: BTreeMap<u8, Luck>,
}

impl Lucks {
    fn may_try(&mut self, class: ClassId) -> bool {
        let luck = self.by_class.entry(class.0).or_default();
        let passes = luck.pass_over > 0;
        luck.pass_over = luck.pass_over.saturating_sub(1);
        !passes
    }

    fn tried(&mut self, class: ClassId, has_shrunk: bool) {
        let luck = self.by_class.entry(class.0).or_default();
        luck.failures = if has_shrunk { 0 } else { (luck.failures + 1).min(FAILURES_MAX) };
        luck.pass_over = if luck.failures == FAILURES_MAX { PASSED_OVER } else { 0 };
    }
}

/// How blocks of a class are compressed.
fn compress_of(prism: &Prism, class: ClassId) -> Compress {
    let spec = prism.table().get(class);
    // A class on both tiers has copies on the fast one, which are known by the checksum of what is stored.
    spec.filter(|spec| spec.place != Place::Both).map_or(Compress::Off, |spec| spec.compress)
}

fn cost_of(compress: Compress) -> u32 {
    match compress {
        Compress::Off => 0,
        Compress::Lz4 => 1,
        Compress::Zstd(level) => ZSTD_COSTS.iter().find(|(to, _)| level <= *to).map_or(STEP_COST, |(_, cost)| *cost),
    }
}

/// All sources were read: what is destaged is compressed. What collection moves stays as it is stored, so that all copies of a
/// block that have one origin are alike.
pub(super) fn pack_sources(rooms: &mut Moving<'_>, id: u32) -> After {
    let Some(job) = rooms.migrate.job_mut(id) else { return After::Wait };
    job.phase = Phase::Pack;
    job.next = 0;
    pack_on(rooms, id)
}

/// Goes on with a job's blocks.
pub(super) fn pack_on(rooms: &mut Moving<'_>, id: u32) -> After {
    let mut cost = 0;
    let lucks = &mut rooms.migrate.lucks;
    let Some(job) = rooms.migrate.jobs.get_mut(id as usize) else { return After::Wait };
    if job.kind == JobKind::Destage && rooms.setup.superblock.has_packed_blocks {
        while let Some(candidate) = job.candidates.get_mut(job.next) {
            let compress = compress_of(rooms.prism, candidate.moved.class);
            if compress != Compress::Off && candidate.data.is_some() && lucks.may_try(candidate.moved.class) {
                if cost >= STEP_COST {
                    return After::Wait;
                }
                cost += cost_of(compress);
                let packed = candidate.data.as_deref().and_then(|block| rooms.packer.pack(compress, block));
                lucks.tried(candidate.moved.class, packed.is_some());
                if let Some(packed) = packed {
                    take_packed(candidate, packed);
                }
            }
            job.next += 1;
        }
    }
    job.next = 0;
    // What is packed lies together, behind what is not: that begins where blocks of the device do.
    job.candidates.sort_by_key(|c| (c.stream, c.is_packed(), c.moved.disk, c.moved.block));
    write_destinations(rooms, id)
}

fn take_packed(candidate: &mut Candidate, packed: &[u8]) {
    let moved = &mut candidate.moved;
    let checksum = block_checksum(moved.disk, moved.block, packed);
    moved.stored = Stored { sectors: (packed.len() / SECTOR_BYTES) as u8, checksum };
    candidate.data = Some(Buf::copy_of(packed).freeze());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_does_not_shrink_is_tried_ever_again_and_seldom() {
        let (mut lucks, class) = (Lucks::default(), ClassId(3));
        let mut tries = |shrinks: bool, blocks: u32| {
            let mut tries = 0;
            for _ in 0..blocks {
                if lucks.may_try(class) {
                    tries += 1;
                    lucks.tried(class, shrinks);
                }
            }
            tries
        };
        assert_eq!(tries(true, 100), 100);
        assert_eq!(tries(false, 15), 15, "some blocks of any data do not shrink");
        assert_eq!(tries(false, 1 + 32 * 10), 11);
        // Within 31 blocks it is noticed that others have come.
        assert_eq!(tries(true, 31 + 100), 100);
        assert!(Lucks::default().may_try(class));
    }

    #[test]
    fn a_step_ends_after_few_blocks_of_what_takes_long() {
        assert!(cost_of(Compress::Zstd(3)) * 8 > STEP_COST && cost_of(Compress::Zstd(19)) > STEP_COST);
        assert!(Compress::Lz4.to_string() == "lz4" && cost_of(Compress::Lz4) == 1);
    }
}
