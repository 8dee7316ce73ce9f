//! A job: what is done to a target, how fast, for how long. Every way of writing one (our TOML, fio's job files,
//! DiskSpd's command line, the built-in experiments) ends here.

use super::steady::Steady;
use forebay_block::{OpKind, WaitMethod};
use std::path::PathBuf;

/// Jobs in groups: the groups run one after the other, the jobs of a group at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Groups, in order. None is empty.
    pub groups: Vec<Vec<Job>>,
    /// What was read and has no effect here, for the user's eyes: one sentence each.
    pub notes: Vec<String>,
}

/// One job: so many threads that all do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name in results.
    pub name: String,
    /// Threads; each has a queue of its own.
    pub threads: u32,
    /// I/Os in flight per thread: with [`Arrival::Closed`] exactly, otherwise at most.
    pub depth: u32,
    /// Kinds of I/O and their weights.
    pub mix: Mix,
    /// Sizes of reads, and of writes and trims.
    pub sizes: Sizes,
    /// Where I/Os go.
    pub pattern: Pattern,
    /// The part of the target that is used.
    pub region: Region,
    /// When I/Os are wanted.
    pub arrival: Arrival,
    /// Pause after each I/O.
    pub think: Option<Think>,
    /// Pauses after so many I/Os.
    pub burst: Option<Burst>,
    /// Content of writes.
    pub data: Data,
    /// Writes carry headers, reads check them.
    pub verify: bool,
    /// When it ends.
    pub end: End,
    /// When it is steady, and ends before that.
    pub steady: Option<Steady>,
    /// Seconds before measurement begins, and after it ends, during which the load already, or still, runs; in ns.
    pub warmup_ns: u64,
    /// See [`Job::warmup_ns`].
    pub cooldown_ns: u64,
    /// Nanoseconds after the group's begin at which the job starts.
    pub start_delay_ns: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// CPUs to pin threads to, round robin; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How completions are waited for.
    pub wait: WaitMethod,
    /// How I/Os reach the target.
    pub access: Access,
    /// Submit each I/O alone rather than all that are ready in one call.
    pub single_submission: bool,
    /// How much evidence goes to a pool with I/Os that come from a trace.
    pub evidence: Evidence,
}

/// How much of what a trace or a generator knows of its requests goes with them to a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Kinds, places and sizes alone.
    #[default]
    None,
    /// What the block layer hands on too: write-lifetime hints, and the marks of metadata and swap.
    Hints,
    /// All: also file, level of the table, process.
    All,
}

impl Evidence {
    /// Its name in jobs and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hints => "hints",
            Self::All => "all",
        }
    }
}

/// Kinds of I/O by weight, and flushes by count.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Weights; a kind appears once; at least one weight is positive.
    pub weights: Vec<(OpKind, u32)>,
    /// After so many writes, one of this kind ([`OpKind::Flush`] or [`OpKind::Fsync`]).
    pub flush_every: Option<(OpKind, u32)>,
}

/// Size of an I/O by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeMix {
    /// Bytes and weight; not empty. Sizes need not be multiples of anything: a target that cannot do them says so.
    pub choices: Vec<(u32, u32)>,
}

/// Sizes by direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    /// Of reads.
    pub read: SizeMix,
    /// Of writes.
    pub write: SizeMix,
    /// Of trims.
    pub trim: SizeMix,
}

