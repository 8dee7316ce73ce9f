//! The joint result of one job on several targets at once. The shares of all workers are added up once more, so that
//! intervals, percentiles and depth are computed from all I/Os instead of from the targets' figures.

use super::collect::Collector;
use super::facts::TargetFacts;
use super::ledger::WorkerEnd;
use super::result::JobResult;
use super::share::Share;
use super::watch::{Watch, Watched};
use super::window::Window;
use crate::job::model::{Arrival, Job};

/// Name of the joint result.
const NAME: &str = "all targets";

/// The joint result of a job on all its targets.
pub(super) struct Together {
    collector: Collector,
    facts: TargetFacts,
    watched: Watched,
    /// Threads on each target.
    threads: usize,
}

impl Together {
    pub fn new(job: &Job, targets: usize, window: Window, interval_ns: u64) -> Self {
        let whole = on_all(job, targets);
        let facts = TargetFacts {
            name: Some(NAME.to_owned()),
            description: format!("{targets} targets at once"),
            ..TargetFacts::default()
        };
        // The steady state is that of the joint load; reaching it ends the job on all targets.
        let watched = Watched::new(Watch::default(), job.steady);
        Self { collector: Collector::new(whole, window, interval_ns), facts, watched, threads: job.threads as usize }
    }

    /// Adds a target, and returns how its own figures are watched.
    pub fn join(&mut self, target: &TargetFacts) -> Watched {
        self.facts.size_bytes += target.size_bytes;
        self.facts.logical_block_bytes = self.facts.logical_block_bytes.max(target.logical_block_bytes);
        self.watched.follower()
    }

    /// Sets the window of the measurement once it is known.
    pub fn begin(&mut self, window: Window) {
        self.collector.begin(window);
    }

    /// Adds a share from a thread of target number `target`.
    pub fn add(&mut self, target: usize, thread: usize, share: &Share) {
        self.collector.add(target * self.threads + thread, share);
        self.watched.look(&self.collector, &self.facts);
    }

    /// Adds the end of a thread.
    pub fn end(&mut self, target: usize, thread: usize, end: WorkerEnd) {
        self.collector.end(target * self.threads + thread, end);
    }

    /// Notes that no more shares will come from target number `target`.
    pub fn lose(&mut self, target: usize) {
        self.collector.lose(target * self.threads..(target + 1) * self.threads);
    }

    /// Makes the joint result.
    pub fn finish(mut self) -> JobResult {
        if self.watched.has_ended_it() {
            self.collector.ended_by_watch();
        }
        let mut result = self.collector.finish(self.facts);
        result.steady = self.watched.steady_state(&result);
        result
    }
}

/// The job as seen over all targets: each target adds its threads, its rate and its I/Os.
fn on_all(job: &Job, targets: usize) -> Job {
    let (many, times) = (targets as u64, targets as f64);
    let mut all = job.clone();
    all.threads = job.threads.saturating_mul(targets as u32);
    all.end.after_bytes = job.end.after_bytes.map(|bytes| bytes.saturating_mul(many));
    all.end.after_ios = job.end.after_ios.map(|ios| ios.saturating_mul(many));
    match &mut all.arrival {
        Arrival::Closed | Arrival::Times { .. } | Arrival::Recorded { .. } => {}
        Arrival::Throttled { iops, bytes_per_second } => {
            for rate in [iops, bytes_per_second].into_iter().flatten() {
                *rate *= times;
            }
        }
        Arrival::Constant { iops } | Arrival::Poisson { iops } => *iops *= times,
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::End;

    #[test]
    fn all_targets_have_what_each_was_asked_for() {
        let end = End { after_bytes: Some(1 << 20), after_ios: Some(100), after_passes: Some(2.0), ..End::default() };
        let job = Job { threads: 2, end, arrival: Arrival::Poisson { iops: 1000.0 }, ..Job::default() };
        let all = on_all(&job, 3);
        assert_eq!((all.threads, all.depth, all.arrival), (6, 1, Arrival::Poisson { iops: 3000.0 }));
        assert_eq!(all.end, End { after_bytes: Some(3 << 20), after_ios: Some(300), ..end });
        let throttled = Arrival::Throttled { iops: None, bytes_per_second: Some(10.0) };
        let all = on_all(&Job { arrival: throttled, ..Job::default() }, 2);
        assert_eq!(all.arrival, Arrival::Throttled { iops: None, bytes_per_second: Some(20.0) });
    }
}
