//! How far a checkpoint has come, and what has changed since the last.

use super::capacity::CapacityWriter;
use super::index_room::IndexRoom;
use super::pages::{PageRooms, PageWriter};
use super::roots::RootWriter;
use crate::engine::limits::{DIRTY_PARTS, LeafLimits};
use crate::engine::map::Map;
use crate::engine::outbox::Outbox;
use crate::engine::setup::Setup;
use crate::engine::space::Space;
use crate::engine::statistics::Counters;
use crate::layout::root::Root;
use crate::map::frames::Frame;
use crate::map::tiers::PageKey;
use crate::space::groups::GroupKey;
use forebay_block::{Buf, IoError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// After this many failed attempts in a row, a second apart, writes are refused instead of kept waiting.
const FAILURES_MAX: u32 = 3;

/// Bounds of what hosts write for each leaf of a checkpoint, in blocks: above the first, half as many leaves may be dirty at once; below the second, twice as
/// many.
const BLOCKS_PER_LEAF: [u64; 2] = [24, 12];

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Leaves,
    Index,
    Tiers,
    Blob,
    FlushPages,
    CapacityHeader,
    Header,
    Supersede,
}

/// State of checkpointing.
pub(crate) struct Checkpoint {
    setup: Arc<Setup>,
    /// Leaves that will fit into memory when the pool is opened next.
    frames: usize,
    /// Which part of the slots dirty leaves may take: an index of [`DIRTY_PARTS`].
    part: usize,
    /// How many leaves the journal may name: as many as fit into memory and find slots for their pages.
    limits: LeafLimits,
    /// Blocks that hosts had written at the freeze of the checkpoint in progress.
    pub(super) written_blocks: u64,
    /// The same at the last durable root; `None`: there was none since the start.
    written_blocks_before: Option<u64>,
    pub pages: PageWriter,
    pub roots: RootWriter,
    pub capacity: CapacityWriter,
    pub index_room: IndexRoom,
    pub(super) phase: Phase,
    pub(super) requested: bool,
    pub(super) clean: bool,
    /// Whether nothing follows the root that was begun last.
    pub is_root_clean: bool,
    /// Leaves dirtied since the last freeze.
    pub(super) dirtied: usize,
    /// Leaves dirtied from the last durable root to that freeze: where the checkpoint fails, recovery still needs them.
    pub(super) dirtied_before: usize,
    /// Leaves that migration jobs have named in the journal and not reached yet.
    named: usize,
    /// Leaves that jobs had reached at the freeze of the last durable root, while other leaves of the same records were still to be changed: such a record is
    /// replayed whole. `replayed_next`: the same for the checkpoint in progress.
    replayed: usize,
    pub(super) replayed_next: usize,
    /// See [`RootHeader::counts_due`](crate::layout::root::RootHeader::counts_due), as this checkpoint began.
    pub(super) counts_due: bool,
    /// Groups that were complete at the freeze, and whose summaries have not reached the device since: the root does
    /// not carry their entries, so these summaries must be written before it.
    pub(super) summaries_awaited: BTreeSet<GroupKey>,
    /// How many flushes had failed when the headers were sent: one that fails since then may have lost them with a
    /// cache.
    pub(super) flush_failures_before: u64,
    /// Why a summary of these could not be written: the attempt is given up, and the next root may have its entries.
    pub(super) summary_error: Option<String>,
    /// Time before which no new attempt is made after a failure.
    pub(super) not_before_ns: u64,
    /// Attempts in a row that were given up.
    pub(super) failures: u32,
    /// The last attempt was given up because of what is written to the capacity tier.
    pub(super) is_given_up_by_capacity: bool,
    /// The checkpoint in progress is to be given up though no device has failed: the next follows at once.
    pub(super) is_called_off: bool,
    /// Journal position where a recovery from this checkpoint would start.
    pub(super) start: u64,
}

impl Checkpoint {
    /// A base is needed again that the root in progress leaves out: where its blob is written already, it must not become durable. Once its headers are being
    /// written that cannot be helped any more: then the next root has the base again.
    pub fn keep_base(&mut self) {
        if matches!(self.phase, Phase::Blob | Phase::FlushPages | Phase::CapacityHeader) {
            self.is_called_off = true;
            self.pages.fail("a base that was to be left out is needed again".to_owned());
        }
    }