/// Where I/Os go within the region.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Anywhere, equally likely, at multiples of `align_bytes` (0: of the I/O's size) plus `skew_bytes`.
    Random {
        /// Multiple that offsets have; 0: the size of the I/O.
        align_bytes: u64,
        /// Added to each offset, for I/O that is deliberately not aligned.
        skew_bytes: u64,
    },
    /// One after the other from the region's begin (each thread from its own share's begin where `per_thread`), round
    /// and round.
    Sequential {
        /// Each thread walks a share of its own; otherwise all threads walk all of it.
        per_thread: bool,
    },
    /// As sequential, with a fixed distance between the begins of I/Os.
    Strided {
        /// Distance in bytes; negative walks backwards.
        stride_bytes: i64,
    },
    /// Of 100 I/Os so many random, the others sequential after the one before.
    MixedSequential {
        /// Share of random I/Os, in percent.
        random_percent: u32,
    },
    /// Zipf's law over blocks, the popular ones scattered over the region by a fixed permutation.
    Zipf {
        /// Exponent, above 0; 1 is allowed.
        theta: f64,
    },
    /// YCSB's scrambled zipfian with its quirk: n = 10^16 items and the zeta of 10^10 (design notes, generators).
    YcsbZipf,
    /// Pareto in fio's sense: the share `h` of the accesses on the share 1-h of the region, recursively; 0 < h < 1.
    Pareto {
        /// fio's h.
        h: f64,
    },
    /// Normal distribution around the region's middle.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
        /// The blocks are scattered over the region by a fixed permutation, so that no place is popular (fio's normal).
        scattered: bool,
    },
    /// Zones by share of accesses and share of the region, random within; the shares are in percent and each sums to
    /// at most 100, the rest is one more zone.
    Zones {
        /// The zones.
        zones: Vec<Zone>,
        /// I/Os begin at multiples of this; 0: of the smallest I/O.
        align_bytes: u64,
    },
    /// Every block once in random order, then again (fio without `norandommap`).
    Shuffled,
    /// What a recorded trace says: kinds, places and sizes. The job's mix has the kinds that occur, its sizes are the
    /// longest.
    Replayed,
    /// The same of a trace that is made, not recorded. Before the job runs, mix and sizes are set as for a recorded one.
    Generated {
        /// Name and parameters of the generator, as `docs/generators.md` has them.
        name: String,
    },
    /// Reads, writes and trims, in this order, each by a pattern and from a place of their own (fio's sequences are by
    /// direction). None of the three is such a pattern again, nor one that comes from a trace.
    ByKind(Box<[Pattern; 3]>),
}

impl Pattern {
    /// The pattern of I/Os of this kind; that of writes for what is none of the three.
    #[must_use]
    pub fn of(&self, kind: OpKind) -> &Self {
        let Self::ByKind(patterns) = self else { return self };
        let [reads, writes, trims] = &**patterns;
        match kind {
            OpKind::Read => reads,
            OpKind::Trim => trims,
            OpKind::Write | OpKind::WriteFua | OpKind::Flush | OpKind::Fsync => writes,
        }
    }

    /// The patterns that it is made of: itself, or one for each kind.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        match self {
            Self::ByKind(patterns) => &**patterns,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether I/Os come from a [`crate::replay::Feed`].
    #[must_use]
    pub fn is_fed(&self) -> bool {
        matches!(self, Self::Replayed | Self::Generated { .. })
    }
}

/// A hot spot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zone {
    /// Share of the accesses, in percent.
    pub access_percent: f64,
    /// Share of the region, in percent.
    pub size_percent: f64,
}

/// Part of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Region {
    /// First byte.
    pub offset: Extent,
    /// Length; [`Extent::Bytes`] of 0: to the end.
    pub size: Extent,
}

/// Bytes, or a share of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the target.
    Percent(f64),
}

impl Default for Extent {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// When I/Os are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// The next when one has ended: the target sets the pace.
    Closed,
    /// Closed, but at most so many a second over all threads (or so many bytes): the pace of fio's `rate`, DiskSpd's
    /// `-g`. A target that falls behind is waited for.
    Throttled {
        /// I/Os a second, if limited.
        iops: Option<f64>,
        /// Bytes a second, if limited.
        bytes_per_second: Option<f64>,
    },
    /// At fixed intervals whatever the target does; latency counts from the intended start.
    Constant {
        /// I/Os a second over all threads.
        iops: f64,
    },
    /// At exponentially distributed intervals; latency counts from the intended start.
    Poisson {
        /// Mean I/Os a second over all threads.
        iops: f64,
    },
    /// At the times of a trace (text, one time in seconds a line), scaled.
    Times {
        /// The file.
        path: PathBuf,
        /// Times are divided by this.
        speed: f64,
    },
    /// At the times of the trace that gives the I/Os ([`Pattern::Replayed`], [`Pattern::Generated`]).
    Recorded {
        /// Times are divided by this.
        speed: f64,
    },
}

impl Arrival {
    /// Whether the schedule does not wait for the target.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Closed | Self::Throttled { .. })
    }
}

/// A pause of the application after each I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Think {
    /// How long, in nanoseconds.
    pub time_ns: u64,
    /// Computes a checksum over the data just read, again and again, for that long: the core stays awake as it does
    /// under an application. Otherwise the thread sleeps.
    pub compute: bool,
}

/// I/Os in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// I/Os of one burst, per thread.
    pub ios: u64,
    /// Pause between the end of one and the begin of the next, in nanoseconds.
    pub pause_ns: u64,
}

