//! RocksDB on XFS, as block requests: the published "use case 1", db_bench's `fillseq` and `readwhilewriting`.
//!
//! The log is appended to files that are reused. A full memtable is flushed to a file of L0, whose oldest file is merged into L1, and so on
//! downwards: a compaction reads whole files of two levels, writes whole new files into free space, and discards the old ones. Besides, XFS
//! writes its log and metadata, and users read at random.

mod job;
mod metadata;
mod plan;
mod tree;

use super::parts::{BLOCK_BYTES, REQUEST_BYTES, fraction, jittered_ns};
use super::{GenerateError, Parameters};
use crate::{BATCH_REQUESTS, Faults, Flags, Knows, Lifetime, Names, Op, Request, Source, TraceError};
use forebay_block::Random;
use job::Job;
use metadata::Metadata;
use plan::{MERGED_LEVELS, Plan, WAL_FILES};
use tree::{File, Tree};

/// Bytes of one operation of db_bench: 32 of key and 1024 of value.
const OPERATION_BYTES: f64 = 1056.0;
const WAL_PID: u32 = 300;
const USER_PID: u32 = 1000;
/// Id of the flush's thread; those of compactions into L1 and deeper follow.
const BACKGROUND_PID: u32 = 1001;
/// How much faster than on average metadata is written once it is due.
const METADATA_SPEED: f64 = 4.0;
/// Background threads by the level that they write, named as in RocksDB (`ThreadPoolImpl`, `util/threadpool_imp.cc`).
const THREADS: [&str; MERGED_LEVELS + 1] =
    ["rocksdb:high0", "rocksdb:low0", "rocksdb:low1", "rocksdb:low2", "rocksdb:low3"];

/// Options of a [`Rocksdb`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RocksdbOptions {
    /// Scale of all sizes; 1 for the published run.
    pub scale: f64,
    /// Write rate of the log in bytes per second; everything else follows from it.
    pub rate_bytes: u64,
    /// Share of reads among the users' operations, below 1.
    pub reads: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for RocksdbOptions {
    fn default() -> Self {
        Self { scale: 0.01, rate_bytes: 40_000_000, reads: 0.0, seed: 1 }
    }
}

impl RocksdbOptions {
    pub(super) const KEYS: &[&str] = &["scale", "rate", "reads", "seed"];

    pub(super) fn parse(text: &str) -> Result<Self, GenerateError> {
        let parameters = Parameters::parse("rocksdb", Self::KEYS, text)?;
        let default = Self::default();
        Ok(Self {
            scale: parameters.number("scale", default.scale, 0.001, 100.0)?,
            rate_bytes: parameters.rate_bytes("rate", default.rate_bytes, (1_000_000, 10_000_000_000))?,
            reads: parameters.number("reads", default.reads, 0.0, 0.95)?,
            seed: parameters.count("seed", default.seed, 0, u64::MAX)?,
        })
    }
}

/// The issuer of the next request.
#[derive(Clone, Copy)]
enum Issuer {
    Wal,
    /// The thread of the flush (0), or of compactions into L1 and deeper.
    Background(usize),
    Metadata,
    User,
}

/// A background thread.
#[derive(Default)]
struct Worker {
    job: Option<Job>,
    next_ns: u64,
    ns_per_block: f64,
    /// Slowness of its present job; 1 on average.
    slowness: f64,
}

/// The write-ahead log.
struct Wal {
    left_blocks: u64,
    file_blocks: u64,
    /// Number of files begun, including the present one.
    files: u64,
    at_block: u64,
    path: u32,
    /// Number of full memtables that are not flushed yet: their log files cannot be reused.
    unflushed: u64,
    next_ns: u64,
    ns_per_block: f64,
}

/// The requests of RocksDB; see the module.
pub struct Rocksdb {
    plan: Plan,
    random: Random,
    tree: Tree,
    wal: Wal,
    /// The flush, and the compactions by the level that they write.
    workers: [Worker; MERGED_LEVELS + 1],
    metadata: Metadata,
    metadata_next_ns: u64,
    metadata_gap_ns: f64,
    user_next_ns: u64,
    /// Mean gap between users' reads; `None` if there are none.
    user_gap_ns: Option<f64>,
    faults: Faults,
}

