//! A job: what is done to a target, how fast, and for how long. All formats (our TOML, fio's job files, DiskSpd's command line, the
//! built-in experiments) are converted to it.

pub use super::mix::{Mix, SizeMix, Sizes};

use super::steady::Steady;
use forebay_block::{OpKind, WaitMethod};
use std::path::PathBuf;

/// Jobs in groups: groups run one after the other, the jobs of a group at the same time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The groups in order; none is empty.
    pub groups: Vec<Vec<Job>>,
    /// Settings that were read and have no effect here, for the user: one sentence each.
    pub notes: Vec<String>,
}

/// One job: a number of threads that all do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the job in results.
    pub name: String,
    /// Number of threads; each has its own queue.
    pub threads: u32,
    /// I/Os in flight per thread: exactly this many with [`Arrival::Closed`], otherwise at most.
    pub depth: u32,
    /// Kinds of I/O and their weights.
    pub mix: Mix,
    /// Sizes of I/Os by direction.
    pub sizes: Sizes,
    /// The offsets of I/Os within the region.
    pub pattern: Pattern,
    /// The part of the target that is used.
    pub region: Region,
    /// When I/Os are intended.
    pub arrival: Arrival,
    /// Pause of the application after each I/O.
    pub think: Option<Think>,
    /// Pauses after bursts of I/Os.
    pub burst: Option<Burst>,
    /// Content of writes.
    pub data: Data,
    /// Writes carry headers, and reads check them.
    pub verify: bool,
    /// When the job ends.
    pub end: End,
    /// Ends the job early once it is steady.
    pub steady: Option<Steady>,
    /// Load before the measurement begins, in ns.
    pub warmup_ns: u64,
    /// Load after the measurement has ended, in ns.
    pub cooldown_ns: u64,
    /// Delay of the job's start after the beginning of its group, in ns.
    pub start_delay_ns: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// CPUs to which threads are pinned, round robin; empty if threads are not pinned.
    pub cpus: Vec<u32>,
    /// How completions are waited for.
    pub wait: WaitMethod,
    /// How I/Os are passed to the target.
    pub access: Access,
    /// Submit each I/O by itself instead of all ready ones in one call.
    pub single_submission: bool,
    /// Which evidence a pool gets with I/Os that come from a trace.
    pub evidence: Evidence,
}

/// How much of a trace's or generator's information about a request a pool gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Only kinds, offsets and sizes.
    #[default]
    None,
    /// Also what the block layer passes on: write-lifetime hints, and the marks of metadata and swap.
    Hints,
    /// Everything: also file, level of the table, process.
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

/// The offsets of I/Os within the region.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Random, all equally likely, at multiples of `align_bytes` (0: of the I/O's size) plus `skew_bytes`.
    Random {
        /// Alignment of offsets; 0: the size of the I/O.
        align_bytes: u64,
        /// Added to each offset, for deliberately unaligned I/O.
        skew_bytes: u64,
    },
    /// One after the other from the beginning of the region (of a thread's own share if `per_thread`), then again from there.
    Sequential {
        /// Each thread walks through its own share; otherwise every thread walks through all of the region.
        per_thread: bool,
    },
    /// Like sequential, with a fixed distance between the beginnings of I/Os.
    Strided {
        /// Distance in bytes; negative to walk backwards.
        stride_bytes: i64,
    },
    /// A share of random I/Os; each other I/O follows the one before.
    MixedSequential {
        /// Share of random I/Os, in percent.
        random_percent: u32,
    },
    /// Zipf's law over blocks; a fixed permutation scatters the popular ones over the region.
    Zipf {
        /// Exponent, above 0; 1 is allowed.
        theta: f64,
    },
    /// YCSB's scrambled Zipfian with its quirk: n = 10^16 items, and the zeta of 10^10.
    YcsbZipf,
    /// Pareto in fio's sense: the share `h` of the accesses goes to the share 1-h of the region, recursively; 0 < h < 1.
    Pareto {
        /// fio's h.
        h: f64,
    },
    /// Normal distribution around the middle of the region.
    Normal {
        /// Standard deviation in percent of the region.
        deviation_percent: f64,
        /// Whether a fixed permutation scatters the blocks over the region, as fio does, so that popular blocks do not lie together.
        scattered: bool,
    },
    /// Zones, each with a share of the accesses and a share of the region, random within. Shares are in percent; each kind sums to at most
    /// 100, and the rest is one more zone.
    Zones {
        /// The zones.
        zones: Vec<Zone>,
        /// Alignment of I/Os; 0: that of the smallest I/O.
        align_bytes: u64,
    },
    /// Every block once in random order, then again (fio without `norandommap`).
    Shuffled,
    /// Kinds, offsets and sizes of a recorded trace. The job's mix has the kinds that occur; its sizes are the largest ones.
    Replayed,
    /// Like [`Pattern::Replayed`], for a generated trace. Mix and sizes are set before the job runs, as for a recorded one.
    Generated {
        /// Name and parameters of the generator, as in `docs/generators.md`.
        name: String,
    },
    /// Patterns for reads, writes and trims (in this order), each with its own position, as fio's sequences by direction. None of them is
    /// `ByKind` itself or comes from a trace.
    ByKind(Box<[Pattern; 3]>),
}

