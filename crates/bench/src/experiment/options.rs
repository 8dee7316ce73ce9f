//! Settings of experiments.

use super::conditioning::Conditioning;
use super::depth_histogram::DepthHistogram;
use super::error::ExperimentError;
use crate::job::model::{End, Job};
use crate::job::validate::{MAX_DEPTH, MAX_IOPS, MAX_TIME_NS};
use crate::stats::Confidence;

/// Most rounds of an interleaved experiment.
pub const ROUNDS_MAX: u32 = 10_000;
/// Most values in a list.
const LIST_MAX: usize = 64;

/// Settings of an experiment. Defaults come from the experiment's source or from long use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Threads, waiting, access, seed, pinning, data and region; also sizes and pattern where the experiment leaves
    /// them open. The base job's mix, arrival, end and pauses are not used.
    pub base: Job,
    /// The data on the target may be overwritten.
    pub allow_writes: bool,
    /// Time of each point in nanoseconds; `None` for the experiment's own.
    pub runtime_ns: Option<u64>,
    /// A quick overview in minutes instead of a measurement: short points and shortened conditioning. The report says
    /// so.
    pub quick: bool,
    /// Conditioning of the target before the experiment; `None` for what the experiment prescribes, if anything.
    pub conditioning: Option<Conditioning>,
    /// Share of reads in percent, where the experiment leaves it open.
    pub read_percent: Option<u32>,
    /// Largest depth of a sweep, and slots of an open loop, over all threads.
    pub depth_max: u32,
    /// Depths that an application uses, as weights for a sweep.
    pub application: Option<DepthHistogram>,
    /// Fill levels of the surface in percent, ascending.
    pub fills_percent: Vec<u32>,
    /// Shares of reads of the surface in percent.
    pub mixes_percent: Vec<u32>,
    /// Depths of the surface.
    pub depths: Vec<u32>,
    /// Number of interleaved rounds, and of bursts of the mixed test; at least 3.
    pub rounds: u32,
    /// How many times the capacity the write saturation test writes.
    pub capacities: f64,
    /// Rate of the QoS test.
    pub rate: Rate,
    /// I/Os in each burst of the short-burst test, per thread.
    pub burst_ios: Vec<u64>,
    /// Pause between those bursts in nanoseconds.
    pub pause_ns: u64,
    /// Time that an application computes after each read, in nanoseconds.
    pub think_ns: u64,
    /// Confidence of intervals.
    pub confidence: Confidence,
}

/// A rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// I/Os a second.
    Iops(f64),
    /// A share, above 0 and at most 1, of the throughput that a closed loop reaches just before.
    PeakShare(f64),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            base: Job::default(),
            allow_writes: false,
            runtime_ns: None,
            quick: false,
            conditioning: None,
            read_percent: None,
            depth_max: 256,
            application: None,
            fills_percent: vec![10, 25, 50, 75, 90, 100],
            mixes_percent: vec![100, 70, 50, 30, 0],
            depths: vec![1, 2, 4, 8, 16, 32],
            rounds: 5,
            capacities: 4.0,
            rate: Rate::PeakShare(0.5),
            burst_ios: vec![8, 64, 512, 4096],
            pause_ns: 100_000_000,
            think_ns: 20_000,
            confidence: Confidence::P95,
        }
    }
}

impl Options {
    /// Time of a point in nanoseconds, where the method prescribes `standard_ns`.
    pub(super) fn point_ns(&self, standard_ns: u64) -> u64 {
        // At least half a second: then the run reaches a second interval of the log, and a minute of the SNIA tests
        // becomes 2 s.
        let quick = (standard_ns / 30).max(500_000_000).min(standard_ns);
        self.runtime_ns.unwrap_or(if self.quick { quick } else { standard_ns })
    }

    /// Warm-up before a point: the base job's, at most a fifth of the point.
    pub(super) fn warmup_ns(&self, point_ns: u64) -> u64 {
        self.base.warmup_ns.min(point_ns / 5)
    }

    /// Threads, and depth of each, for `total` I/Os in flight. Synchronous calls need a thread for each I/O.
    pub(super) fn in_flight(&self, total: u32) -> (u32, u32) {
        if matches!(self.base.access.calls, crate::job::model::Calls::Sync { .. }) {
            return (total, 1);
        }
        let most = self.base.threads.min(total).max(1);
        let threads = (1..=most).rev().find(|threads| total.is_multiple_of(*threads)).unwrap_or(1);
        (threads, total / threads)
    }

    /// Threads and depth of the base job if they allow more than one I/O in flight, otherwise `usual`.
    pub(super) fn parallel(&self, usual: (u32, u32)) -> (u32, u32) {
        let asked = u64::from(self.base.threads) * u64::from(self.base.depth);
        match (asked, self.in_flight(2)) {
            (0 | 1, (2, 1)) => (usual.0.saturating_mul(usual.1), 1),
            (0 | 1, _) => usual,
            _ => (self.base.threads, self.base.depth),
        }
    }