/// Content of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Data {
    /// Share of each 4 KiB that compresses to nothing, in percent: 0 is random.
    pub compressible_percent: u32,
    /// Share of blocks that repeat one of a small set, in percent.
    pub duplicate_percent: u32,
}

/// When a job ends. Whatever comes first; at least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End {
    /// Time of measurement in nanoseconds.
    pub after_ns: Option<u64>,
    /// Bytes transferred by all threads together.
    pub after_bytes: Option<u64>,
    /// I/Os of all threads together; what [`Mix::flush_every`] adds is none of them.
    pub after_ios: Option<u64>,
    /// Passes over the region: the bytes transferred reach so many times its size.
    pub after_passes: Option<f64>,
    /// Walks of all threads together through the region, where a stride leaves holes and the region is not all of the
    /// target: there fio ends at the region's end, where all of a file is walked round and round.
    pub after_walks: Option<u64>,
    /// Bytes of which a pass has a whole number, as fio's have where it visits each place once; 0 where it is all of the region.
    pub pass_unit_bytes: u32,
}

/// How I/Os reach a file or block device. Other targets have one way only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The system calls.
    pub calls: Calls,
    /// Through the page cache.
    pub buffered: bool,
    /// Each write durable when complete (O_DSYNC).
    pub dsync: bool,
}

/// System calls of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// io_uring with registered buffers and file; plain calls where io_uring is forbidden, and that is said.
    #[default]
    Ring,
    /// io_uring, completions polled by the kernel (IORING_SETUP_IOPOLL): needs a device with poll queues.
    RingPolled,
    /// pread and pwrite, one at a time: depth 1.
    Sync {
        /// preadv2 and pwritev2 with RWF_HIPRI.
        high_priority: bool,
    },
}

impl SizeMix {
    /// One size.
    #[must_use]
    pub fn fixed(bytes: u32) -> Self {
        Self { choices: vec![(bytes, 1)] }
    }

    /// The largest.
    #[must_use]
    pub fn max_bytes(&self) -> u32 {
        self.choices.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
    }
}

impl Mix {
    /// Only this kind.
    #[must_use]
    pub fn only(kind: OpKind) -> Self {
        Self { weights: vec![(kind, 100)], flush_every: None }
    }

    /// Reads and writes in percent of reads.
    #[must_use]
    pub fn reads_percent(percent: u32) -> Self {
        let weights = [(OpKind::Read, percent.min(100)), (OpKind::Write, 100 - percent.min(100))];
        Self { weights: weights.into_iter().filter(|&(_, weight)| weight > 0).collect(), flush_every: None }
    }

    /// Whether anything in it changes what the target holds.
    #[must_use]
    pub fn is_destructive(&self) -> bool {
        self.weights.iter().any(|&(kind, weight)| weight > 0 && kind.is_destructive())
    }

    /// The kind of the flushes that are there only since they follow writes.
    #[must_use]
    pub fn added_flush(&self) -> Option<OpKind> {
        let (kind, _) = self.flush_every?;
        (!self.weights.iter().any(|&(drawn, weight)| weight > 0 && drawn == kind)).then_some(kind)
    }

    /// Kinds that may occur.
    pub fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        let drawn = self.weights.iter().filter(|&&(_, weight)| weight > 0).map(|&(kind, _)| kind);
        drawn.chain(self.flush_every.map(|(kind, _)| kind))
    }
}

impl Default for Job {
    /// 4 KiB random reads at depth 1 for ten seconds after one of warm-up.
    fn default() -> Self {
        let size = SizeMix::fixed(4096);
        Self {
            name: "job".to_owned(),
            threads: 1,
            depth: 1,
            mix: Mix::only(OpKind::Read),
            sizes: Sizes { read: size.clone(), write: size.clone(), trim: size },
            pattern: Pattern::Random { align_bytes: 0, skew_bytes: 0 },
            region: Region::default(),
            arrival: Arrival::Closed,
            think: None,
            burst: None,
            data: Data::default(),
            verify: false,
            end: End { after_ns: Some(10_000_000_000), ..End::default() },
            steady: None,
            warmup_ns: 1_000_000_000,
            cooldown_ns: 0,
            start_delay_ns: 0,
            seed: 1,
            cpus: Vec::new(),
            wait: WaitMethod::Sleep,
            access: Access::default(),
            single_submission: true,
            evidence: Evidence::default(),
        }
    }
}

impl Job {
    /// The largest I/O in bytes.
    #[must_use]
    pub fn max_io_bytes(&self) -> u32 {
        self.sizes.read.max_bytes().max(self.sizes.write.max_bytes())
    }
}