impl Rocksdb {
    /// A stream from its beginning. Options out of the range of the text form are brought into it.
    #[must_use]
    pub fn new(options: RocksdbOptions) -> Self {
        let plan = Plan::new(options.scale.clamp(0.001, 100.0));
        let ns_per_block = BLOCK_BYTES as f64 * 1e9 / options.rate_bytes.clamp(1_000_000, 10_000_000_000) as f64;
        let reads = options.reads.clamp(0.0, 0.95);
        let user_gap_ns =
            (reads > 0.0).then(|| ns_per_block * OPERATION_BYTES / BLOCK_BYTES as f64 * (1.0 - reads) / reads);
        let metadata = Metadata::new(&plan, 0);
        let wal_end = metadata.end_block() + WAL_FILES * plan.memtable_blocks;
        let workers = std::array::from_fn(|level| {
            let speed = level.checked_sub(1).map_or(plan.flush_speed, |index| plan.levels[index].speed);
            Worker { job: None, next_ns: 0, ns_per_block: ns_per_block / speed, slowness: 1.0 }
        });
        Self {
            random: Random::new(options.seed),
            tree: Tree::new(&plan, wal_end),
            wal: Wal {
                left_blocks: plan.wal_blocks,
                file_blocks: plan.memtable_blocks,
                files: 0,
                at_block: plan.memtable_blocks,
                path: 0,
                unflushed: 0,
                next_ns: 0,
                ns_per_block,
            },
            workers,
            metadata,
            metadata_next_ns: 0,
            metadata_gap_ns: ns_per_block * plan.wal_per_metadata / METADATA_SPEED,
            user_next_ns: 0,
            user_gap_ns,
            faults: Faults::default(),
            plan,
        }
    }

