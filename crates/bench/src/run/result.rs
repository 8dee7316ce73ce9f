//! What a run found.

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

/// Share of its time from which a generator is taken to be the limit.
const GENERATOR_BUSY: f64 = 0.9;

/// I/Os for each of those in flight that are seen between two sleeps of a generator which never sleeps.
const NEVER_SLEPT_IOS: u64 = 1000;

/// Most intervals whose counts are looked at: a week of seconds; longer runs are judged by their first week.
const INTERVALS_MAX: u64 = 7 * 86_400;

/// A job's figures.
#[derive(Debug)]
pub struct JobResult {
    /// What was asked.
    pub job: Job,
    /// Name of the target, where the job ran on several.
    pub target_name: Option<String>,
    /// How the target was really reached.
    pub description: String,
    /// What the user should know of the target.
    pub notes: Vec<String>,
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// From the first measured intention to the last measured completion, or the window's end if that is later; in
    /// nanoseconds.
    pub duration_ns: u64,
    /// The time that rates are of, in nanoseconds: all of it for a fixed amount of work; the window for a closed loop that was full when it began,
    /// as the I/Os of the warm-up that end in it are as many as those that end behind it; else the time in which the I/Os begun in the window ended, but
    /// no longer than they would have taken at the rate at which I/Os ended within it. So no rate is above what was seen, and one I/O that hangs for long
    /// at the end tells of latency, and not of how many there are in a second.
    pub rated_ns: u64,
    /// The time that the mean depth is of, in nanoseconds: the same where the loop was full at the begin, but `duration_ns` where an I/O took far
    /// longer than the others.
    pub depth_ns: u64,
    /// Figures by kind, in the order of their numbers; kinds that did not occur are left out.
    pub kinds: Vec<KindResult>,
    /// One row an interval.
    pub intervals: Vec<IntervalRow>,
    /// Length of an interval in nanoseconds.
    pub interval_ns: u64,
    /// Throughput of short times.
    pub bursts: Vec<BurstRow>,
    /// Mean number of I/Os in flight that were submitted in the measurement: integrated over every change, not derived, over `depth_ns`.
    pub depth_mean: f64,
    /// I/Os that succeeded by the depth at their issue, their thread's alone, themselves included: 1, 2 to 3, 4 to 7, 8 to
    /// 15, 16 to 31, 32 to 63, 64 and more.
    pub depth_levels: [u64; 7],
    /// Mean time in flight: from being submitted (the begin of the call) to seen finished, over all kinds, failed ones
    /// included, in nanoseconds. The wait of an I/O that was wanted and not yet submitted is not in it.
    pub service_mean_ns: f64,
    /// What the threads used of the processor within the window.
    pub used: ThreadUse,
    /// What the whole machine did meanwhile, where that was watched.
    pub machine: Option<MachineUse>,
    /// What failed.
    pub failures: Failures,
    /// Of an open loop.
    pub open: Option<OpenLoop>,
    /// Of a replay at recorded times.
    pub drift: Option<Drift>,
    /// I/Os that never came back.
    pub hung: u32,
    /// The result is of a part of the job only, and why.
    pub partial: Option<Partial>,
    /// Records lost because the spill lagged.
    pub records_dropped: u64,
    /// How much of what was read was judged, in units; none without verifying.
    pub judged: Option<Judged>,
    /// Of a job that was to end when it is steady.
    pub steady: Option<SteadyState>,
    /// Of several targets together: the time in which the job ran on all of them; none where that was no whole interval.
    pub all_ran: Option<AllRan>,
}

/// The time in which a job ran on all its targets, from the begin to where the first of them was done: rates over a longer time
/// are of fewer targets than there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllRan {
    /// Its length in nanoseconds: whole intervals.
    pub duration_ns: u64,
    /// I/Os that succeeded in it, on all targets.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl AllRan {
    /// From the results of each target and that of all together.
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
    /// I/Os in flight never came back.
    Hung,
    /// The host that made the load was lost.
    Lost,
}

