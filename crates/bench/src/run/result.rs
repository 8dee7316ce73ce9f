//! The results of a run.

use super::drift::Drift;
use super::failures::Failures;
use super::machine::MachineUse;
use super::tally::{Latencies, Tally};
use super::thread_use::ThreadUse;
use crate::data::verify::Judged;
use crate::job::model::Job;
use crate::job::steady::Figure;
use crate::stats::clustering::{Blocks, mean_interval};
use crate::stats::mean::throughput;
use crate::stats::{Confidence, Interval};
use forebay_block::{OpKind, WaitMethod};

/// Share of the time in use from which the load generator counts as the limit.
const GENERATOR_BUSY: f64 = 0.9;

/// I/Os for each I/O in flight between two sleeps from which a generator counts as never sleeping.
const NEVER_SLEPT_IOS: u64 = 1000;

/// Most intervals that are examined: a week of seconds; longer runs are judged by their first week.
const INTERVALS_MAX: u64 = 7 * 86_400;

/// A job's figures.
#[derive(Debug)]
pub struct JobResult {
    /// The job that was run.
    pub job: Job,
    /// Name of the target; `None` unless the job ran on several targets.
    pub target_name: Option<String>,
    /// How the target was really accessed.
    pub description: String,
    /// Notes for the user about the target and the run.
    pub notes: Vec<String>,
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// Nanoseconds from the beginning of the measurement to the last measured completion, or to the end of the window if that is later.
    pub duration_ns: u64,
    /// The time to which rates refer, in nanoseconds. For a fixed amount of work: all of it. For a closed loop that was full when the
    /// window began: the window, because as many I/Os of the warm-up end in it as measured I/Os end after it. Otherwise: the time in which
    /// the I/Os begun in the window ended, but no longer than they would have taken at the rate at which I/Os ended within it. So no rate
    /// is above what was observed, and a single I/O that hangs at the end counts for latency and not for the rate.
    pub rated_ns: u64,
    /// The time to which the mean depth refers, in nanoseconds: `rated_ns` if the loop was full at the beginning, but `duration_ns` if an
    /// I/O took far longer than the others.
    pub depth_ns: u64,
    /// Figures by kind of I/O, in the order of the kinds; kinds that did not occur are left out.
    pub kinds: Vec<KindResult>,
    /// One row for each interval.
    pub intervals: Vec<IntervalRow>,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// Throughput of short windows.
    pub bursts: Vec<BurstRow>,
    /// Mean number of I/Os in flight that were submitted in the measurement, over `depth_ns`; integrated over every change, not derived
    /// from other figures.
    pub depth_mean: f64,
    /// I/Os that succeeded, by the depth of their thread at their issue, themselves included: 1, 2 to 3, 4 to 7, 8 to 15, 16 to 31, 32 to
    /// 63, 64 and more.
    pub depth_levels: [u64; 7],
    /// Mean time in flight in nanoseconds, from submission (the beginning of the call) until the completion was seen, over all kinds,
    /// failed I/Os included. Time that an I/O waited for its submission is not included.
    pub service_mean_ns: f64,
    /// Processor use of the threads within the window.
    pub used: ThreadUse,
    /// What the whole machine did during the measurement, if it was watched.
    pub machine: Option<MachineUse>,
    /// I/Os that failed.
    pub failures: Failures,
    /// Figures of the schedule; `None` for a closed loop.
    pub open: Option<OpenLoop>,
    /// Drift from the recorded times; `None` unless this is a replay at recorded times.
    pub drift: Option<Drift>,
    /// Number of I/Os that never completed.
    pub hung: u32,
    /// Why the result covers only a part of the job; `None` if it is complete.
    pub partial: Option<Partial>,
    /// Number of records that were lost because the spill lagged.
    pub records_dropped: u64,
    /// How many units were judged, and how; `None` without verifying.
    pub judged: Option<Judged>,
    /// The steady state of a job that was to end once steady.
    pub steady: Option<SteadyState>,
    /// In the joint result of several targets: the time in which the job ran on all of them; `None` if that was less than an interval.
    pub all_ran: Option<AllRan>,
}