    /// Goes on after a root: `number` is its number; `root` has the generation of its pages, and sections that this program does not know.
    pub fn new(setup: &Arc<Setup>, frames: usize, number: u64, root: &Root) -> Self {
        let roots = RootWriter::new(setup.clone(), number, root.kept.clone());
        Self {
            setup: setup.clone(),
            frames,
            part: 0,
            limits: LeafLimits::within(frames, DIRTY_PARTS[0], &setup.options, &setup.superblock),
            written_blocks: 0,
            written_blocks_before: None,
            pages: PageWriter::new(setup.clone(), root.generation),
            index_room: IndexRoom::new(&setup.superblock, roots.kept_bytes()),
            roots,
            capacity: CapacityWriter::new(setup.clone()),
            phase: Phase::Idle,
            requested: false,
            clean: false,
            is_root_clean: false,
            dirtied: 0,
            dirtied_before: 0,
            named: 0,
            replayed: 0,
            replayed_next: 0,
            counts_due: false,
            summaries_awaited: BTreeSet::new(),
            summary_error: None,
            flush_failures_before: 0,
            not_before_ns: 0,
            failures: 0,
            is_given_up_by_capacity: false,
            is_called_off: false,
            start: 0,
        }
    }

    /// For reports of requests that do not end.
    pub fn describe(&self) -> String {
        format!(
            "checkpoint {:?} requested {} in flight {} failed {} dirtied {} of {}, {} before, {} named, {} replayed of {} not before {}",
            self.phase,
            self.requested,
            self.pages.in_flight(),
            self.pages.has_failed(),
            self.dirtied,
            self.limits.dirty,
            self.dirtied_before,
            self.named,
            self.replayed,
            self.limits.needed,
            self.not_before_ns
        )
    }

    /// Asks for a checkpoint as soon as possible; `clean`: nothing will follow it in the journal.
    pub fn request(&mut self, clean: bool) {
        self.requested = true;
        self.clean = clean;
        self.not_before_ns = 0;
    }

    /// Whether a checkpoint is wanted or in progress.
    pub fn is_pending(&self) -> bool {
        self.requested || self.is_active()
    }

    /// Whether the last attempt was given up, and the next is yet to begin.
    pub fn is_put_off(&self, now_ns: u64) -> bool {
        !self.is_active() && self.not_before_ns > now_ns
    }

    /// Why waiting for a checkpoint is in vain, where several attempts in a row were given up.
    pub fn hopeless(&self, counters: &Counters) -> Option<String> {
        (self.failures >= FAILURES_MAX && !self.is_active()).then(|| {
            let why = counters.last_checkpoint_error.as_deref().unwrap_or("a device flush failed");
            format!("checkpoints cannot be written, the journal is full: {why}")
        })
    }

    /// Asks for another checkpoint; the wait after a failed one stays.
    pub fn want_another(&mut self) {
        self.requested = true;
    }

    /// Whether the last attempt was given up because of what is written to the capacity tier.
    pub fn is_given_up_by_capacity(&self) -> bool {
        self.is_given_up_by_capacity
    }

    /// Whether a checkpoint is in progress.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// A leaf was dirtied, or recovery will dirty it.
    pub fn count_dirtied(&mut self) {
        self.dirtied += 1;
    }

    fn limits_within(&self, frames: usize) -> LeafLimits {
        self.limits_of_part(frames, self.part)
    }

    fn limits_of_part(&self, frames: usize, part: usize) -> LeafLimits {
        LeafLimits::within(frames, DIRTY_PARTS[part], &self.setup.options, &self.setup.superblock)
    }