    /// Size of the volume in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.tree.end_block() * BLOCK_BYTES
    }

    /// Who issues the next request, and when; `None` at the end.
    fn turn(&self) -> Option<(u64, Issuer)> {
        let writes = self.wal.left_blocks > 0;
        let has_room = self.wal.unflushed < WAL_FILES;
        let wal = (writes && has_room).then_some((self.wal.next_ns, Issuer::Wal));
        let workers = self.workers.iter().enumerate().filter(|(_, worker)| worker.job.is_some());
        let workers = workers.map(|(level, worker)| (worker.next_ns, Issuer::Background(level)));
        let metadata = self.metadata.is_due().then_some((self.metadata_next_ns, Issuer::Metadata));
        let user = (writes && self.user_gap_ns.is_some()).then_some((self.user_next_ns, Issuer::User));
        wal.into_iter().chain(workers).chain(metadata).chain(user).min_by_key(|(at_ns, _)| *at_ns)
    }

    fn append(&mut self, now_ns: u64, into: &mut Vec<Request>, names: &mut Names) {
        let wal = &mut self.wal;
        if wal.at_block == wal.file_blocks {
            // The oldest file gets a new name and number, and keeps its place (`recycle_log_file_num`).
            wal.files += 1;
            wal.at_block = 0;
            wal.path = names.paths.number(&format!("db/{:06}.log", self.tree.number()));
        }
        let place = (wal.files - 1) % WAL_FILES;
        let here = (wal.file_blocks - wal.at_block).min(REQUEST_BYTES / BLOCK_BYTES).min(wal.left_blocks);
        let begin = self.metadata.end_block() + place * wal.file_blocks + wal.at_block;
        into.push(Request {
            // The log is not synced in this run, so the kernel writes it back.
            process: names.processes.number("kworker/u16:1"),
            pid: WAL_PID,
            path: wal.path,
            inode: Tree::inode(place),
            flags: Flags::BACKGROUND,
            lifetime: Lifetime::Short,
            ..Request::new(now_ns, Op::Write, begin * BLOCK_BYTES, here * BLOCK_BYTES)
        });
        wal.at_block += here;
        wal.left_blocks -= here;
        wal.next_ns = now_ns + jittered_ns(&mut self.random, wal.ns_per_block * here as f64);
        self.metadata.owe(here);
        if wal.at_block == wal.file_blocks {
            wal.unflushed += 1;
            self.file_changed(now_ns);
            self.hand_out(now_ns, names);
        }
    }

    fn work(&mut self, level: usize, now_ns: u64, into: &mut Vec<Request>, names: &mut Names) {
        let Some(job) = &mut self.workers[level].job else { return };
        if let Some(request) = job.next(now_ns) {
            let process = names.processes.number(THREADS[level]);
            into.push(Request { process, pid: BACKGROUND_PID + level as u32, ..request });
            let blocks = request.len_bytes / BLOCK_BYTES;
            if request.op == Op::Write {
                self.metadata.owe(blocks);
            }
            let worker = &self.workers[level];
            let gap_ns = worker.ns_per_block * worker.slowness * blocks as f64;
            self.workers[level].next_ns = now_ns + jittered_ns(&mut self.random, gap_ns);
        }
        let Some(job) = self.workers[level].job.take_if(|job| job.is_done()) else { return };
        for file in self.tree.install(job.into_merge()) {
            self.discard(&file, level, now_ns, into, names);
        }
        if level == 0 {
            self.wal.unflushed = self.wal.unflushed.saturating_sub(1);
            // A writer that was stalled continues now.
            self.wal.next_ns = self.wal.next_ns.max(now_ns);
        }
        self.file_changed(now_ns);
        self.hand_out(now_ns, names);
    }

    fn discard(&self, file: &File, level: usize, now_ns: u64, into: &mut Vec<Request>, names: &mut Names) {
        let process = names.processes.number(THREADS[level]);
        for extent in &file.extents {
            let (offset, len) = (extent.begin_block * BLOCK_BYTES, extent.blocks * BLOCK_BYTES);
            into.push(Request {
                process,
                pid: BACKGROUND_PID + level as u32,
                path: file.path,
                inode: file.inode,
                ..Request::new(now_ns, Op::Discard, offset, len)
            });
        }
    }

    fn file_changed(&mut self, now_ns: u64) {
        if !self.metadata.is_due() {
            self.metadata_next_ns = now_ns;
        }
        self.metadata.fall_due();
    }

    /// Gives jobs to idle background threads.
    fn hand_out(&mut self, now_ns: u64, names: &mut Names) {
        for level in 0..self.workers.len() {
            if self.workers[level].job.is_some() {
                continue;
            }
            let merge = if level > 0 {
                self.tree.compaction(level, &self.plan, names)
            } else if self.wal.unflushed > 0 {
                self.tree.flush(&self.plan, names)
            } else {
                None
            };
            let worker = &mut self.workers[level];
            worker.job = merge.map(Job::new);
            worker.next_ns = now_ns;
            // Compactions have different speeds, so that those of different levels overlap in all ways, however many requests each has.
            worker.slowness = 0.75 + 0.5 * fraction(&mut self.random);
        }
    }

    /// Makes one user's read; data from before the trace is not read.
    fn user_read(&mut self, now_ns: u64, into: &mut Vec<Request>, names: &mut Names) {
        let (at, pick) = (self.random.below(self.tree.blocks()), self.random.next_u64());
        if let Some((file, block)) = self.tree.block(at, pick) {
            into.push(Request {
                process: names.processes.number("db_bench"),
                pid: USER_PID,
                path: file.path,
                inode: file.inode,
                flags: Flags::DIRECT,
                ..Request::new(now_ns, Op::Read, block * BLOCK_BYTES, BLOCK_BYTES)
            });
        }
        self.user_next_ns = now_ns + jittered_ns(&mut self.random, self.user_gap_ns.unwrap_or_default());
    }
}

impl Source for Rocksdb {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let end = into.len() + BATCH_REQUESTS;
        while into.len() < end {
            let Some((now_ns, issuer)) = self.turn() else { return Ok(false) };
            match issuer {
                Issuer::Wal => self.append(now_ns, into, names),
                Issuer::Background(level) => self.work(level, now_ns, into, names),
                Issuer::User => self.user_read(now_ns, into, names),
                Issuer::Metadata => {
                    let request = self.metadata.next(now_ns, &mut self.random, names);
                    into.push(request);
                    self.metadata_next_ns = now_ns + jittered_ns(&mut self.random, self.metadata_gap_ns);
                }
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