impl Pattern {
    /// The pattern for I/Os of this kind; other kinds than the three have that of writes.
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

    /// The patterns it consists of: itself, or one for each kind.
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

/// A zone of the region with its share of the accesses.
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
    /// Offset.
    pub offset: Extent,
    /// Length; [`Extent::Bytes`] of 0 means up to the end.
    pub size: Extent,
}

/// A number of bytes, or a share of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Percent of the target.
    Percent(f64),
}

impl Default for Extent {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

/// When I/Os are intended.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrival {
    /// The next I/O when one has ended: the target determines the rate.
    Closed,
    /// Closed, with a limit on the rate over all threads since the start, as fio's `rate`. A target that falls behind is waited for, and what it
    /// delayed is made up for as fast as the depth allows.
    Throttled {
        /// I/Os a second, if limited.
        iops: Option<f64>,
        /// Bytes a second, if limited.
        bytes_per_second: Option<f64>,
    },
    /// At fixed intervals, whatever the target does; latency counts from the intended start.
    Constant {
        /// I/Os a second over all threads.
        iops: f64,
    },
    /// At exponentially distributed intervals; latency counts from the intended start.
    Poisson {
        /// Mean I/Os a second over all threads.
        iops: f64,
    },
    /// At the times in a text file (one time in seconds on each line), scaled.
    Times {
        /// The file.
        path: PathBuf,
        /// Divisor of the times.
        speed: f64,
    },
    /// At the times of the trace that the I/Os come from ([`Pattern::Replayed`], [`Pattern::Generated`]).
    Recorded {
        /// Divisor of the times.
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
    /// Length in nanoseconds.
    pub time_ns: u64,
    /// Whether the thread computes checksums over the data that it read, so that the core stays awake as under an application. Otherwise
    /// the thread sleeps.
    pub compute: bool,
}

/// I/Os in bursts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// I/Os of one burst, per thread.
    pub ios: u64,
    /// Pause between the end of a burst and the beginning of the next, in nanoseconds.
    pub pause_ns: u64,
}

/// Content of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Data {
    /// Share of each 4 KiB that is compressible, in percent: 0 is random data.
    pub compressible_percent: u32,
    /// Share of blocks that repeat one of a small set of blocks, in percent.
    pub duplicate_percent: u32,
}

/// When a job ends: at the first of these limits. At least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End {
    /// Time of the measurement in nanoseconds.
    pub after_ns: Option<u64>,
    /// Bytes transferred by all threads together.
    pub after_bytes: Option<u64>,
    /// I/Os of all threads together, without the flushes that [`Mix::flush_every`] adds.
    pub after_ios: Option<u64>,
    /// Passes over the region: the bytes transferred as a multiple of its size.
    pub after_passes: Option<f64>,
    /// Walks of all threads together through the region, where a stride leaves holes and the region is not the whole target: fio ends such
    /// a job at the end of the region, but walks through a whole file again and again.
    pub after_walks: Option<u64>,
    /// A pass is rounded down to a multiple of this number of bytes, as in fio if it visits each offset once; 0 if a pass is all of the
    /// region.
    pub pass_unit_bytes: u32,
}

/// How I/Os are passed to a file or block device. Other targets have only one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The system calls.
    pub calls: Calls,
    /// Through the page cache.
    pub buffered: bool,
    /// Each write is durable when it completes (O_DSYNC).
    pub dsync: bool,
}

/// The system calls of an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// io_uring with registered buffers and file. Where io_uring is forbidden, plain calls, and a note.
    #[default]
    Ring,
    /// io_uring with completions polled by the kernel (IORING_SETUP_IOPOLL); needs a device with poll queues.
    RingPolled,
    /// pread and pwrite, one at a time: depth 1.
    Sync {
        /// preadv2 and pwritev2 with RWF_HIPRI.
        high_priority: bool,
    },
}

impl Default for Job {
    /// 4 KiB random reads at depth 1 for ten seconds, after one second of warm-up.
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

    /// The size in bytes of all I/Os that transfer data; `None` where they have several.
    #[must_use]
    pub fn one_size(&self) -> Option<u32> {
        let mut sizes = self.mix.kinds().filter_map(|kind| match kind {
            OpKind::Read => Some(&self.sizes.read),
            OpKind::Write | OpKind::WriteFua => Some(&self.sizes.write),
            OpKind::Trim => Some(&self.sizes.trim),
            OpKind::Flush | OpKind::Fsync => None,
        });
        let first = sizes.next()?;
        let [(bytes, _)] = first.choices[..] else { return None };
        sizes.all(|size| size == first).then_some(bytes)
    }
}
