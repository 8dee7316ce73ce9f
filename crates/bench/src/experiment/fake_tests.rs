//! A target as a formula: an I/O takes 10 us, or longer if that is needed to stay at 550,000 I/Os a second.

use super::{Driver, DriverError};
use crate::job::model::{Arrival, Job, Plan};
use crate::job::validate::validate;
use crate::run::{
    Backlog, BurstRow, Failure, Failures, IntervalRow, JobResult, KindResult, Latencies, OpenLoop, Partial, Tally,
    ThreadUse, Watch,
};
use crate::stats::clustering::Blocks;
use forebay_block::OpKind;

/// Idle latency in nanoseconds.
pub(super) const IDLE_NS: f64 = 10_000.0;
/// Most I/Os a second.
pub(super) const PEAK: f64 = 550_000.0;
/// Number of latencies recorded in a run's histogram.
const SAMPLES: u64 = 2_000;

/// How a run turns out.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    /// Factor on all latencies.
    pub slower: f64,
    /// Number of I/Os that fail, all with the same cause.
    pub failures: u64,
    /// Why the run is partial, if it is.
    pub partial: Option<Partial>,
    /// Set where the target refuses to begin.
    pub refused: Option<&'static str>,
    /// Whether the user ends the experiment after this run.
    pub stop: bool,
    /// Processor time for each I/O in nanoseconds.
    pub cpu_ns: u64,
}

impl Default for Fate {
    fn default() -> Self {
        Self { slower: 1.0, failures: 0, partial: None, refused: None, stop: false, cpu_ns: 300 }
    }
}

/// Decides the fate of a run by its number (from 0) and its job.
type Decide = Box<dyn FnMut(usize, &Job) -> Fate>;

/// The target.
pub(super) struct Fake {
    pub size_bytes: u64,
    /// Step and jobs of each run so far.
    pub runs: Vec<(String, Vec<Job>)>,
    pub decide: Decide,
    pub stopped: bool,
    pub interval_ns: u64,
}

impl Fake {
    pub fn new(decide: impl FnMut(usize, &Job) -> Fate + 'static) -> Self {
        Self {
            size_bytes: 1 << 30,
            runs: Vec::new(),
            decide: Box::new(decide),
            stopped: false,
            interval_ns: 1_000_000_000,
        }
    }

    pub fn healthy() -> Self {
        Self::new(|_, _| Fate::default())
    }

    /// The jobs of all runs.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.runs.iter().flat_map(|(_, jobs)| jobs)
    }
}

impl Driver for Fake {
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError> {
        assert!(!self.stopped, "{step} was begun after the end");
        assert!(!step.is_empty());
        validate(&Plan { groups: vec![jobs.to_vec()], notes: Vec::new() }).unwrap();
        let number = self.runs.len();
        self.runs.push((step.to_owned(), jobs.to_vec()));
        let mut results = Vec::new();
        for job in jobs {
            job.region.resolve(self.size_bytes, 4096).unwrap();
            let fate = (self.decide)(number, job);
            if let Some(why) = fate.refused {
                return Err(DriverError(why.to_owned()));
            }
            self.stopped |= fate.stop;
            results.push(result(job, &fate, self.size_bytes, self.interval_ns));
        }
        Ok(results)
    }

    fn run_watched(&mut self, step: &str, job: &Job, _: Watch) -> Result<Vec<JobResult>, DriverError> {
        self.run(step, std::slice::from_ref(job))
    }