/// The time in which a job ran on all its targets, until the first of them was done. Rates over a longer time would be those of fewer
/// targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllRan {
    /// Its length in nanoseconds, a multiple of the interval.
    pub duration_ns: u64,
    /// I/Os that succeeded in this time, on all targets.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
}

impl AllRan {
    /// Made from the results of each target and the joint one.
    pub(super) fn of(on_each: &[JobResult], together: &JobResult) -> Option<Self> {
        let end_ns = on_each.iter().map(|result| result.duration_ns).min()?;
        let mut all = Self { duration_ns: 0, ios: 0, bytes: 0 };
        for row in together.intervals.iter().take_while(|row| row.begin_ns + row.length_ns <= end_ns) {
            all.duration_ns = row.begin_ns + row.length_ns;
            all.ios += row.ios;
            all.bytes += row.bytes;
        }
        (all.duration_ns > 0).then_some(all)
    }

    /// I/Os a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        per_second(self.ios, self.duration_ns)
    }

    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.duration_ns)
    }
}

/// Why a result is partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// The user ended the run.
    Interrupted,
    /// Too many failures, or the target is gone.
    GaveUp,
    /// I/Os in flight never completed.
    Hung,
    /// The host that made the load was lost.
    Lost,
}

impl Partial {
    /// Name for people and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "interrupted",
            Self::GaveUp => "gave up after failures",
            Self::Hung => "I/Os never came back",
            Self::Lost => "a host was lost",
        }
    }
}

/// Figures of a kind of I/O.
#[derive(Debug)]
pub struct KindResult {
    /// The kind.
    pub kind: OpKind,
    /// I/Os that succeeded.
    pub ios: u64,
    /// Bytes of the I/Os that succeeded.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// I/Os that the warm-up of an open loop left waiting.
    pub backlog: Backlog,
    /// From intended to submitted.
    pub submission: Latencies,
    /// From submitted to seen completed.
    pub device: Latencies,
    /// From intended to seen completed.
    pub total: Latencies,
    /// Total latencies by blocks of time, to find stalls that cluster.
    pub blocks: Blocks,
}

impl KindResult {
    /// I/Os to which rates refer: those that succeeded, including the backlog of the warm-up.
    #[must_use]
    pub fn rated_ios(&self) -> u64 {
        self.ios + self.backlog.ios
    }

    /// Bytes of the I/Os to which rates refer.
    #[must_use]
    pub fn rated_bytes(&self) -> u64 {
        self.bytes + self.backlog.bytes
    }

    /// I/Os that were submitted in the measurement and have ended, failed ones included: those to which the depth refers.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ios + self.errors + self.backlog.ios + self.backlog.errors
    }

    /// The interval of the mean total latency, in nanoseconds; `None` with fewer than 8 blocks of time. Latencies that came after their
    /// interval was closed are in the mean and in no block, so the interval is widened to include the mean.
    #[must_use]
    pub fn mean_interval(&self, confidence: Confidence) -> Option<Interval> {
        let (mean, found) = (self.total.mean_ns(), mean_interval(&self.blocks, confidence)?);
        Some(Interval { low: found.low.min(mean), high: found.high.max(mean) })
    }
}

/// One interval of a job, over all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntervalRow {
    /// Beginning, in nanoseconds since the measurement began.
    pub begin_ns: u64,
    /// Length in nanoseconds: that of an interval; the last row may be shorter, and a row that includes others is longer.
    pub length_ns: u64,
    /// Number of I/Os completed, including those begun in the warm-up.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// Number of I/Os that failed.
    pub errors: u64,
    /// Total latency in nanoseconds: mean, median, p99, p99.9, maximum.
    pub latency_ns: [u64; 5],
    /// Counts of reads.
    pub read: Direction,
    /// Counts of writes, FUA or not.
    pub write: Direction,
    /// Latencies of reads.
    pub read_latency: OfDirection,
    /// Latencies of writes.
    pub write_latency: OfDirection,
}

