//! Adoption: what disks have only in their bases is copied into the pool, step by step and where hosts leave time, until a base is not needed any more. This
//! file decides what is copied next and keeps what came of it; `requests/adopt.rs` copies.

use super::leisure::Leisure;
use super::scrub::Blocks;
use super::transient_leaf::TransientLeaf;
use crate::layout::page::LEAF_ENTRIES;
use crate::request::RequestError;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK, DiskId};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::ops::Range;

/// Most blocks copied at once.
pub(crate) const STEP_BLOCKS: u64 = 128;
/// A look at blocks that need not be copied takes the time of so many blocks: their leaf may have to be read.
const LOOK_BLOCKS: u64 = 1;
/// Most looks in one step.
const LOOKS_MAX: usize = 64;
/// Most ranges kept of what could not be copied.
const FAILED_MAX: usize = 64;
/// How long nothing is copied of a disk whose base could not be read, in nanoseconds.
const REST_NS: u64 = 5_000_000_000;
/// How long nothing is copied after the pool could not take it for the first time, in nanoseconds; the next time twice as long, and [`REST_NS`] at most.
const FIRST_REST_NS: u64 = 20_000_000;

/// How far the copying of one disk is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptionStatus {
    /// Blocks of the base that were looked at in this pass; the pool has them as far as they could be copied.
    pub done_blocks: u64,
    /// Blocks of the base.
    pub blocks: u64,
    /// The base is not needed any more.
    pub is_complete: bool,
    /// A root without the base is being written: the base is needed until that is durable.
    pub is_leaving: bool,
    /// The base is not there.
    pub is_missing: bool,
    /// Blocks that could not be copied, and are tried again; where there are many, some blocks between them count as
    /// well.
    pub failed_blocks: u64,
    /// Why the last block that failed could not be copied.
    pub why: Option<RequestError>,
}

/// Blocks of some ranges.
fn blocks_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[derive(Debug, Default)]
struct Progress {
    /// Blocks of the base.
    blocks: u64,
    /// What was not looked at yet in this pass; the next range is last.
    left: Vec<Range<u64>>,
    /// In this pass blocks that the pool has are read, and not passed over.
    reads: bool,
    /// A pass that reads has to follow: what the pool has is from an earlier run, or some of it was lost or damaged since this pass began.
    is_doubted: bool,
    /// What could not be copied in this pass, in ascending order.
    failed: Vec<Range<u64>>,
    /// What is left could not be copied in the pass before.
    is_again: bool,
    why: Option<RequestError>,
    /// Nothing of this disk is copied before this time.
    rests_until_ns: u64,
}

impl Progress {
    fn is_complete(&self) -> bool {
        self.left.is_empty() && self.failed.is_empty() && !self.is_doubted
    }

    /// Where all was looked at and is in doubt, a pass begins that reads all.
    fn look_again(&mut self) {
        if self.is_doubted && self.left.is_empty() && self.failed.is_empty() {
            let left = once(0..self.blocks).filter(|range| !range.is_empty()).collect();
            *self = Self { blocks: self.blocks, left, reads: true, ..Self::default() };
        }
    }

    fn failed_blocks(&self) -> u64 {
        blocks_of(&self.failed) + if self.is_again { blocks_of(&self.left) } else { 0 }
    }

    /// The next range begins at `until` from now on.
    fn cut(&mut self, until: u64) {
        if let Some(next) = self.left.last_mut() {
            next.start = until.max(next.start);
            if next.is_empty() {
                self.left.pop();
            }
        }
    }

    /// The next range was looked at up to `until`. Where it was the last, what failed is tried again, later.
    fn looked_at(&mut self, until: u64, now_ns: u64) {
        self.cut(until);
        if !self.left.is_empty() || self.failed.is_empty() {
            return self.look_again();
        }
        self.left.extend(self.failed.drain(..).rev());
        self.is_again = true;
        self.rests_until_ns = now_ns.saturating_add(REST_NS);
    }

    /// Blocks of the next range could not be copied together: each half is tried by itself.
    fn halve(&mut self, Range { start, end }: Range<u64>) {
        let middle = start + (end - start) / 2;
        self.cut(end);
        self.left.extend([middle..end, start..middle]);
    }

    /// A block cannot be copied. Where there are more of them than ranges are kept, the last range takes in what lies
    /// between.
    fn failed(&mut self, block: u64) {
        let is_full = self.failed.len() >= FAILED_MAX;
        match self.failed.last_mut() {
            Some(last) if is_full || last.end == block => last.end = block + 1,
            _ => self.failed.push(block..block + 1),
        }
    }
}

/// The copying.
#[derive(Debug)]
pub(crate) struct Adoption {
    pub leisure: Leisure,
    pub transient: TransientLeaf,
    disks: BTreeMap<u16, Progress>,
    in_flight: Option<Blocks>,
    /// Disks whose base is kept for this run: what a crash left and could not be written again may be in a cache only.
    kept: BTreeSet<u16>,
    /// How long nothing is copied the next time that the pool cannot take it, in nanoseconds.
    next_rest_ns: u64,
}

