//! The keys of a job file, and their reference, which agrees with the documentation.

use super::value::{Bytes, ExtentValue, PatternValue, RateValue, SizeList, SteadyValue, Time, WaitValue};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A job file: one `[[job]]` for each job, and `[defaults]` for what they share.
///
/// Unknown keys are errors. Sizes are bytes (`4096`) or texts with a unit, `KiB`, `MiB`, `GiB`, `TiB` being powers of
/// 1024 and `kB`, `MB`, `GB`, `TB` powers of 1000. Times are texts with a unit: `ns`, `us`, `ms`, `s`, `min`, `h`, `d`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileText {
    /// Values for all jobs that do not say otherwise: any key of a job but `name`, `after`, `group` and `generator`. A job that
    /// says `rw` or `mix` takes neither from here, one that says `size` neither `size_write` nor `size_trim`, and one
    /// that says any of `runtime`, `bytes`, `ios`, `passes` none of the others. A job's own `arrival` keeps the `rate`
    /// or `trace` from here, except `closed`. `region`, `burst` and `trace` are taken whole.
    #[serde(default)]
    pub defaults: Option<Spanned<JobText>>,
    /// The jobs. Those of one group run at once, the groups one after the other.
    #[serde(default)]
    pub job: Vec<Spanned<JobText>>,
}

