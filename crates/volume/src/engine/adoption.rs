//! Adoption: what disks still have in their bases is copied into the pool, step by step and where hosts leave time, until a base is not
//! needed any more. Here is what is copied next and what came of it; `requests/adopt.rs` does it.

use super::leisure::Leisure;
use super::scrub::Blocks;
use crate::layout::page::LEAF_ENTRIES;
use crate::request::RequestError;
use forebay_block::DiskId;
use std::collections::BTreeMap;

/// Blocks copied at once, at most.
const STEP_BLOCKS: u64 = 128;
/// How long nothing is copied after something failed, in nanoseconds.
const REST_NS: u64 = 5_000_000_000;
const BLOCK: u64 = 4096;

/// How far the copying of one disk is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdoptionStatus {
    /// Blocks of the base, from its first on, that the pool has looked at since it was opened, and has where it could.
    pub done_blocks: u64,
    /// Blocks of the base.
    pub blocks: u64,
    /// The base is not needed any more.
    pub is_complete: bool,
    /// Blocks that could not be copied in this pass.
    pub failed_blocks: u64,
    /// Why the last of them could not.
    pub why: Option<RequestError>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The first block that was not looked at yet.
    next: u64,
    /// Up to here block by block, for one of these could not be copied.
    singly_until: u64,
    is_complete: bool,
    failed_blocks: u64,
    why: Option<RequestError>,
    /// Nothing of it before this time.
    rests_until_ns: u64,
}

/// The copying.
#[derive(Debug)]
pub(crate) struct Adoption {
    pub leisure: Leisure,
    disks: BTreeMap<u16, Progress>,
    in_flight: Option<Blocks>,
}

impl Adoption {
    /// So many bytes a second at most, while hosts ask for nothing.
    pub fn new(rate_bytes_per_s: u64) -> Self {
        Self { leisure: Leisure::new(rate_bytes_per_s), disks: BTreeMap::new(), in_flight: None }
    }

    /// What a disk has in its base is copied from now on.
    pub fn begin(&mut self, disk: DiskId) {
        self.disks.entry(disk.0).or_default();
    }

    /// Only those go on.
    pub fn retain(&mut self, needs: impl Fn(u16) -> bool) {
        self.disks.retain(|&disk, _| needs(disk));
    }

    /// Whether no disk lies over a base.
    pub fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    /// What is copied next, where there is time for it: blocks of one leaf. `base_blocks`: of a disk.
    pub fn begin_step(&mut self, now_ns: u64, base_blocks: impl Fn(u16) -> u64) -> Option<Blocks> {
        if self.in_flight.is_some() || !self.leisure.has_come(now_ns) {
            return None;
        }
        let is_next = |progress: &Progress| !progress.is_complete && progress.rests_until_ns <= now_ns;
        let (&disk, progress) = self.disks.iter().find(|(_, progress)| is_next(progress))?;
        let start = progress.next;
        let of_leaf = (start / LEAF_ENTRIES as u64 + 1) * LEAF_ENTRIES as u64;
        let most = if start < progress.singly_until { 1 } else { STEP_BLOCKS };
        let end = (start + most).min(of_leaf).min(base_blocks(disk)).max(start);
        self.leisure.take(now_ns, (end - start) * BLOCK);
        let blocks = Blocks { disk: DiskId(disk), range: start..end };
        self.in_flight = Some(blocks.clone());
        Some(blocks)
    }

    /// A step has ended, in which so many blocks had to be copied. `base_blocks`: of its disk.
    pub fn ended(&mut self, now_ns: u64, (copied, error): (u64, Option<RequestError>), base_blocks: u64) {
        let Some(Blocks { disk, range }) = self.in_flight.take() else { return };
        if copied == 0 && error.is_none() {
            // Nothing was read.
            self.leisure.take_back();
        }
        let Some(progress) = self.disks.get_mut(&disk.0) else { return };
        match error {
            None => progress.next = range.end,
            Some(why @ RequestError::Device { .. }) if range.end - range.start == 1 => {
                progress.next = range.end;
                progress.failed_blocks += 1;
                progress.why = Some(why);
            }
            Some(why @ RequestError::Device { .. }) => {
                progress.singly_until = range.end;
                progress.why = Some(why);
            }
            // It is the pool that cannot take it now.
            Some(why) => {
                progress.why = Some(why);
                self.leisure.rest_until(now_ns.saturating_add(REST_NS));
            }
        }
        if progress.next < base_blocks {
            return;
        }
        if progress.failed_blocks == 0 {
            (progress.is_complete, progress.why) = (true, None);
        } else {
            // Once more from the beginning, later: what was copied is passed over.
            let rests_until_ns = now_ns.saturating_add(REST_NS);
            *progress = Progress { why: progress.why.take(), rests_until_ns, ..Progress::default() };
        }
    }

    /// How far a disk is; `blocks`: of its base.
    pub fn status(&self, disk: DiskId, blocks: u64) -> AdoptionStatus {
        let Some(progress) = self.disks.get(&disk.0) else { return AdoptionStatus { blocks, ..Default::default() } };
        AdoptionStatus {
            done_blocks: progress.next.min(blocks),
            blocks,
            is_complete: progress.is_complete,
            failed_blocks: progress.failed_blocks,
            why: progress.why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::{IoError, IoErrorKind};

    #[test]
    fn one_bad_block_of_a_base_keeps_no_other_from_being_copied() {
        let bad = |blocks: &Blocks| {
            let source = IoError { kind: IoErrorKind::Medium, operation: "read", offset_bytes: 0, os_error: 5 };
            blocks.range.contains(&300).then(|| RequestError::Device { device: "base".into(), source })
        };
        let mut adoption = Adoption::new(u64::MAX);
        adoption.leisure.go_on();
        adoption.begin(DiskId(1));
        let mut copied = std::collections::BTreeSet::new();
        for now_ns in 0..400 {
            let Some(blocks) = adoption.begin_step(now_ns, |_| 1000) else { break };
            let error = bad(&blocks);
            if error.is_none() {
                copied.extend(blocks.range.clone());
            }
            adoption.ended(now_ns, (1, error), 1000);
        }
        assert_eq!(copied.len(), 999);
        let status = adoption.status(DiskId(1), 1000);
        assert!(!status.is_complete && status.why.is_some(), "it begins anew, later");
        assert!(adoption.begin_step(REST_NS / 2, |_| 1000).is_none());
        // Nor does it keep other disks from having their time.
        adoption.begin(DiskId(2));
        assert_eq!(adoption.begin_step(REST_NS / 2, |_| 1000).unwrap().disk, DiskId(2));
        adoption.ended(REST_NS / 2, (128, None), 1000);
        assert_eq!(adoption.begin_step(REST_NS * 2, |_| 1000).unwrap(), Blocks { disk: DiskId(1), range: 0..128 });
    }

    #[test]
    fn what_has_not_to_be_copied_takes_no_time() {
        let mut adoption = Adoption::new(1 << 20);
        adoption.leisure.go_on();
        adoption.begin(DiskId(1));
        for step in 0..100 {
            assert!(adoption.begin_step(1, |_| 1 << 20).is_some(), "step {step}");
            adoption.ended(1, (0, None), 1 << 20);
        }
        assert!(adoption.begin_step(1, |_| 1 << 20).is_some());
        adoption.ended(1, (128, None), 1 << 20);
        assert!(adoption.begin_step(1, |_| 1 << 20).is_none());
    }
}
