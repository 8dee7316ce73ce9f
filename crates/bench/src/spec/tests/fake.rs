//! A target whose latencies are known.

use crate::experiment::{Driver, DriverError};
use crate::job::model::Job;
use crate::run::{Backlog, Failures, IntervalRow, JobResult, KindResult, Latencies, Tally, ThreadUse, Watch};
use crate::stats::clustering::{Blocks, sum_of_middles_ns};
use forebay_block::OpKind;
use std::collections::HashMap;

pub const SECOND_NS: u64 = 1_000_000_000;

/// A run of `seconds`; `latencies(second)` returns the latencies of a second, which are divided among the job's kinds
/// by weight.
pub fn run(job: &Job, seconds: u64, mut latencies: impl FnMut(u64) -> Vec<u64>) -> JobResult {
    let weights: Vec<(OpKind, u32)> = job.mix.weights.iter().copied().filter(|&(_, weight)| weight > 0).collect();
    let sum: u32 = weights.iter().map(|&(_, weight)| weight).sum();
    let mut totals: HashMap<u8, (Latencies, Blocks)> =
        weights.iter().map(|&(kind, _)| (kind as u8, (Latencies::new(), Blocks::new(128)))).collect();
    let mut intervals = Vec::new();
    let (mut number, mut service_ns) = (0_u32, 0_u128);
    for second in 0..seconds {
        let mut parts: HashMap<u8, Tally> = HashMap::new();
        let mut row = IntervalRow { begin_ns: second * SECOND_NS, length_ns: SECOND_NS, ..IntervalRow::default() };
        for latency_ns in latencies(second) {
            let mut at = number % sum;
            number += 1;
            service_ns += u128::from(latency_ns);
            let found = weights.iter().find(|&&(_, weight)| {
                let here = at < weight;
                at = at.saturating_sub(weight);
                here
            });
            let (kind, _) = *found.unwrap();
            parts.entry(kind as u8).or_default().record(latency_ns);
            row.ios += 1;
            row.bytes += 4096;
            let side = if kind == OpKind::Read { &mut row.read } else { &mut row.write };
            (side.ios, side.bytes) = (side.ios + 1, side.bytes + 4096);
        }
        for (kind, (total, blocks)) in &mut totals {
            let mut part = Latencies::new();
            parts.get(kind).into_iter().for_each(|tally| part.add(tally));
            blocks.push(&part.histogram, sum_of_middles_ns(&part.histogram));
            total.merge(&part);
        }
        intervals.push(row);
    }
    let kinds: Vec<KindResult> = weights
        .iter()
        .filter_map(|&(kind, _)| {
            let (total, blocks) = totals.remove(&(kind as u8))?;
            Some(KindResult {
                kind,
                ios: total.count(),
                bytes: total.count() * 4096,
                errors: 0,
                backlog: Backlog::default(),
                submission: Latencies::new(),
                device: Latencies::new(),
                total,
                blocks,
            })
        })
        .collect();
    let duration_ns = seconds * SECOND_NS;
    let ios: u64 = kinds.iter().map(|kind| kind.ios).sum();
    JobResult {
        job: job.clone(),
        description: "made up".to_owned(),
        notes: Vec::new(),
        target_bytes: 375_000_000_000,
        duration_ns,
        rated_ns: duration_ns,
        depth_ns: duration_ns,
        kinds,
        intervals,
        interval_ns: SECOND_NS,
        bursts: Vec::new(),
        depth_mean: service_ns as f64 / duration_ns.max(1) as f64,
        depth_levels: [ios, 0, 0, 0, 0, 0, 0],
        service_mean_ns: service_ns as f64 / ios.max(1) as f64,
        used: ThreadUse { cpu_ns: (0, 0), ..ThreadUse::default() },
        machine: None,
        failures: Failures::default(),
        open: None,
        drift: None,
        hung: 0,
        partial: None,
        records_dropped: 0,
        judged: None,
        steady: None,
        all_ran: None,
        target_name: None,
    }
}

/// A run with `a_second` equal latencies in each second.
pub fn constant(job: &Job, seconds: u64, a_second: usize, latency_ns: u64) -> JobResult {
    run(job, seconds, |_| vec![latency_ns; a_second])
}

type Answer = Box<dyn FnMut(&Job) -> Result<JobResult, DriverError>>;

/// A driver that returns made-up runs and records the requests.
pub struct Fake {
    pub asked: Vec<(String, Job)>,
    pub size_bytes: u64,
    /// The driver counts as stopped once this many runs were made.
    pub stop_after: usize,
    pub answer: Answer,
}

impl Fake {
    pub fn new(answer: impl FnMut(&Job) -> Result<JobResult, DriverError> + 'static) -> Self {
        Self { asked: Vec::new(), size_bytes: 375_000_000_000, stop_after: usize::MAX, answer: Box::new(answer) }
    }

    pub fn names(&self) -> Vec<&str> {
        self.asked.iter().map(|(_, job)| job.name.as_str()).collect()
    }
}

impl Driver for Fake {
    fn run(&mut self, step: &str, jobs: &[Job]) -> Result<Vec<JobResult>, DriverError> {
        jobs.iter()
            .map(|job| {
                self.asked.push((step.to_owned(), job.clone()));
                (self.answer)(job)
            })
            .collect()
    }

    fn run_watched(&mut self, step: &str, job: &Job, _: Watch) -> Result<Vec<JobResult>, DriverError> {
        self.run(step, std::slice::from_ref(job))
    }

    fn size_bytes(&mut self) -> Result<u64, DriverError> {
        Ok(self.size_bytes)
    }

    fn is_stopped(&self) -> bool {
        self.asked.len() >= self.stop_after
    }
}
