//! MongoDB on WiredTiger and XFS, as block requests: the published "use case 2".
//!
//! Journal files of equal size form a ring; every commit appends to the journal and flushes. At a checkpoint the changed pages go to new
//! offsets of the collection's file; the replaced space is free for the next checkpoint, and is reused, not discarded.

use super::parts::{BLOCK_BYTES, GB, REQUEST_BYTES, fraction, jittered_ns, poisson_gap_ns};
use super::{GenerateError, Parameters};
use crate::{BATCH_REQUESTS, Faults, Flags, Knows, Names, Op, Request, Source, TraceError};
use forebay_block::Random;

/// Published bytes written to the journal, in GB.
const JOURNAL_WRITTEN_GB: f64 = 27_478.3;
/// Published bytes written to the data, in GB.
const DATA_WRITTEN_GB: f64 = 776.7;
/// Published space of the data, in GB.
const DATA_OCCUPIED_GB: f64 = 750.0;
/// Size of a journal file in GB (WiredTiger's `log=(file_max=100MB)`, as MongoDB sets it).
const JOURNAL_FILE_GB: f64 = 0.1;
/// Number of files that make up the published 3.0 GB of journal.
const JOURNAL_FILES: u64 = 30;
/// Longest time without a commit (MongoDB's `storage.journal.commitIntervalMs`), in ns.
const COMMIT_INTERVAL_NS: u64 = 100_000_000;
/// Time from the end of a checkpoint to the next (MongoDB's `storage.syncPeriodSecs`), in ns.
const CHECKPOINT_INTERVAL_NS: u64 = 60_000_000_000;
/// Write rate of a checkpoint in bytes per second.
const CHECKPOINT_RATE: f64 = 400e6;
/// Largest page in blocks: pages have 4 to 32 KiB.
const PAGE_BLOCKS_MAX: u64 = 8;
/// Number of pages that updates choose from: those that requests return to.
const HOT_PAGES: usize = 16_384;
/// Size of the volume relative to the data.
const SLACK: f64 = 1.15;

/// Options of a [`Mongodb`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MongodbOptions {
    /// Scale of all sizes; 1 for the published run.
    pub scale: f64,
    /// Bytes of a commit, a multiple of 4 KiB.
    pub commit_bytes: u64,
    /// Commits per second that requests cause, at random times; there are ten per second even without any.
    pub commits: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for MongodbOptions {
    fn default() -> Self {
        Self { scale: 0.01, commit_bytes: 32 << 10, commits: 1000.0, seed: 1 }
    }
}

impl MongodbOptions {
    pub(super) const KEYS: &[&str] = &["scale", "commit", "commits", "seed"];

    pub(super) fn parse(text: &str) -> Result<Self, GenerateError> {
        let parameters = Parameters::parse("mongodb", Self::KEYS, text)?;
        let default = Self::default();
        Ok(Self {
            scale: parameters.number("scale", default.scale, 0.0001, 100.0)?,
            commit_bytes: parameters.size_bytes("commit", default.commit_bytes, (BLOCK_BYTES, 1 << 20), BLOCK_BYTES)?,
            commits: parameters.number("commits", default.commits, 0.0, 1e6)?,
            seed: parameters.count("seed", default.seed, 0, u64::MAX)?,
        })
    }
}

/// A page on the volume.
#[derive(Clone, Copy)]
struct Page {
    begin_block: u64,
    blocks: u64,
}

/// The journal's files.
struct Journal {
    file_blocks: u64,
    /// Number of files begun, including the present one.
    files: u64,
    /// Blocks written to the present file.
    at_block: u64,
    path: u32,
    left_blocks: u64,
    written_blocks: u64,
    next_ns: u64,
}

/// The collection's file.
struct Data {
    begin_block: u64,
    /// Most blocks of the file.
    limit_blocks: u64,
    /// Present length of the file in blocks.
    end_blocks: u64,
    written_blocks: u64,
    hot: Vec<Page>,
    /// Free pages by length in blocks, minus one.
    free: [Vec<u64>; PAGE_BLOCKS_MAX as usize],
    /// Pages replaced by this checkpoint; they become free when it ends.
    replaced: Vec<Page>,
    /// Blocks that the present checkpoint still has to write.
    due_blocks: u64,
    next_ns: u64,
}

/// The requests of MongoDB; see the module.
pub struct Mongodb {
    options: MongodbOptions,
    random: Random,
    journal: Journal,
    data: Data,
    /// Time of the last request.
    last_ns: u64,
    faults: Faults,
}

