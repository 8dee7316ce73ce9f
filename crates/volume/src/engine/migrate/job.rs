//! A job: blocks on their way from one place to another.

use super::together::Waiting;
use crate::engine::checkpoint::Checkpoint;
use crate::engine::limits::JOBS_MAX;
use crate::layout::moved::Moved;
use crate::layout::page::BLOCK_GRAINS;
use crate::layout::stream::Stream;
use forebay_block::{DiskId, SharedBuf};
use smallvec::SmallVec;

/// Numbers under which jobs wait for leaves and batches; pieces wait under lower ones.
const FIRST_JOB: u32 = u32::MAX - JOBS_MAX as u32 + 1;

/// The number under which a job waits.
pub(super) fn waiter(job: u32) -> u32 {
    FIRST_JOB + job
}

/// The job that waits under a number; `None` where a piece does.
pub(crate) fn job_of_waiter(waiter: u32) -> Option<u32> {
    waiter.checked_sub(FIRST_JOB)
}

/// What a job is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// From the fast tier to bands.
    Destage,
    /// Valid blocks of a band, to another band.
    Collect { band: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Reading the summary of the band.
    Summary,
    Gather,
    Read,
    Pack,
    Write,
    Flush,
    Record,
    Apply,
}

/// A block to be moved.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub moved: Moved,
    pub stream: Stream,
    pub data: Option<SharedBuf>,
    /// Its source does not match its checksum.
    pub damaged: bool,
    /// Its copy on the fast tier could not be read from one of several members.
    pub is_unread: bool,
    pub destination: u64,
    pub sequence: u64,
}

/// A job in progress.
#[derive(Debug)]
pub(crate) struct Job {
    pub kind: JobKind,
    pub phase: Phase,
    pub candidates: Vec<Candidate>,
    /// Summary entries still to be looked up, in reverse order.
    pub lookups: Vec<Moved>,
    /// Groups of the band whose summaries it reads: the next one, and the one behind the last.
    pub next_group: u32,
    pub end_group: u32,
    /// How many groups it will have looked at by then.
    pub groups_seen: u32,
    /// How often jobs had been given groups of the band before it, and how often it was.
    pub handed_out_before: u32,
    pub handed_out: u32,
    /// It could not look at all that was written into these groups: whether any of that is still named is not known.
    pub is_incomplete: bool,
    /// Leaves to be looked at by a destage of data that waits there to be compressed together; `None` for a destage of what is due first.
    pub together: Option<Vec<Waiting>>,
    /// Newest epoch whose blocks a destage takes.
    pub cutoff_epoch: Option<u32>,
    /// Runs of candidates still to be read, in reverse order.
    pub reads: Vec<Vec<u32>>,
    /// Blocks that are being read.
    pub reading_blocks: usize,
    /// Device requests (including those still to be sent) or batches in progress.
    pub outstanding: usize,
    pub failed: bool,
    /// Some of what it read was wrong and is being mended.
    pub is_wrong: bool,
    /// It waits for a leaf.
    pub waiting: bool,
    pub leaves_seen: usize,
    /// Of the leaves seen, those of which all blocks are due later than the blocks that the job takes.
    pub leaves_put_off: usize,
    /// How many leaves its candidates lie in, and the newest of these.
    pub leaves: usize,
    pub newest_leaf: Option<(DiskId, u64)>,
    /// How many of them it has changed or passed over, once all are recorded.
    pub leaves_done: usize,
    /// Next candidate to record or to apply.
    pub next: usize,
    pub journal_at: Option<(u64, u64)>,
    /// Destinations of recorded moves that it could not apply.
    pub stranded: Vec<u64>,
    pub last_batch: u64,
    pub batches: SmallVec<[u64; 4]>,
    /// Devices written, one bit each.
    pub devices: u32,
    /// Slots that hosts had taken when it began.
    pub slots_taken_before: u64,
}

impl Candidate {
    /// Whether it is compressed at its destination.
    pub fn is_packed(&self) -> bool {
        u64::from(self.moved.stored.grains) < BLOCK_GRAINS
    }
}

impl Job {
    /// A job that begins.
    pub fn new(kind: JobKind, slots_taken_before: u64) -> Self {
        Self {
            kind,
            phase: if kind == JobKind::Destage { Phase::Gather } else { Phase::Summary },
            candidates: Vec::new(),
            lookups: Vec::new(),
            next_group: 0,
            end_group: 0,
            groups_seen: 0,
            handed_out_before: 0,
            handed_out: 0,
            is_incomplete: false,
            together: None,
            cutoff_epoch: None,
            reads: Vec::new(),
            reading_blocks: 0,
            outstanding: 0,
            failed: false,
            is_wrong: false,
            waiting: false,
            leaves_seen: 0,
            leaves_put_off: 0,
            leaves: 0,
            newest_leaf: None,
            leaves_done: 0,
            next: 0,
            journal_at: None,
            stranded: Vec::new(),
            last_batch: 0,
            batches: SmallVec::new(),
            devices: 0,
            slots_taken_before,
        }
    }

    /// Grains of the blocks that have space in their new band while the map still names the old one.
    pub fn granted_grains(&self) -> u64 {
        let from = match self.phase {
            Phase::Summary | Phase::Gather | Phase::Read | Phase::Pack => self.candidates.len(),
            Phase::Write | Phase::Flush | Phase::Record => 0,
            Phase::Apply => self.next,
        };
        let granted = self.candidates.get(from..).unwrap_or_default();
        granted.iter().map(|candidate| u64::from(candidate.moved.source.grains)).sum()
    }

    /// The job has changed a leaf that it had named, or passes over it.
    pub fn come_to_leaf(&mut self, checkpoint: &mut Checkpoint) {
        self.leaves_done += 1;
        checkpoint.named_done(1);
    }

    /// Takes a block to be moved. Blocks come in the order of their leaves.
    pub fn take(&mut self, moved: Moved, stream: Stream) {
        let leaf = Some(moved.leaf());
        self.leaves += usize::from(leaf != self.newest_leaf);
        self.newest_leaf = leaf;
        self.candidates.push(Candidate {
            moved,
            stream,
            data: None,
            damaged: false,
            is_unread: false,
            destination: 0,
            sequence: 0,
        });
    }
}