/// One job: so many threads that all do the same.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobText {
    /// Name in results, different from those of all other jobs. Default: `job1`, `job2`, ...
    pub name: Option<String>,
    /// Runs in the group after the one of the job named here. Not together with `group`.
    pub after: Option<String>,
    /// Number of its group, from 1: groups run in the order of their numbers. Default: 1.
    pub group: Option<u32>,

    /// Kind and order in fio's words: `read`, `write`, `trim` (one block after the other), `randread`, `randwrite`,
    /// `randtrim` (anywhere), and `rw`, `randrw` for both (see `read_percent`). `pattern` overrides the order. Default:
    /// `randread`. Not together with `mix`.
    pub rw: Option<Direction>,
    /// Reads among the I/Os of `rw` and `randrw`, in percent, 0 to 100. Default: 50.
    pub read_percent: Option<u32>,
    /// Kinds of I/O by weight: `{ read = 70, write = 28, trim = 2 }`. Not together with `rw`.
    pub mix: Option<MixText>,
    /// Writes are durable when complete (FUA). Default: false. With `mix`, give `write_fua` a weight instead.
    pub fua: Option<bool>,
    /// A flush after so many writes, per thread. Default: none.
    pub flush_every: Option<u32>,
    /// The flush of `flush_every`: `flush` (of a file fdatasync) or `fsync`. Default: `flush`.
    pub flush_kind: Option<FlushKind>,

    /// The I/Os are those of a known system, made from a seed ([generators.md](generators.md)): `rocksdb:`, `mongodb:` or
    /// `ycsb:`, with parameters as in `"ycsb:?workload=b&rate=5000"`. Kinds, places and sizes are its; `scale` (of `ycsb:`
    /// `records`), where it is not given, is made smaller until the target holds all of it. The job ends with it, or with
    /// `runtime`, `bytes` or `ios`. Without warm-up by default. Not together with what says kinds, places or sizes, nor
    /// with `region`, `rate`, `trace`, `think`, `burst`, `passes`, `verify`.
    pub generator: Option<String>,

    /// How much of what the generator knows of its requests goes with them to a `pool:` target, as a host's hints would:
    /// `none`, `hints` (write-lifetime hints, and the marks of metadata and swap), `all` (also file, level of the table,
    /// process). Only with `generator`. Default: `none`.
    pub evidence: Option<EvidenceKind>,

    /// Size of an I/O, or a list of sizes with weights: `["4KiB:80", "64KiB:20"]`. 1 byte to 32 MiB, 256 sizes at most.
    /// Sizes below a sector go where the target takes them. Default: `"4KiB"`.
    pub size: Option<SizeList>,
    /// Size of a write, where it differs. Default: `size`.
    pub size_write: Option<SizeList>,
    /// Size of a trim, where it differs. Default: `size_write`, then `size`.
    pub size_trim: Option<SizeList>,
    /// Where I/Os go within the region:
    /// - `random`: anywhere; see `align` and `skew`.
    /// - `sequential`: one after the other, every thread through all of the region; `sequential:per-thread`: each
    ///   thread through its own share.
    /// - `strided:1MiB`: from one begin to the next so many bytes; `strided:-64KiB` walks backwards.
    /// - `mixed:30`: of 100 I/Os 30 random, the others after the one before.
    /// - `zipf:0.99`: Zipf's law with this exponent (above 0), the popular blocks scattered.
    /// - `ycsb`: YCSB's scrambled Zipfian, its quirk included.
    /// - `pareto:0.2`: fio's Pareto with this h, above 0 and below 1.
    /// - `normal:10`: around the middle, with a standard deviation of 10 percent of the region;
    ///   `normal-scattered:10`: the same blocks scattered over the region.
    /// - `zones:90/10,10/90`: 90 percent of the accesses on the first 10 percent of the region, 10 on the next 90; what
    ///   the zones leave is one more zone. 256 zones at most.
    /// - `shuffled`: every block once in random order, then again.
    ///
    /// Default: what `rw` says; with `mix`: `random`.
    pub pattern: Option<PatternValue>,
    /// Random offsets are multiples of this. Only with `random`. Default: the size of the I/O.
    pub align: Option<Bytes>,
    /// Added to each random offset, for I/O that is deliberately not aligned. Only with `random`. Default: 0.
    pub skew: Option<Bytes>,
    /// The part of the target that is used: `{ offset = "1GiB", size = "50%" }`. Default: all of it.
    pub region: Option<RegionText>,

    /// Threads, each with a queue of its own, 1 to 1024. Default: 1.
    pub threads: Option<u32>,
    /// I/Os in flight per thread, 1 to 65536: exactly so many in closed loop, otherwise at most. Default: 1.
    pub depth: Option<u32>,

    /// When I/Os are wanted:
    /// - `closed`: the next when one has ended.
    /// - `throttled`: closed, and at most `rate`: a slow target is waited for, so that its stalls hide I/Os (fio's
    ///   `rate`, DiskSpd's `-g`).
    /// - `constant`: every 1/`rate` seconds whatever the target does; latency counts from the intended start.
    /// - `poisson`: at exponentially distributed intervals, `rate` in the mean; latency from the intended start.
    /// - `trace`: at the times of a trace; see `trace`.
    /// - `generator`: at the times of the `generator`; latency from there. `depth` is room, 128 by default.
    ///
    /// Default: `constant` with `rate`, `trace` with `trace`, otherwise `closed`.
    pub arrival: Option<ArrivalKind>,
    /// I/Os a second (`10000`) or bytes a second (`"100MiB/s"`), over all threads. Bytes are turned into I/Os by the
    /// mean size, except with `throttled`.
    pub rate: Option<RateValue>,
    /// Times of I/Os: `{ file = "times.txt", speed = 2.0 }`, one time in seconds a line.
    pub trace: Option<TraceText>,
    /// Pause of the application after each I/O. Default: none.
    pub think: Option<Time>,
    /// The pause computes a checksum over the data just read instead of sleeping. Default: false.
    pub think_compute: Option<bool>,
    /// Bursts: `{ ios = 64, pause = "10ms" }`, per thread. Default: none.
    pub burst: Option<BurstText>,

    /// Time of measurement. Default: `"10s"` where nothing else ends the job.
    pub runtime: Option<Time>,
    /// Ends after so many bytes of all threads together.
    pub bytes: Option<Bytes>,
    /// Ends after so many I/Os of all threads together.
    pub ios: Option<u64>,
    /// Ends when so many times the region's size has been transferred.
    pub passes: Option<f64>,
    /// Ends when it is steady, by fio's criteria: `"iops:5%"` where all parts of a rolling window are within 5 percent of their
    /// mean, `"iops_slope:0.3%"` where the line through them rises or falls by less than 0.3 percent of it from part to
    /// part. `bw` and `lat` (mean total latency) likewise; limits may be numbers (`200`, `"bw:1MiB"`, `"lat:2us"`). Default: never.
    pub steadystate: Option<SteadyValue>,
    /// Length of the window that must be steady.
    pub steadystate_duration: Option<Time>,
    /// No window begins before so much of the measurement is over. Default: at once.
    pub steadystate_ramp_time: Option<Time>,
    /// Length of the window's parts. Default: `"1s"`.
    pub steadystate_check_interval: Option<Time>,
    /// Load before measurement begins. Default: `"1s"`.
    pub warmup: Option<Time>,
    /// Load after measurement has ended. Default: none.
    pub cooldown: Option<Time>,
    /// Starts so long after its group. Default: at once.
    pub start_delay: Option<Time>,

    /// Share of each written 4 KiB that compresses to nothing, in percent. Default: 0, random data.
    pub compressible: Option<u32>,
    /// Share of written blocks that repeat one of a small set, in percent. Default: 0.
    pub duplicates: Option<u32>,
    /// Writes carry headers, reads check them. Default: false.
    pub verify: Option<bool>,
    /// Seed of everything random. Default: the job's number in the file, from 1, so that jobs draw different numbers;
    /// 1 for all with `verify`, so that one job can check what another has written.
    pub seed: Option<u64>,

    /// CPUs that threads are pinned to, round robin: `[0, 2]`. Default: not pinned.
    pub cpus: Option<Vec<u32>>,
    /// How completions are waited for: `sleep`, `spin`, `hybrid:20us` (looking that long, then sleeping). Default:
    /// `sleep`; `spin` with `ring-polled`.
    pub wait: Option<WaitValue>,
    /// System calls for files and block devices: `ring` (io_uring), `ring-polled` (io_uring, the kernel polls; needs a
    /// device with poll queues), `sync` (pread and pwrite, depth 1), `sync-hipri` (preadv2 with RWF_HIPRI, which no
    /// longer polls on current kernels). Default: `ring`.
    pub calls: Option<CallsKind>,
    /// Through the page cache: measures memory. Default: false.
    pub buffered: Option<bool>,
    /// The file is opened with O_DSYNC. Default: false.
    pub dsync: Option<bool>,
    /// Each I/O is submitted alone rather than all that are ready in one call, as
    /// applications and fio do. Default: true.
    pub single_submission: Option<bool>,
}