/// Numbers of the names, for one batch.
struct Numbers {
    journal: u32,
    checkpoint: u32,
    collection: u32,
}

const JOURNAL_PID: u32 = 2001;
const CHECKPOINT_PID: u32 = 2002;
const COLLECTION_INODE: u64 = 131;
const JOURNAL_INODE: u64 = 1000;

fn blocks(gb: f64) -> u64 {
    ((gb * GB / BLOCK_BYTES as f64).round() as u64).max(1)
}

impl Mongodb {
    /// A stream from its beginning. Options out of the range of the text form are brought into it.
    #[must_use]
    pub fn new(options: MongodbOptions) -> Self {
        let scale = options.scale.clamp(0.0001, 100.0);
        let commit_bytes = options.commit_bytes.clamp(BLOCK_BYTES, 1 << 20) / BLOCK_BYTES * BLOCK_BYTES;
        let file_blocks = blocks(JOURNAL_FILE_GB * scale);
        Self {
            options: MongodbOptions { scale, commit_bytes, commits: options.commits.clamp(0.0, 1e6), ..options },
            random: Random::new(options.seed),
            journal: Journal {
                file_blocks,
                files: 0,
                at_block: file_blocks,
                path: 0,
                left_blocks: blocks(JOURNAL_WRITTEN_GB * scale),
                written_blocks: 0,
                next_ns: 0,
            },
            data: Data {
                begin_block: JOURNAL_FILES * file_blocks,
                limit_blocks: blocks(DATA_OCCUPIED_GB * SLACK * scale) + PAGE_BLOCKS_MAX,
                end_blocks: 0,
                written_blocks: 0,
                hot: Vec::new(),
                free: Default::default(),
                replaced: Vec::new(),
                due_blocks: 0,
                next_ns: CHECKPOINT_INTERVAL_NS,
            },
            last_ns: 0,
            faults: Faults::default(),
        }
    }

    /// Size of the volume in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        (self.data.begin_block + self.data.limit_blocks) * BLOCK_BYTES
    }

    fn commit(&mut self, into: &mut Vec<Request>, names: &mut Names, numbers: &Numbers) {
        let now_ns = self.journal.next_ns;
        self.last_ns = now_ns;
        let mut left = (self.options.commit_bytes / BLOCK_BYTES).min(self.journal.left_blocks);
        self.journal.left_blocks -= left;
        while left > 0 {
            let journal = &mut self.journal;
            if journal.at_block == journal.file_blocks {
                journal.files += 1;
                journal.at_block = 0;
                journal.path = names.paths.number(&format!("journal/WiredTigerLog.{:010}", journal.files));
            }
            let place = (journal.files - 1) % JOURNAL_FILES;
            let here = left.min(journal.file_blocks - journal.at_block).min(REQUEST_BYTES / BLOCK_BYTES);
            into.push(Request {
                process: numbers.journal,
                pid: JOURNAL_PID,
                path: journal.path,
                inode: JOURNAL_INODE + place,
                flags: Flags::SYNC,
                ..Request::new(
                    now_ns,
                    Op::Write,
                    (place * journal.file_blocks + journal.at_block) * BLOCK_BYTES,
                    here * BLOCK_BYTES,
                )
            });
            journal.at_block += here;
            journal.written_blocks += here;
            left -= here;
        }
        into.push(Request {
            process: numbers.journal,
            pid: JOURNAL_PID,
            flags: Flags::SYNC.with(Flags::PREFLUSH),
            ..Request::new(now_ns, Op::Flush, 0, 0)
        });
        let asked_ns = if self.options.commits > 0.0 {
            poisson_gap_ns(&mut self.random, 1e9 / self.options.commits)
        } else {
            COMMIT_INTERVAL_NS
        };
        self.journal.next_ns = now_ns.saturating_add(asked_ns.min(COMMIT_INTERVAL_NS));
    }

    /// Begins a checkpoint of everything journaled since the last, or writes its next page.
    fn checkpoint(&mut self, into: &mut Vec<Request>, numbers: &Numbers) {
        let now_ns = self.data.next_ns;
        self.last_ns = now_ns;
        if self.data.due_blocks == 0 {
            let due = self.journal.written_blocks as f64 * (DATA_WRITTEN_GB / JOURNAL_WRITTEN_GB);
            self.data.due_blocks = (due.round() as u64).saturating_sub(self.data.written_blocks);
        }
        let wanted = (1 + self.random.below(PAGE_BLOCKS_MAX)).min(self.data.due_blocks);
        if let Some(page) = self.data.place(wanted, &mut self.random) {
            let data = &mut self.data;
            into.push(Request {
                process: numbers.checkpoint,
                pid: CHECKPOINT_PID,
                path: numbers.collection,
                inode: COLLECTION_INODE,
                flags: Flags::SYNC,
                ..Request::new(
                    now_ns,
                    Op::Write,
                    (data.begin_block + page.begin_block) * BLOCK_BYTES,
                    page.blocks * BLOCK_BYTES,
                )
            });
            data.written_blocks += page.blocks;
            data.due_blocks -= page.blocks;
            let gap_ns = (page.blocks * BLOCK_BYTES) as f64 / CHECKPOINT_RATE * 1e9;
            data.next_ns = now_ns + jittered_ns(&mut self.random, gap_ns);
        } else {
            self.data.due_blocks = 0;
        }
        if self.data.due_blocks == 0 {
            self.data.end_checkpoint();
            into.push(Request {
                process: numbers.checkpoint,
                pid: CHECKPOINT_PID,
                flags: Flags::SYNC.with(Flags::PREFLUSH),
                ..Request::new(now_ns, Op::Flush, 0, 0)
            });
            self.data.next_ns = now_ns.saturating_add(CHECKPOINT_INTERVAL_NS);
        }
    }

    /// Whether data of the journal has not been written by a checkpoint yet.
    fn is_behind(&self) -> bool {
        let due = self.journal.written_blocks as f64 * (DATA_WRITTEN_GB / JOURNAL_WRITTEN_GB);
        self.data.due_blocks > 0 || due.round() as u64 > self.data.written_blocks
    }
}

