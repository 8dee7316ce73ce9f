//! How far a checkpoint has come, and what was changed since the last.

use super::capacity::CapacityWriter;
use super::pages::PageWriter;
use super::roots::RootWriter;
use crate::engine::setup::Setup;
use crate::layout::root::Root;
use crate::space::groups::GroupKey;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    pub pages: PageWriter,
    pub roots: RootWriter,
    pub capacity: CapacityWriter,
    pub(super) phase: Phase,
    pub(super) requested: bool,
    pub(super) clean: bool,
    /// Leaves dirtied since the last freeze.
    pub(super) dirtied: usize,
    /// Leaves dirtied from the last durable root to that freeze: where the checkpoint comes to nothing, recovery still
    /// needs them.
    pub(super) dirtied_before: usize,
    /// See [`RootHeader::counts_due`](crate::layout::root::RootHeader::counts_due), as this checkpoint began.
    pub(super) counts_due: bool,
    /// Groups that were complete at the freeze, whose summary has not reached the device since: the root does not carry
    /// their entries, so they come first.
    pub(super) summaries_awaited: BTreeSet<GroupKey>,
    /// Time before which no new attempt is made after a failure.
    pub(super) not_before_ns: u64,
    /// Attempts in a row that were given up.
    pub(super) failures: u32,
    /// Journal position where a recovery from this checkpoint would start.
    pub(super) start: u64,
}

impl Checkpoint {
    /// Goes on after a root: its number, the generation of its pages, and what it carries that this program does not know.
    pub fn new(setup: &Arc<Setup>, number: u64, root: &Root) -> Self {
        Self {
            pages: PageWriter::new(setup.clone(), root.generation),
            roots: RootWriter::new(setup.clone(), number, root.kept.clone()),
            capacity: CapacityWriter::new(setup.clone()),
            phase: Phase::Idle,
            requested: false,
            clean: false,
            dirtied: 0,
            dirtied_before: 0,
            counts_due: false,
            summaries_awaited: BTreeSet::new(),
            not_before_ns: 0,
            failures: 0,
            start: 0,
        }
    }

    /// Asks for another checkpoint, without haste.
    pub fn want_another(&mut self) {
        self.requested = true;
    }

    /// Whether a checkpoint is in progress.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// A leaf was dirtied, or recovery will make it so.
    pub fn count_dirtied(&mut self) {
        self.dirtied += 1;
    }

    /// Whether as many leaves are dirty, or about to be, as may be: since the last freeze, and since the last durable
    /// root, which is longer ago where checkpoints fail.
    pub fn is_full(&self, about_to_be: usize, limit: usize) -> bool {
        let since_freeze = self.dirtied + about_to_be;
        since_freeze >= limit || since_freeze + self.dirtied_before >= 2 * limit
    }

    /// The summary of a group could not be written: where the checkpoint in progress needs it, it is given up.
    pub(super) fn summary_failed(&mut self, key: GroupKey, error: String) {
        if self.summaries_awaited.contains(&key) {
            self.pages.fail(error);
        }
    }
}