/// Total latencies of one direction in an interval, including I/Os begun in the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfDirection {
    /// Number of I/Os.
    pub samples: u64,
    /// Median, p99, p99.9 and maximum, in nanoseconds.
    pub levels_ns: [u64; 4],
}

impl OfDirection {
    pub(super) fn new(tally: &Tally) -> Self {
        Self { samples: tally.count(), levels_ns: tally.quantiles_ns([0.5, 0.99, 0.999, 1.0]) }
    }

    /// Adds latencies that came late. Quantiles cannot be added, so the worse ones are kept.
    fn add(&mut self, late: Self) {
        self.samples += late.samples;
        self.levels_ns = std::array::from_fn(|at| self.levels_ns[at].max(late.levels_ns[at]));
    }
}

/// The I/Os of one direction in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Number of I/Os completed.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of total latencies in nanoseconds.
    pub latency_sum_ns: u64,
}

impl Direction {
    pub(super) fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(other.latency_sum_ns);
    }

    /// Mean total latency in nanoseconds; 0 without I/Os.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.latency_sum_ns.checked_div(self.ios).unwrap_or(0)
    }
}

/// I/Os of an open loop that were intended in its warm-up, still waited when it was over, and were submitted in the measurement. The target
/// served them in the measured time, so they count for rates and for the depth; they were intended before it, so their latencies do not
/// count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number that succeeded.
    pub ios: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Number that failed.
    pub errors: u64,
}

impl Backlog {
    pub(crate) fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

/// Throughput over windows of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstRow {
    /// Length of the windows in nanoseconds.
    pub window_ns: u64,
    /// I/Os a second in the fastest window.
    pub iops_max: f64,
    /// I/Os a second in the slowest window.
    pub iops_min: f64,
    /// Bytes a second in the fastest window.
    pub bytes_per_second_max: f64,
    /// Bytes a second in the slowest window.
    pub bytes_per_second_min: f64,
}

/// How well an open loop kept its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLoop {
    /// I/Os intended within the window.
    pub scheduled: u64,
    /// Scheduled I/Os that were submitted.
    pub issued: u64,
    /// I/Os submitted in the same time, but intended in the warm-up, which had left them waiting.
    pub backlog: u64,
    /// Time in which scheduled I/Os and backlog were submitted, in nanoseconds: the schedule's length, or longer if the loop fell behind.
    pub issued_ns: u64,
    /// I/Os submitted more than 100 us late although a slot was free: the tool was the cause.
    pub late: u64,
    /// How often an I/O was due and no slot was free: the depth was too small for this rate and target.
    pub no_slot: u64,
}

/// The outcome of a job that was to end once steady.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SteadyState {
    /// End of the window over which the job was steady, in nanoseconds since the measurement began; `None` if it was not.
    pub attained_ns: Option<u64>,
    /// That window; if there was none, the last one that was judged; `None` if the run was too short for a window.
    pub window: Option<SteadyWindow>,
}

/// A window that was judged for the steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyWindow {
    /// Beginning, in nanoseconds since the measurement began.
    pub begin_ns: u64,
    /// Length of each part in nanoseconds.
    pub part_ns: u64,
    /// The parts in order of time.
    pub parts: Vec<Part>,
    /// The value of the criterion, in the unit of its limit; negative for a falling slope. `None` if it is not defined: no I/O ended in the
    /// window, or a part had no I/O with a latency.
    pub value: Option<f64>,
}

/// A part of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Number of I/Os completed.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of the total latencies in nanoseconds.
    pub latency_sum_ns: f64,
}

impl Part {
    fn figure(&self, figure: Figure, part_ns: u64) -> f64 {
        match figure {
            Figure::Iops => per_second(self.ios, part_ns),
            Figure::Bandwidth => per_second(self.bytes, part_ns),
            // Not a number without I/Os: such a window is not judged.
            Figure::Latency => self.latency_sum_ns / self.ios as f64,
        }
    }
}

