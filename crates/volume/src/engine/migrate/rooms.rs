//! The rooms between which jobs move data, and what follows a step of a job.

use super::ages::{END_EPOCHS, epoch_of};
use super::job::waiter;
use super::state::Migrate;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::copies::Copies;
use crate::engine::flush::Flushes;
use crate::engine::leaves::Leaves;
use crate::engine::map::{Leaf, Map};
use crate::engine::outbox::Outbox;
use crate::engine::packing::Packing;
use crate::engine::requests::Requests;
use crate::engine::setup::Setup;
use crate::engine::space::Space;
use crate::engine::statistics::Statistics;
use crate::engine::staying::Staying;
use crate::engine::summaries::Summaries;
use crate::journal::Journal;
use crate::layout::moved::Moved;
use forebay_block::DiskId;
use forebay_prism::Prism;

/// The rooms.
pub(crate) struct Moving<'a> {
    pub setup: &'a Setup,
    pub migrate: &'a mut Migrate,
    pub map: &'a mut Map,
    pub space: &'a mut Space,
    pub stats: &'a mut Statistics,
    pub flushes: &'a mut Flushes,
    pub summaries: &'a mut Summaries,
    pub checkpoint: &'a mut Checkpoint,
    pub outbox: &'a mut Outbox,
    pub journal: &'a mut Journal,
    pub requests: &'a Requests,
    pub copies: &'a mut Copies,
    pub prism: &'a Prism,
    pub packing: &'a mut Packing,
    pub staying: &'a mut Staying,
    /// No writes are taken any more.
    pub is_read_only: bool,
    pub now_ns: u64,
}

impl Moving<'_> {
    /// Leaves a band alone for a while.
    pub(super) fn exclude(&mut self, band: u32) {
        self.migrate.exclude(band, self.space.bands.get(band).generation, self.now_ns);
    }

    /// Asks for a leaf on behalf of a job, which waits where it has to be read.
    pub(super) fn require_leaf(&mut self, job: u32, disk: DiskId, leaf: u64) -> Leaf {
        let answer = self.map.require(disk, leaf, waiter(job), false, self.outbox, &mut self.stats.counters);
        if let (Leaf::Wait, Some(job)) = (&answer, self.migrate.job_mut(job)) {
            job.waiting = true;
        }
        answer
    }

    /// The rooms that a change of a leaf concerns.
    pub(super) fn leaves(&mut self) -> Leaves<'_> {
        Leaves {
            setup: self.setup,
            map: self.map,
            space: self.space,
            stats: self.stats,
            prism: self.prism,
            copies: self.copies,
            checkpoint: self.checkpoint,
            ages: &mut self.migrate.ages,
            together: &mut self.migrate.together,
            outbox: self.outbox,
            last_recorded: self.journal.last_recorded(),
        }
    }

    /// Whether a leaf that a job has named may be changed now.
    pub(super) fn may_dirty(&self, frame: u32) -> bool {
        self.checkpoint.may_dirty_named(self.map.frames.get(frame), self.requests.executing)
    }

    /// A destage gives up a block that it has taken.
    pub(super) fn let_go(&mut self, moved: &Moved) {
        self.migrate.held.remove(&moved.source.location);
        // A block that was not moved after all must be found again.
        let (disk, leaf) = moved.leaf();
        self.enqueue(disk, leaf);
    }

    /// Puts a leaf that a job had, or that could not be read, at the end of the queue, if it has blocks to be destaged and is not queued: others must not wait
    /// for one that fails again and again.
    pub(super) fn enqueue(&mut self, disk: DiskId, leaf: u64) {
        let end = epoch_of(self.stats, self.space).saturating_add(END_EPOCHS);
        self.migrate.ages.enqueue_unknown(end, disk, leaf, self.map);
    }
}

/// What follows a step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum After {
    /// The job waits for something.
    Wait,
    /// All that the job is going to move is known.
    Gathered,
    /// Its data was read.
    Pack,
    /// Its data is durable in its new place.
    Record,
    /// The job ends; `pause`: the next is not to begin at once.
    End { pause: bool },
}