    /// Refuses to write unless writes are allowed.
    pub(super) fn refuse_writes(&self, what: &str, instead: &'static str) -> Result<(), ExperimentError> {
        if self.allow_writes { Ok(()) } else { Err(ExperimentError::NeedsWrites { what: what.to_owned(), instead }) }
    }

    /// Checks the settings that jobs do not check.
    pub(super) fn check(&self) -> Result<(), ExperimentError> {
        let ensure = |holds: bool, option: &'static str, reason: String| {
            if holds { Ok(()) } else { Err(ExperimentError::Option { option, reason }) }
        };
        let listed = |list: &[u32], range: std::ops::RangeInclusive<u32>| {
            (1..=LIST_MAX).contains(&list.len()) && list.iter().all(|value| range.contains(value))
        };
        let ascending = self.fills_percent.windows(2).all(|pair| pair[0] < pair[1]);
        ensure(
            ascending && listed(&self.fills_percent, 1..=100),
            "fill levels",
            format!("1 to {LIST_MAX} ascending percentages, 1 to 100"),
        )?;
        ensure(
            listed(&self.mixes_percent, 0..=100),
            "shares of reads",
            format!("1 to {LIST_MAX} percentages, 0 to 100"),
        )?;
        ensure(listed(&self.depths, 1..=MAX_DEPTH), "depths", format!("1 to {LIST_MAX} depths, 1 to {MAX_DEPTH}"))?;
        ensure(
            (1..=MAX_DEPTH).contains(&self.depth_max),
            "deepest depth",
            format!("{}; 1 to {MAX_DEPTH}", self.depth_max),
        )?;
        ensure(
            self.read_percent.is_none_or(|percent| percent <= 100),
            "share of reads",
            "0 to 100 percent".to_owned(),
        )?;
        ensure((3..=ROUNDS_MAX).contains(&self.rounds), "rounds", format!("{}; 3 to {ROUNDS_MAX}", self.rounds))?;
        let capacities = self.capacities > 0.0 && self.capacities <= 1e6;
        ensure(capacities, "capacities", format!("{}; above 0 and at most a million", self.capacities))?;
        let (rate, most) = match self.rate {
            Rate::Iops(iops) => (iops, MAX_IOPS),
            Rate::PeakShare(share) => (share, 1.0),
        };
        ensure(rate > 0.0 && rate <= most, "rate", format!("{rate}; above 0 and at most {most}"))?;
        let bursts = (1..=LIST_MAX).contains(&self.burst_ios.len()) && self.burst_ios.iter().all(|&ios| ios > 0);
        ensure(bursts, "bursts", format!("1 to {LIST_MAX} counts of I/Os, each 1 or more"))?;
        let time = |ns: u64| (1..=MAX_TIME_NS).contains(&ns);
        let times = [Some(self.pause_ns), Some(self.think_ns), self.runtime_ns];
        ensure(times.into_iter().flatten().all(time), "times", "above 0, and at most a year".to_owned())
    }

    /// The base job without the settings that experiments make themselves.
    pub(super) fn job(&self, name: impl Into<String>) -> Job {
        Job {
            name: name.into(),
            arrival: crate::job::model::Arrival::Closed,
            think: None,
            burst: None,
            verify: false,
            end: End::default(),
            warmup_ns: 0,
            cooldown_ns: 0,
            start_delay_ns: 0,
            ..self.base.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{Access, Calls};

    #[test]
    fn depths_are_spread_over_the_threads_there_are() {
        let mut options = Options::default();
        assert_eq!((options.in_flight(1), options.in_flight(256)), ((1, 1), (1, 256)));
        options.base.threads = 4;
        assert_eq!((options.in_flight(2), options.in_flight(16), options.in_flight(6)), ((2, 1), (4, 4), (3, 2)));
        options.base.access = Access { calls: Calls::Sync { high_priority: false }, ..Access::default() };
        assert_eq!((options.in_flight(16), options.parallel((4, 32))), ((16, 1), (4, 1)));
        options.base.threads = 1;
        assert_eq!(options.parallel((4, 32)), (128, 1));
    }

    #[test]
    fn a_runtime_goes_before_quick_and_quick_before_the_standard() {
        let mut options = Options::default();
        assert_eq!(options.point_ns(60_000_000_000), 60_000_000_000);
        options.quick = true;
        assert_eq!((options.point_ns(60_000_000_000), options.point_ns(100)), (2_000_000_000, 100));
        options.runtime_ns = Some(7);
        assert_eq!((options.point_ns(60_000_000_000), options.warmup_ns(7)), (7, 1));
    }

    #[test]
    fn senseless_options_are_named() {
        let refused = |change: &dyn Fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().unwrap_err().to_string()
        };
        assert!(refused(&|options| options.rounds = 2).starts_with("rounds"));
        assert!(refused(&|options| options.fills_percent = vec![50, 10]).starts_with("fill levels"));
        assert!(refused(&|options| options.rate = Rate::PeakShare(1.1)).starts_with("rate"));
        assert!(refused(&|options| options.capacities = f64::NAN).starts_with("capacities"));
        assert!(refused(&|options| options.runtime_ns = Some(0)).starts_with("times"));
        Options::default().check().unwrap();
    }
}