/// Kinds of I/O by weight.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "weights by kind of I/O, such as { read = 70, write = 30 }")]
pub struct MixText {
    /// Reads.
    pub read: u32,
    /// Writes.
    pub write: u32,
    /// Writes that are durable when complete.
    pub write_fua: u32,
    /// Discards.
    pub trim: u32,
    /// Flushes, drawn like any other I/O.
    pub flush: u32,
    /// fsync(2), drawn like any other I/O.
    pub fsync: u32,
}

/// Part of a target.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a part of the target, such as { offset = \"1GiB\", size = \"50%\" }")]
pub struct RegionText {
    /// First byte, as a size or a share of the target. Default: 0.
    pub offset: Option<ExtentValue>,
    /// Length, as a size or a share of the target. Default: to the end.
    pub size: Option<ExtentValue>,
}

/// Bursts with pauses between.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "bursts and their pause, such as { ios = 64, pause = \"10ms\" }")]
pub struct BurstText {
    /// I/Os of one burst, at least 1.
    pub ios: u64,
    /// Pause between bursts.
    pub pause: Time,
}

/// Times of I/Os.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a file of times, such as { file = \"times.txt\", speed = 2.0 }")]
pub struct TraceText {
    /// Text, one time in seconds a line.
    pub file: PathBuf,
    /// Times are divided by this. Default: 1.
    pub speed: Option<f64>,
}

/// Kind and order of I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential discards.
    Trim,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Random discards.
    RandTrim,
    /// Sequential reads and writes.
    #[serde(alias = "readwrite")]
    Rw,
    /// Random reads and writes.
    RandRw,
}

/// The flush after writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlushKind {
    /// Of a file fdatasync(2).
    Flush,
    /// fsync(2).
    Fsync,
}

/// How much evidence goes to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceKind {
    /// Nothing.
    None,
    /// Hints and marks of the block layer.
    Hints,
    /// All that is known.
    All,
}

/// When I/Os are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalKind {
    /// The target sets the pace.
    Closed,
    /// Closed and limited.
    Throttled,
    /// Fixed intervals.
    Constant,
    /// Exponential intervals.
    Poisson,
    /// A file of times.
    Trace,
    /// Those of the generator.
    Generator,
}

/// System calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallsKind {
    /// io_uring.
    Ring,
    /// io_uring with polled completions.
    RingPolled,
    /// pread and pwrite.
    Sync,
    /// preadv2 and pwritev2 with RWF_HIPRI.
    SyncHipri,
}