impl Partial {
    /// For people and programs.
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
    /// Which.
    pub kind: OpKind,
    /// I/Os that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// What the warm-up of an open loop left waiting.
    pub backlog: Backlog,
    /// From wanted to submitted.
    pub submission: Latencies,
    /// From submitted to seen finished.
    pub device: Latencies,
    /// Both.
    pub total: Latencies,
    /// Total latencies by block of time, for the clustering of stalls.
    pub blocks: Blocks,
}

impl KindResult {
    /// I/Os that rates are of: those that succeeded, the warm-up's backlog included.
    #[must_use]
    pub fn rated_ios(&self) -> u64 {
        self.ios + self.backlog.ios
    }

    /// Their bytes.
    #[must_use]
    pub fn rated_bytes(&self) -> u64 {
        self.bytes + self.backlog.bytes
    }

    /// I/Os that were submitted in the measurement and have ended, well or not: what the depth is of.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ios + self.errors + self.backlog.ios + self.backlog.errors
    }

    /// The interval of the mean of the total latencies, in nanoseconds; none with fewer than 8 blocks of time. What came
    /// after its interval was closed is in the mean and in no block: the interval holds the mean in any case.
    #[must_use]
    pub fn mean_interval(&self, confidence: Confidence) -> Option<Interval> {
        let (mean, found) = (self.total.mean_ns(), mean_interval(&self.blocks, confidence)?);
        Some(Interval { low: found.low.min(mean), high: found.high.max(mean) })
    }
}

/// One interval of a job, all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IntervalRow {
    /// Begin, in nanoseconds since the measurement's.
    pub begin_ns: u64,
    /// Length in nanoseconds: that of an interval, but the last may be shorter, and one that took in others is longer.
    pub length_ns: u64,
    /// I/Os completed, also those that the warm-up began.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
    /// Failures.
    pub errors: u64,
    /// Total latency: mean, median, p99, p99.9 and greatest, in nanoseconds.
    pub latency_ns: [u64; 5],
    /// Of reads.
    pub read: Direction,
    /// Of writes, FUA or not.
    pub write: Direction,
    /// Latencies of reads.
    pub read_latency: OfDirection,
    /// Latencies of writes.
    pub write_latency: OfDirection,
}

/// Total latencies of what went one way in an interval, also of the I/Os that the warm-up began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfDirection {
    /// How many.
    pub samples: u64,
    /// Median, p99, p99.9 and greatest, in nanoseconds.
    pub levels_ns: [u64; 4],
}

impl OfDirection {
    pub(super) fn new(tally: &Tally) -> Self {
        Self { samples: tally.count(), levels_ns: tally.quantiles_ns([0.5, 0.99, 0.999, 1.0]) }
    }

    /// Adds what came late. Quantiles cannot be added: the worse ones stand.
    fn add(&mut self, late: Self) {
        self.samples += late.samples;
        self.levels_ns = std::array::from_fn(|at| self.levels_ns[at].max(late.levels_ns[at]));
    }
}

/// What went one way in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// I/Os completed.
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

    /// Mean total latency in nanoseconds; 0 of none.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.latency_sum_ns.checked_div(self.ios).unwrap_or(0)
    }
}

/// I/Os of an open loop that were wanted in its warm-up, waited until that was over, and were submitted in the measurement. The target served
/// them in the measured time, so they count for rates and for the depth; they were wanted before, so their latencies count for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Those that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
}

impl Backlog {
    pub(crate) fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

/// Throughput of windows of one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstRow {
    /// Length in nanoseconds.
    pub window_ns: u64,
    /// Most I/Os a second in any.
    pub iops_max: f64,
    /// Least.
    pub iops_min: f64,
    /// Most bytes a second.
    pub bytes_per_second_max: f64,
    /// Least.
    pub bytes_per_second_min: f64,
}