impl Adoption {
    /// At most so many bytes a second, while hosts have no requests.
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Self {
            leisure: Leisure::new(rate_bytes_per_s),
            transient: TransientLeaf::default(),
            disks: BTreeMap::new(),
            in_flight: None,
            kept: BTreeSet::new(),
            next_rest_ns: FIRST_REST_NS,
        }
    }

    /// Begins to copy what a disk has in its base, which has so many blocks. `has_some`: the pool has some of it from an earlier run. A flush that failed may
    /// have lost that, or it may be damaged, so all of it is read before the base is given up.
    pub fn begin(&mut self, disk: DiskId, blocks: u64, has_some: bool) {
        let left = once(0..blocks).collect();
        let begun = Progress { blocks, left, is_doubted: has_some, ..Progress::default() };
        self.disks.entry(disk.0).or_insert(begun);
    }

    /// Some of what the pool has of a disk was lost, or is damaged: all is read once more.
    pub fn doubt(&mut self, disk: DiskId) {
        if let Some(progress) = self.disks.get_mut(&disk.0) {
            progress.is_doubted = true;
            progress.look_again();
        }
    }

    /// The bases of these disks are kept for this run.
    pub fn keep(&mut self, disks: impl Iterator<Item = DiskId>) {
        self.kept.extend(disks.map(|disk| disk.0));
    }

    /// Whether a disk's base is kept for this run, whatever was copied.
    pub fn is_kept(&self, disk: DiskId) -> bool {
        self.kept.contains(&disk.0)
    }

    /// Whether blocks that the pool has of a disk are read, and not passed over.
    pub fn reads(&self, disk: DiskId) -> bool {
        self.disks.get(&disk.0).is_none_or(|progress| progress.reads)
    }

    /// Only disks that need their base go on.
    pub fn retain(&mut self, needs: impl Fn(u16) -> bool) {
        self.disks.retain(|&disk, _| needs(disk));
    }

    /// Whether no disk lies over a base.
    pub fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    /// What is copied next, where there is time for it. `is_served` returns whether a durable root names a disk. `to_copy` returns the first of some blocks of
    /// a leaf that have to be looked at one by one, or an empty range at their end where the pool has them all. It is not called where blocks that the pool has
    /// are read.
    pub fn begin_step(
        &mut self,
        now_ns: u64,
        is_served: impl Fn(u16) -> bool,
        to_copy: impl Fn(&Blocks) -> Range<u64>,
    ) -> Option<Blocks> {
        for _ in 0..LOOKS_MAX {
            if self.in_flight.is_some() || !self.leisure.has_come(now_ns) {
                return None;
            }
            let is_next = |(disk, progress): &(&u16, &mut Progress)| {
                !progress.is_complete() && progress.rests_until_ns <= now_ns && is_served(**disk)
            };
            let (&disk, progress) = self.disks.iter_mut().find(is_next)?;
            let next = progress.left.last()?;
            let of_leaf = (next.start / LEAF_ENTRIES as u64 + 1) * LEAF_ENTRIES as u64;
            let range = next.start..next.end.min(of_leaf);
            let range = match progress.reads {
                true => range.start..range.end.min(range.start + STEP_BLOCKS),
                false => to_copy(&Blocks { disk: DiskId(disk), range }),
            };
            progress.looked_at(range.start, now_ns);
            self.leisure.take(now_ns, (range.end - range.start).max(LOOK_BLOCKS) * BLOCK);
            if !range.is_empty() {
                let blocks = Blocks { disk: DiskId(disk), range };
                self.in_flight = Some(blocks.clone());
                return Some(blocks);
            }
        }
        None
    }

    /// A step has ended, in which so many blocks had to be read.
    pub fn ended(&mut self, now_ns: u64, read_blocks: u64, error: Option<RequestError>) {
        let Some(Blocks { disk, range }) = self.in_flight.take() else { return };
        if read_blocks == 0 && error.is_none() {
            self.leisure.take_back();
            self.leisure.take(now_ns, LOOK_BLOCKS * BLOCK);
        }
        let Some(progress) = self.disks.get_mut(&disk.0) else { return };
        match error {
            None => {
                progress.looked_at(range.end, now_ns);
                if progress.failed_blocks() == 0 {
                    progress.why = None;
                }
                self.next_rest_ns = FIRST_REST_NS;
            }
            // The block cannot be read, in the base or in the pool.
            Some(why @ (RequestError::Device { .. } | RequestError::Damaged { .. })) => {
                progress.why = Some(why);
                if range.end - range.start > 1 {
                    return progress.halve(range);
                }
                progress.failed(range.start);
                progress.looked_at(range.end, now_ns);
            }
            // The pool cannot take the block now.
            Some(why) => {
                if self.next_rest_ns == REST_NS {
                    // By now it is more than a passing matter.
                    progress.why = Some(why);
                }
                self.leisure.rest_until(now_ns.saturating_add(self.next_rest_ns));
                self.next_rest_ns = (self.next_rest_ns * 2).min(REST_NS);
            }
        }
    }

    /// How far the copying of a disk is; `blocks`: those of its base.
    pub fn status(&self, disk: DiskId, blocks: u64) -> AdoptionStatus {
        let Some(progress) = self.disks.get(&disk.0) else {
            return AdoptionStatus { blocks, is_missing: true, ..Default::default() };
        };
        AdoptionStatus {
            done_blocks: blocks.saturating_sub(blocks_of(&progress.left) + blocks_of(&progress.failed)),
            blocks,
            is_complete: progress.is_complete(),
            is_leaving: false,
            is_missing: false,
            failed_blocks: progress.failed_blocks(),
            why: progress.why.clone(),
        }
    }
}

#[cfg(test)]
#[path = "adoption_tests.rs"]
mod tests;