impl SteadyWindow {
    /// End, in nanoseconds since the measurement began.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.len_ns()
    }

    /// Length in nanoseconds.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.part_ns * self.parts.len() as u64
    }

    /// The sum of all parts.
    #[must_use]
    pub fn whole(&self) -> Part {
        self.parts.iter().fold(Part::default(), |sum, part| Part {
            ios: sum.ios + part.ios,
            bytes: sum.bytes + part.bytes,
            latency_sum_ns: sum.latency_sum_ns + part.latency_sum_ns,
        })
    }

    /// The figure of each part.
    #[must_use]
    pub fn figures(&self, figure: Figure) -> Vec<f64> {
        self.parts.iter().map(|part| part.figure(figure, self.part_ns)).collect()
    }
}

impl IntervalRow {
    /// Adds figures that came late. Quantiles cannot be added, so the worse ones are kept.
    pub fn add(&mut self, late: &Self) {
        let ios = self.ios + late.ios;
        if ios > 0 {
            let sum = u128::from(self.latency_ns[0]) * u128::from(self.ios)
                + u128::from(late.latency_ns[0]) * u128::from(late.ios);
            let mean = (sum / u128::from(ios)) as u64;
            let worse = |at: usize| self.latency_ns[at].max(late.latency_ns[at]);
            self.latency_ns = [mean, worse(1), worse(2), worse(3), worse(4)];
        }
        (self.ios, self.bytes, self.errors) = (ios, self.bytes + late.bytes, self.errors + late.errors);
        self.length_ns = self.length_ns.max(late.length_ns);
        self.read.add(late.read);
        self.write.add(late.write);
        self.read_latency.add(late.read_latency);
        self.write_latency.add(late.write_latency);
    }
}