/// What became of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLoop {
    /// I/Os intended within the window.
    pub scheduled: u64,
    /// Of these, submitted.
    pub issued: u64,
    /// Submitted in the same time, but wanted in the warm-up, which had left them waiting.
    pub backlog: u64,
    /// Time in which both were submitted, in nanoseconds: the schedule's length, or longer where the loop fell behind.
    pub issued_ns: u64,
    /// Submitted more than 100 us late although a slot was free: the tool's own doing.
    pub late: u64,
    /// Times that an I/O was due and no slot was free: the depth was too small for this rate and target.
    pub no_slot: u64,
}

/// What became of a job that was to end when it is steady.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SteadyState {
    /// When the window ended over which it was, in nanoseconds since the measurement's begin; none: it was not.
    pub attained_ns: Option<u64>,
    /// That window; where it was not attained, the last one that was judged; none where the run was too short for any.
    pub window: Option<SteadyWindow>,
}

/// A window that was judged.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyWindow {
    /// Begin, in nanoseconds since the measurement's.
    pub begin_ns: u64,
    /// Length of each part in nanoseconds.
    pub part_ns: u64,
    /// Its parts.
    pub parts: Vec<Part>,
    /// What the criterion found, in the unit of its limit; a slope that falls is below 0. None where it cannot be said: nothing
    /// was done in the window, or a part had no I/O that could have a latency.
    pub value: Option<f64>,
}

/// A part of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// I/Os completed.
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
            // Not a number where nothing was done: such a window is not judged.
            Figure::Latency => self.latency_sum_ns / self.ios as f64,
        }
    }
}