impl Data {
    /// Finds a place for a page of about `wanted` blocks: in free space for an update, else at the end of the file.
    fn place(&mut self, wanted: u64, random: &mut Random) -> Option<Page> {
        if wanted == 0 {
            return None;
        }
        let is_update = fraction(random) < (DATA_WRITTEN_GB - DATA_OCCUPIED_GB) / DATA_WRITTEN_GB;
        if is_update && !self.hot.is_empty() {
            let index = random.index(self.hot.len());
            let old = self.hot[index];
            if old.blocks <= self.due_blocks
                && let Some(page) = self.free_place(old.blocks)
            {
                self.replaced.push(old);
                self.hot[index] = page;
                return Some(page);
            }
        }
        let page = self.free_place_at_end(wanted).or_else(|| self.free_place(wanted))?;
        if self.hot.len() < HOT_PAGES {
            self.hot.push(page);
        } else if random.chance(1, 64) {
            let index = random.index(self.hot.len());
            self.hot[index] = page;
        }
        Some(page)
    }

    fn free_place(&mut self, blocks: u64) -> Option<Page> {
        let free = self.free.get_mut(blocks as usize - 1)?.pop();
        match free {
            Some(begin_block) => Some(Page { begin_block, blocks }),
            None => self.free_place_at_end(blocks),
        }
    }

    fn free_place_at_end(&mut self, blocks: u64) -> Option<Page> {
        let begin_block = self.end_blocks;
        (begin_block + blocks <= self.limit_blocks).then(|| {
            self.end_blocks += blocks;
            Page { begin_block, blocks }
        })
    }

    fn end_checkpoint(&mut self) {
        for page in self.replaced.drain(..) {
            if let Some(free) = self.free.get_mut(page.blocks as usize - 1) {
                free.push(page.begin_block);
            }
        }
    }
}

impl Source for Mongodb {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let numbers = Numbers {
            // Names of MongoDB's threads as Linux stores them, with 15 characters.
            journal: names.processes.number("WTJourn.Flusher"),
            checkpoint: names.processes.number("WTCheck.tThread"),
            collection: names.paths.number("collection-0.wt"),
        };
        let end = into.len() + BATCH_REQUESTS;
        while into.len() < end {
            if self.journal.left_blocks == 0 {
                // Shutdown: one last checkpoint, at once.
                if !self.is_behind() {
                    return Ok(false);
                }
                if self.data.due_blocks == 0 {
                    self.data.next_ns = self.data.next_ns.min(self.journal.next_ns.max(self.last_ns));
                }
                let written = self.data.written_blocks;
                self.checkpoint(into, &numbers);
                if self.data.written_blocks == written {
                    return Ok(false);
                }
            } else if self.data.next_ns < self.journal.next_ns {
                self.checkpoint(into, &numbers);
            } else {
                self.commit(into, names, &numbers);
            }
        }
        Ok(true)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: true, flags: true, lifetime: true, process: true, file: true, ..Knows::default() }
    }
}