impl JobResult {
    /// Number of I/Os that succeeded.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.ios).sum()
    }

    /// I/Os to which rates refer: those that succeeded, including the backlog of the warm-up.
    #[must_use]
    pub fn rated_ios(&self) -> u64 {
        self.kinds.iter().map(KindResult::rated_ios).sum()
    }

    /// I/Os that were submitted in the measurement and have ended, failed ones and the warm-up's backlog included: those to which the depth
    /// refers.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.kinds.iter().map(KindResult::ended).sum()
    }

    /// Whether anything was measured: an I/O submitted in the measurement has ended, with or without success.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.ended() > 0
    }

    /// Whether the job was to verify what it reads, and nothing could be judged.
    #[must_use]
    pub fn has_verified_nothing(&self) -> bool {
        let reads = self.job.mix.kinds().any(|kind| kind == OpKind::Read);
        reads && self.judged.is_some_and(|judged| judged.read() == judged.unjudged)
    }

    /// Mean total latency of all kinds, in nanoseconds; `None` without I/Os.
    #[must_use]
    pub fn total_mean_ns(&self) -> Option<f64> {
        let ios = self.ios();
        let sum: f64 = self.kinds.iter().map(|kind| kind.total.mean_ns() * kind.total.count() as f64).sum();
        (ios > 0).then(|| sum / ios as f64)
    }

    /// Mean number of I/Os that were wanted: those in flight, and those waiting for submission by Little's law (rate times mean wait).
    #[must_use]
    pub fn depth_wanted(&self) -> Option<f64> {
        let wait_ns = (self.total_mean_ns()? - self.service_mean_ns).max(0.0);
        Some(self.depth_mean + per_second(self.rated_ios(), self.depth_ns) * wait_ns / 1e9)
    }

    /// Share of the time in which the threads that made the load used the processor, 0 to 1. `None` where being busy says nothing: the
    /// threads wait by polling, compute as the job asks, or ran in virtual time.
    #[must_use]
    pub fn generator_busy(&self) -> Option<f64> {
        let computes = self.job.think.is_some_and(|think| think.compute);
        let cpu_ns = self.used.cpu_all_ns();
        if self.job.wait != WaitMethod::Sleep || computes || cpu_ns == 0 || self.duration_ns == 0 {
            return None;
        }
        // Processor use before the first I/O and after the last one is included.
        Some((cpu_ns as f64 / (self.duration_ns as f64 * f64::from(self.job.threads))).min(1.0))
    }

    /// Share of the time in which these threads had work, 0 to 1: they used the processor, or waited for one that others used. In virtual
    /// time, the share of the modelled host's threads. `None` where being busy says nothing, or this is not known.
    #[must_use]
    pub fn generator_occupied(&self) -> Option<f64> {
        let all_ns = self.duration_ns as f64 * f64::from(self.job.threads);
        match self.used.modelled_ns {
            Some(work_ns) => (all_ns > 0.0).then(|| (work_ns as f64 / all_ns).min(1.0)),
            None => Some((self.generator_busy()? + self.used.waited_ns? as f64 / all_ns).min(1.0)),
        }
    }

    /// Whether the threads almost never slept to wait for a completion, and so had no time left, whatever the kernel reports of their time:
    /// the time that a hypervisor takes away from a virtual processor appears in no account.
    fn generator_never_slept(&self) -> bool {
        let Some((voluntary, _)) = self.used.switches.filter(|_| self.generator_busy().is_some()) else { return false };
        // All I/Os in flight may end during one sleep.
        voluntary.saturating_mul(NEVER_SLEPT_IOS).saturating_mul(self.job.depth.into()) < self.rated_ios()
    }

    /// Whether the threads that made the load had no time left: then the rate is the generator's limit, not the target's.
    #[must_use]
    pub fn is_limited_by_generator(&self) -> bool {
        let is_busy = |share: Option<f64>| share.is_some_and(|busy| busy >= GENERATOR_BUSY);
        is_busy(self.generator_busy()) || is_busy(self.generator_occupied()) || self.generator_never_slept()
    }

    /// Whether the rate was limited by the modelled host.
    #[must_use]
    pub fn is_limited_by_modelled_host(&self) -> bool {
        self.used.modelled_ns.is_some() && self.is_limited_by_generator()
    }

    /// Bytes of the I/Os that succeeded.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.bytes).sum()
    }

    /// I/Os a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        per_second(self.rated_ios(), self.rated_ns)
    }

    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.kinds.iter().map(KindResult::rated_bytes).sum(), self.rated_ns)
    }

    /// Total latencies of all kinds that transfer data.
    #[must_use]
    pub fn total(&self) -> Latencies {
        let mut all = Latencies::new();
        self.kinds.iter().filter(|kind| kind.kind.has_data()).for_each(|kind| all.merge(&kind.total));
        all
    }

    /// Intervals that are long enough for a rate: without the few I/Os that ended after the window.
    pub fn rated_intervals(&self) -> impl Iterator<Item = &IntervalRow> {
        self.intervals.iter().filter(|row| row.length_ns >= self.interval_ns / 2)
    }

    /// The counts of each complete interval, in order. Completions after the last one belong to I/Os begun in it and are left out.
    #[must_use]
    pub fn counts(&self, of: impl Fn(&IntervalRow) -> u64) -> Vec<u64> {
        let interval_ns = self.interval_ns.max(1);
        let whole = (self.rated_ns / interval_ns).min(INTERVALS_MAX);
        let mut counts = vec![0_u64; whole as usize];
        for row in &self.intervals {
            let at = usize::try_from(row.begin_ns / interval_ns).unwrap_or(usize::MAX);
            if let Some(count) = counts.get_mut(at) {
                *count = count.saturating_add(of(row));
            }
        }
        counts
    }

    /// The confidence interval of a rate from counts per interval, widened to include the printed rate; `None` with fewer than 8 complete
    /// intervals.
    #[must_use]
    pub fn rate_interval(&self, counts: &[u64], per_second: f64, confidence: Confidence) -> Option<Interval> {
        // Without any completion there is no estimate: that an I/O never happens was not measured.
        if counts.iter().all(|&count| count == 0) {
            return None;
        }
        let found = throughput(counts, self.interval_ns, confidence)?.interval;
        Some(Interval { low: found.low.min(per_second), high: found.high.max(per_second) })
    }

    /// Figures of one kind of I/O; `None` if it did not occur.
    #[must_use]
    pub fn kind(&self, kind: OpKind) -> Option<&KindResult> {
        self.kinds.iter().find(|found| found.kind == kind)
    }
}

/// A rate per second; 0 if no time passed.
#[must_use]
pub fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 }
}