impl SteadyWindow {
    /// Its end, in nanoseconds since the measurement's begin.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.begin_ns + self.len_ns()
    }

    /// Its length in nanoseconds.
    #[must_use]
    pub fn len_ns(&self) -> u64 {
        self.part_ns * self.parts.len() as u64
    }

    /// All of it.
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
    /// Adds what came late. Quantiles cannot be added: the worse ones stand.
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
    /// I/Os that succeeded.
    #[must_use]
    pub fn ios(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.ios).sum()
    }

    /// I/Os that rates are of: those that succeeded, the warm-up's backlog included.
    #[must_use]
    pub fn rated_ios(&self) -> u64 {
        self.kinds.iter().map(KindResult::rated_ios).sum()
    }

    /// I/Os that were submitted in the measurement and have ended, well or not, the warm-up's backlog included: what the depth is of.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.kinds.iter().map(KindResult::ended).sum()
    }

    /// Whether anything was measured: an I/O that was submitted in the measurement has ended, well or not.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.ended() > 0
    }

    /// Whether it was asked to verify what it reads, and nothing could be.
    #[must_use]
    pub fn has_verified_nothing(&self) -> bool {
        let reads = self.job.mix.kinds().any(|kind| kind == OpKind::Read);
        reads && self.judged.is_some_and(|judged| judged.read() == judged.unjudged)
    }

    /// Mean of the total latencies of all kinds, in nanoseconds; none where there are none.
    #[must_use]
    pub fn total_mean_ns(&self) -> Option<f64> {
        let ios = self.ios();
        let sum: f64 = self.kinds.iter().map(|kind| kind.total.mean_ns() * kind.total.count() as f64).sum();
        (ios > 0).then(|| sum / ios as f64)
    }

    /// Mean number of I/Os that were wanted: in flight, and by Little's law those not yet submitted, rate x mean of their wait.
    #[must_use]
    pub fn depth_wanted(&self) -> Option<f64> {
        let wait_ns = (self.total_mean_ns()? - self.service_mean_ns).max(0.0);
        Some(self.depth_mean + per_second(self.rated_ios(), self.depth_ns) * wait_ns / 1e9)
    }

    /// Share of the time in which the threads that made the load had the processor, 0 to 1; none where they wait by looking,
    /// compute as the job asks, or ran in virtual time: then being busy says nothing.
    #[must_use]
    pub fn generator_busy(&self) -> Option<f64> {
        let computes = self.job.think.is_some_and(|think| think.compute);
        let cpu_ns = self.used.cpu_all_ns();
        if self.job.wait != WaitMethod::Sleep || computes || cpu_ns == 0 || self.duration_ns == 0 {
            return None;
        }
        // What threads take before their first I/O and after their last is theirs as well.
        Some((cpu_ns as f64 / (self.duration_ns as f64 * f64::from(self.job.threads))).min(1.0))
    }

    /// Share of the time in which these threads had work, 0 to 1: they had the processor or waited for one that others used. In virtual
    /// time that of the modelled host's threads. None where being busy says nothing, or that is not known.
    #[must_use]
    pub fn generator_occupied(&self) -> Option<f64> {
        let all_ns = self.duration_ns as f64 * f64::from(self.job.threads);
        match self.used.modelled_ns {
            Some(work_ns) => (all_ns > 0.0).then(|| (work_ns as f64 / all_ns).min(1.0)),
            None => Some((self.generator_busy()? + self.used.waited_ns? as f64 / all_ns).min(1.0)),
        }
    }

    /// Whether they all but never slept for want of an I/O that was over, and so had no time left, whatever the kernel says of their time: that of a
    /// virtual machine's processor which its host took away is in no account.
    fn generator_never_slept(&self) -> bool {
        let Some((voluntary, _)) = self.used.switches.filter(|_| self.generator_busy().is_some()) else { return false };
        // Those that were in flight may all end in one sleep.
        voluntary.saturating_mul(NEVER_SLEPT_IOS).saturating_mul(self.job.depth.into()) < self.rated_ios()
    }

    /// Whether the threads that made the load had no time left: then the rate is the generator's limit, whatever the target's.
    #[must_use]
    pub fn is_limited_by_generator(&self) -> bool {
        let is_busy = |share: Option<f64>| share.is_some_and(|busy| busy >= GENERATOR_BUSY);
        is_busy(self.generator_busy()) || is_busy(self.generator_occupied()) || self.generator_never_slept()
    }

    /// The same of a host that is modelled.
    #[must_use]
    pub fn is_limited_by_modelled_host(&self) -> bool {
        self.used.modelled_ns.is_some() && self.is_limited_by_generator()
    }

    /// Bytes of these.
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

    /// Intervals that a rate can be said of: not the few I/Os that ended behind the window, in a time that is none.
    pub fn rated_intervals(&self) -> impl Iterator<Item = &IntervalRow> {
        self.intervals.iter().filter(|row| row.length_ns >= self.interval_ns / 2)
    }

    /// What each whole interval counted, in order: what completes after the last one is the tail of what was begun in it.
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

    /// The interval of a rate of counts, which holds the rate that is printed in any case; none with fewer than 8
    /// whole intervals.
    #[must_use]
    pub fn rate_interval(&self, counts: &[u64], per_second: f64, confidence: Confidence) -> Option<Interval> {
        // Of what never came nothing was measured: that it never comes is not known.
        if counts.iter().all(|&count| count == 0) {
            return None;
        }
        let found = throughput(counts, self.interval_ns, confidence)?.interval;
        Some(Interval { low: found.low.min(per_second), high: found.high.max(per_second) })
    }

    /// Figures of a kind.
    #[must_use]
    pub fn kind(&self, kind: OpKind) -> Option<&KindResult> {
        self.kinds.iter().find(|found| found.kind == kind)
    }
}

/// A rate, 0 where no time passed.
#[must_use]
pub fn per_second(count: u64, duration_ns: u64) -> f64 {
    if duration_ns == 0 { 0.0 } else { count as f64 * 1e9 / duration_ns as f64 }
}