    /// Disks are to be added or to grow, which leaves less memory for leaves when the pool is opened next. False, and nothing changes, where recovery may now
    /// need more leaves than would fit then, those that requests are about to change included. A checkpoint is asked for in this case: after it recovery needs
    /// fewer.
    pub fn limit_by_memory(&mut self, frames: usize, about_to_be: usize) -> bool {
        if frames >= self.frames {
            return true;
        }
        if self.needed_leaves() + about_to_be > self.limits_within(frames).needed {
            self.requested = true;
            return false;
        }
        self.frames = frames;
        // Never more: slots have to be kept first for more leaves.
        self.limits = self.limits.at_most(&self.limits_within(frames));
        true
    }

    /// Limits leaves by the slots that there are for them; `None`: enough for all. There are fewer than should be kept where the pool was filled while it had
    /// less memory, or where failed checkpoints hold some.
    pub fn limit_by_slots(&mut self, slots: Option<u64>) {
        let slots = slots.filter(|&slots| slots < self.leaves_wanted());
        self.limits = self.limits_within(self.frames.min(slots.map_or(usize::MAX, |slots| slots.max(1) as usize)));
    }

    /// Leaves for which slots should be kept.
    pub fn leaves_wanted(&self) -> u64 {
        self.limits_within(self.frames).needed as u64
    }

    /// Leaves for which slots may have to be kept from the next checkpoint on: data that cannot leave the fast tier must not take these. Later checkpoints get
    /// more as far as such data leaves room.
    pub fn leaves_wanted_next(&self) -> u64 {
        self.limits_of_part(self.frames, self.part.saturating_sub(1)).needed as u64
    }

    /// Leaves for which slots are kept where checkpoints cost the most.
    pub fn leaves_wanted_most(&self) -> u64 {
        self.limits_of_part(self.frames, 0).needed as u64
    }

    /// A pool is opened with so many slots of its fast tier free. Data may lie where slots would have to be kept, and is not to be moved for that: the limits
    /// are chosen so that the slots kept are free already.
    pub fn begin_with_slots(&mut self, free: u64, total: u64) {
        // At most so many are to be free for hosts.
        let for_hosts = total / 16;
        let fits = |&part: &usize| self.limits_of_part(self.frames, part).needed as u64 + for_hosts <= free;
        self.part = (0..DIRTY_PARTS.len()).find(fits).unwrap_or(DIRTY_PARTS.len() - 1);
        self.limits = self.limits_within(self.frames);
    }

    /// A checkpoint is durable: by what it cost, fewer or more leaves may be dirty at once from now on. More have no effect before slots are kept for them
    /// ([`Checkpoint::limit_by_slots`]), and there are no more where destage has no room to free slots, or where data stays on the fast tier. `about_to_be`:
    /// leaves that requests in progress are going to dirty.
    fn choose_part(&mut self, dirtied: usize, (about_to_be, has_room): (usize, bool)) {
        let Some(before) = self.written_blocks_before.replace(self.written_blocks) else { return };
        let (leaves, blocks) = (dirtied as u64, self.written_blocks.saturating_sub(before));
        let [many, few] = BLOCKS_PER_LEAF;
        if blocks < leaves * few && dirtied >= self.limits.dirty / 2 {
            self.part = self.part.saturating_sub(usize::from(has_room));
        } else if blocks > leaves * many && self.part + 1 < DIRTY_PARTS.len() {
            let smaller = self.limits_of_part(self.frames, self.part + 1);
            // Slots are kept for leaves that are dirty, or about to be.
            if self.needed_leaves() + about_to_be <= smaller.needed / 2 {
                self.part += 1;
                self.limits = self.limits.at_most(&smaller);
            }
        }
    }

    /// Leaves that may be dirty at once as far as memory goes.
    pub fn dirty_leaves_max(&self) -> usize {
        self.limits_of_part(self.frames, 0).dirty
    }

    /// Leaves that one migration job may name.
    pub fn leaves_per_job(&self) -> usize {
        self.limits.per_job(self.setup.limits.jobs)
    }

    /// Leaves that jobs have named and not reached yet.
    pub fn named(&self) -> usize {
        self.named
    }

    /// The most leaves that recovery would need in memory at once, without those that are about to be dirty.
    fn needed_leaves(&self) -> usize {
        self.dirtied + self.dirtied_before + self.named + self.replayed
    }