    fn size_bytes(&mut self) -> Result<u64, DriverError> {
        Ok(self.size_bytes)
    }

    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// Mean latency at this queue depth.
fn latency_ns(depth: f64, fate: &Fate) -> f64 {
    IDLE_NS.max(depth * 1e9 / PEAK) * fate.slower
}

/// A run's result: latencies spread evenly from 9/10 to 11/10 of the mean.
fn result(job: &Job, fate: &Fate, size_bytes: u64, interval_ns: u64) -> JobResult {
    let depth = f64::from(job.threads * job.depth);
    let (_, region_bytes) = job.region.resolve(size_bytes, 512).unwrap();
    let kind = job.mix.weights[0].0;
    let io_bytes = u64::from(match kind {
        OpKind::Read => job.sizes.read.max_bytes(),
        OpKind::Trim => job.sizes.trim.max_bytes(),
        _ => job.sizes.write.max_bytes(),
    });
    let mut closed_ns = latency_ns(depth, fate);
    if let Some(think) = job.think {
        closed_ns += think.time_ns as f64;
    }
    let peak = depth * 1e9 / closed_ns;
    let rate = match job.arrival {
        Arrival::Constant { iops } | Arrival::Poisson { iops } => iops.min(peak),
        Arrival::Throttled { bytes_per_second: Some(bytes), .. } => peak.min(bytes / io_bytes as f64),
        _ => peak,
    };
    let passes = job.end.after_passes.map(|passes| (passes * region_bytes as f64) as u64);
    let by_bytes = [job.end.after_bytes, passes].into_iter().flatten().min().map(|bytes| bytes.div_ceil(io_bytes));
    let by_time = job.end.after_ns.map(|ns| (ns as f64 * rate / 1e9) as u64);
    let ios = [by_bytes, by_time, job.end.after_ios].into_iter().flatten().min().unwrap();
    let ios = if fate.failures > 0 && job.end.after_ios.is_some() { 0 } else { ios };
    let busy_ns = (ios as f64 * 1e9 / rate) as u64;
    // A job with a runtime lasts for its whole window, even if its bytes were transferred earlier.
    let duration_ns = job.end.after_ns.unwrap_or(busy_ns);
    let mean_ns = latency_ns(rate * closed_ns / 1e9, fate);
    let all: u32 = job.mix.weights.iter().map(|weight| weight.1).sum();
    let mut kinds = Vec::new();
    for &(kind, weight) in job.mix.weights.iter().filter(|weight| weight.1 > 0) {
        let mut tally = Tally::new();
        let count = (ios.min(SAMPLES) * u64::from(weight) / u64::from(all)).max(u64::from(ios > 0));
        for sample in 0..count {
            tally.record((mean_ns * (0.9 + 0.2 * (sample as f64 + 0.5) / count as f64)) as u64);
        }
        let mut total = Latencies::new();
        total.add(&tally);
        let ios = ios * u64::from(weight) / u64::from(all);
        kinds.push(KindResult {
            kind,
            ios,
            bytes: ios * io_bytes,
            errors: fate.failures,
            backlog: Backlog::default(),
            submission: Latencies::new(),
            device: total.clone(),
            total,
            blocks: Blocks::new(8),
        });
    }
    let done: u64 = kinds.iter().map(|kind| kind.ios).sum();
    let intervals = busy_ns.div_ceil(interval_ns);
    let row = |at: u64| {
        let up_to = |ns: u64| (u128::from(done) * u128::from(ns.min(busy_ns)) / u128::from(busy_ns)) as u64;
        let ios = up_to((at + 1) * interval_ns) - up_to(at * interval_ns);
        let latency_ns =
            [mean_ns as u64, mean_ns as u64, (mean_ns * 1.1) as u64, (mean_ns * 1.1) as u64, (mean_ns * 1.1) as u64];
        IntervalRow {
            begin_ns: at * interval_ns,
            length_ns: interval_ns,
            ios,
            bytes: ios * io_bytes,
            latency_ns,
            ..IntervalRow::default()
        }
    };
    let first = Failure { kind, offset_bytes: 8192, len_bytes: 4096, at_ns: 5, what: "EIO".to_owned() };
    JobResult {
        description: format!("fake, {:?}", job.access.calls),
        notes: Vec::new(),
        target_bytes: size_bytes,
        duration_ns,
        rated_ns: duration_ns,
        depth_ns: duration_ns,
        kinds,
        intervals: (0..intervals).map(row).collect(),
        interval_ns,
        bursts: [1_000_000, 10_000_000, 100_000_000]
            .map(|window_ns| BurstRow {
                window_ns,
                iops_max: rate,
                iops_min: 0.0,
                bytes_per_second_max: rate * io_bytes as f64,
                bytes_per_second_min: 0.0,
            })
            .to_vec(),
        depth_mean: done as f64 * mean_ns / duration_ns as f64,
        depth_levels: [ios, 0, 0, 0, 0, 0, 0],
        service_mean_ns: mean_ns,
        used: ThreadUse { cpu_ns: (ios * fate.cpu_ns / 3, ios * fate.cpu_ns * 2 / 3), ..ThreadUse::default() },
        machine: None,
        failures: Failures {
            count: fate.failures,
            mismatches: 0,
            first: if fate.failures > 0 { vec![first] } else { Vec::new() },
        },
        open: job.arrival.is_open().then_some(OpenLoop {
            scheduled: ios,
            issued: ios,
            backlog: 0,
            issued_ns: duration_ns,
            late: 0,
            no_slot: 0,
        }),
        drift: None,
        hung: 0,
        partial: fate.partial,
        records_dropped: 0,
        judged: None,
        steady: None,
        all_ran: None,
        target_name: None,
        job: job.clone(),
    }
}