    /// Whether as many leaves are dirty, or about to be, as may be. One limit counts since the last freeze, the other
    /// since the last durable root, which is longer ago where checkpoints fail.
    pub fn is_full(&self, about_to_be: usize) -> bool {
        let (since_freeze, limit) = (self.dirtied + about_to_be, self.limits.dirty);
        since_freeze >= limit || since_freeze + self.dirtied_before >= 2 * limit
    }

    /// Whether no leaf may be dirtied for hosts now: too many are dirty, or recovery could not hold another.
    pub fn is_full_for_hosts(&self, about_to_be: usize) -> bool {
        self.is_full(about_to_be) || self.needed_leaves() + about_to_be >= self.limits.needed
    }

    /// Whether a checkpoint is due because soon no leaf may be dirtied for hosts.
    pub(super) fn is_nearly_full(&self) -> bool {
        let LeafLimits { needed, dirty, .. } = self.limits;
        self.dirtied >= dirty || self.dirtied > 0 && self.needed_leaves() + dirty >= needed
    }

    /// A job names leaves in the journal. False where recovery could not hold them beside all others. Then a checkpoint is asked for if recovery could hold
    /// them after it: what remains then are the leaves that other jobs have named, and `replayed`, those that jobs in progress have reached. Leaves that
    /// requests are about to change remain until the requests end.
    pub fn try_name(&mut self, leaves: usize, about_to_be: usize, replayed: usize) -> bool {
        let fits = self.needed_leaves() + about_to_be + leaves <= self.limits.needed;
        let left = self.named + replayed;
        let gains = left < self.needed_leaves() && left + about_to_be + leaves <= self.limits.needed;
        self.requested |= !fits && gains && !self.is_active();
        self.named += if fits { leaves } else { 0 };
        fits
    }

    /// A job has reached leaves that it had named, or will not reach them.
    pub fn named_done(&mut self, leaves: usize) {
        self.named -= leaves;
    }

    /// A root is durable: recovery would begin with it.
    pub(super) fn root_durable(&mut self, situation: (usize, bool)) {
        self.failures = 0;
        let dirtied = self.dirtied_before;
        self.dirtied_before = 0;
        self.replayed = self.replayed_next;
        self.choose_part(dirtied, situation);
    }

    /// A tier page was read to be changed.
    pub fn tier_page_read(&mut self, of: (PageKey, u64, u8), bytes: Option<Buf>, outbox: &mut Outbox) {
        self.capacity.page_read(of, bytes, &mut self.pages, outbox);
    }

    /// The write of a tier page ended.
    pub fn tier_page_written(&mut self, of: (PageKey, u64, u32), result: Result<(), IoError>) {
        self.capacity.page_written(of, result, &mut self.pages);
    }

    /// Writes a leaf that is to change, as it was when the checkpoint in progress began.
    pub fn write_frozen_leaf(&mut self, frame: u32, map: &mut Map, space: &mut Space, outbox: &mut Outbox) {
        let tiers = self.capacity.tiers();
        self.pages.write_leaf(frame, &mut PageRooms { map, space, outbox, tiers });
    }

    /// Whether hosts may change the leaf in a frame now, while `about_to_be` others are about to be changed. A clean
    /// leaf may be changed only while few are dirty: the leaves dirtied before and during one checkpoint bound what
    /// recovery has to read.
    pub fn may_dirty(&self, frame: &Frame, about_to_be: usize) -> bool {
        frame.dirty && !frame.frozen || !self.is_full_for_hosts(about_to_be)
    }

    /// The same for a job, which has named the leaf in the journal.
    pub fn may_dirty_named(&self, frame: &Frame, about_to_be: usize) -> bool {
        frame.dirty && !frame.frozen || !self.is_full(about_to_be)
    }

    /// The summary of a group could not be written: a checkpoint in progress that needs it is given up. `is_kept`: sooner or later the root has its entries.
    pub(super) fn summary_failed(&mut self, key: GroupKey, error: String, is_kept: bool) {
        if !self.summaries_awaited.contains(&key) {
            return;
        }
        if is_kept {
            self.summary_error = Some(error);
        } else {
            self.pages.fail(error);
        }
    }
}
