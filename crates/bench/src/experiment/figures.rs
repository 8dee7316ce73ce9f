//! The figures of a run, as experiments print and store them.

use super::options::Options;
use super::text;
use crate::job::model::Job;
use crate::output::histogram::{BUCKETS_FEW, Counted};
use crate::output::summary::{self, Reporting};
use crate::run::{JobResult, KindResult, Latencies};
use crate::stats::Confidence;
use crate::stats::clustering::Blocks;
use crate::stats::percentile::{ByRank, Level, PercentileEstimate, Reported};
use forebay_block::OpKind;
use serde_json::{Map, Value, json};

/// Percentiles that experiments report.
const LEVELS: &str = "50,99,99.9,99.99,99.999";

/// A distribution of latencies in figures.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    /// Number of I/Os.
    pub samples: u64,
    /// Mean in nanoseconds.
    pub mean_ns: f64,
    /// Maximum in nanoseconds.
    pub max_ns: u64,
    percentiles: Vec<PercentileEstimate>,
    counted: Counted,
}

impl Latency {
    /// From counted latencies. `blocks` has the same latencies by blocks of time, where these are known.
    pub(crate) fn new(latencies: &Latencies, blocks: Option<&Blocks>, confidence: Confidence) -> Self {
        Self::with_levels(latencies, blocks, (confidence, Level::parse_list(LEVELS).unwrap_or_default()))
    }

    /// Like [`Latency::new`], with the given percentiles.
    pub(super) fn with_levels(
        latencies: &Latencies,
        blocks: Option<&Blocks>,
        (confidence, levels): (Confidence, Vec<Level>),
    ) -> Self {
        let reporting = Reporting { levels, confidence, ..Reporting::default() };
        let percentiles = summary::percentiles(latencies, blocks, &reporting);
        Self {
            counted: Counted::new(&ByRank::new(&latencies.histogram), &percentiles, BUCKETS_FEW),
            samples: latencies.count(),
            mean_ns: latencies.mean_ns(),
            max_ns: latencies.max_ns(),
            percentiles,
        }
    }

    /// The estimate of a percentile: 50, 99, 99.9, 99.99 or 99.999.
    pub(super) fn percentile(&self, percent: f64) -> Option<&PercentileEstimate> {
        self.percentiles.iter().find(|estimate| match estimate.level {
            Level::Share(share) => (share.percent() - percent).abs() < 1e-9,
            Level::Min | Level::Max => false,
        })
    }

    /// The value of a requested level in nanoseconds; `None` if it is withheld.
    pub(super) fn level_ns(&self, level: Level) -> Option<u64> {
        self.percentiles.iter().find(|estimate| estimate.level == level)?.value.value()
    }

    /// The value of a percentile in nanoseconds; `None` if it is withheld.
    pub(crate) fn value_ns(&self, percent: f64) -> Option<u64> {
        self.percentile(percent).and_then(|estimate| estimate.value.value())
    }

    /// A percentile for a table: its value, or how many samples are missing.
    pub(super) fn cell(&self, percent: f64) -> String {
        match self.percentile(percent).map(|estimate| estimate.value) {
            _ if self.samples == 0 => "-".to_owned(),
            None => "-".to_owned(),
            Some(Reported::Withheld { needed_more }) => format!("needs {needed_more} more"),
            Some(value) => value.value().map_or_else(|| "-".to_owned(), |ns| text::time(ns as f64)),
        }
    }

    /// Like [`Latency::cell`], with the interval.
    pub(crate) fn bounded_cell(&self, percent: f64) -> String {
        let cell = self.cell(percent);
        let Some(estimate) = self.percentile(percent) else { return cell };
        let end = |end: Option<u64>| end.map_or_else(|| "open".to_owned(), |ns| text::time(ns as f64));
        match (estimate.value.value(), estimate.value.bounds()) {
            (None, _) | (_, (None, None)) => cell,
            (_, (low, high)) => format!("{cell} [{} - {}]", end(low), end(high)),
        }
    }

    /// The mean for a table.
    pub(crate) fn mean_cell(&self) -> String {
        if self.samples == 0 { "-".to_owned() } else { text::time(self.mean_ns) }
    }

    /// The maximum for a table.
    pub(crate) fn max_cell(&self) -> String {
        if self.samples == 0 { "-".to_owned() } else { text::time(self.max_ns as f64) }
    }

    /// The mean for JSON; `None` without samples.
    pub(super) fn known_mean_ns(&self) -> Option<f64> {
        (self.samples > 0).then_some(self.mean_ns)
    }

    /// The maximum for JSON; `None` without samples.
    pub(super) fn known_max_ns(&self) -> Option<u64> {
        (self.samples > 0).then_some(self.max_ns)
    }

    /// The figures as JSON.
    pub(super) fn json(&self) -> Value {
        let percentiles = self.percentiles.iter().filter_map(|estimate| {
            let Level::Share(share) = estimate.level else { return None };
            let (low, high) = estimate.value.bounds();
            let needed = match estimate.value {
                Reported::Withheld { needed_more } => Some(needed_more),
                _ => None,
            };
            Some(json!({
                "percentile": share.percent(),
                "value_ns": estimate.value.value(),
                "low_ns": low,
                "high_ns": high,
                "samples_needed_more": needed,
                "effective_samples": estimate.effective_samples,
            }))
        });
        json!({
            "samples": self.samples,
            "mean_ns": self.known_mean_ns(),
            "max_ns": self.known_max_ns(),
            "percentiles": percentiles.collect::<Vec<_>>(),
        })
    }

    /// Like [`Latency::json`], with the histogram, for results of a few runs.
    pub(super) fn json_counted(&self) -> Value {
        let mut json = self.json();
        json["histogram"] = self.counted.json();
        json
    }
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    /// I/Os in flight that the job asks for.
    pub depth: u64,
    /// Mean number of I/Os in flight that was reached.
    pub depth_mean: f64,
    /// I/Os a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Processor time for each I/O in nanoseconds.
    pub cpu_ns_per_io: f64,
    /// The same time split into user and system time, where the split is known.
    pub cpu_split_ns_per_io: Option<(f64, f64)>,
    /// The threads that make the load were the limit: they had no time left.
    pub is_limited_by_generator: bool,
    /// The modelled host was the limit.
    pub is_limited_by_modelled_host: bool,
    /// Share of the time in which the threads that make the load had work.
    generator_occupied: Option<f64>,
    /// Latency of all I/Os that transfer data.
    pub all: Latency,
    /// Latency by kind.
    pub kinds: Vec<(OpKind, Latency)>,
    ios: u64,
    failures: u64,
    little: &'static str,
}

impl Figures {
    /// The figures of a result.
    pub(super) fn new(result: &JobResult, options: &Options) -> Self {
        let confidence = options.confidence;
        let of = |kind: &KindResult| (kind.kind, Latency::new(&kind.total, Some(&kind.blocks), confidence));
        let kinds: Vec<_> = result.kinds.iter().map(of).collect();
        let data: Vec<_> = kinds.iter().filter(|(kind, _)| kind.has_data()).collect();
        // If there is only one kind, its blocks of time are those of all I/Os.
        let all = match data.as_slice() {
            [(_, one)] => one.clone(),
            _ => Latency::new(&result.total(), None, confidence),
        };
        let ios = result.ios();
        let rated = result.rated_ios();
        let per_io = |ns: u64| if rated == 0 { 0.0 } else { ns as f64 / rated as f64 };
        Self {
            depth: in_flight(&result.job),
            depth_mean: result.depth_mean,
            iops: result.iops(),
            bytes_per_second: result.bytes_per_second(),
            cpu_ns_per_io: per_io(result.used.cpu_all_ns()),
            cpu_split_ns_per_io: result.used.split_ns().map(|(user, system)| (per_io(user), per_io(system))),
            is_limited_by_generator: result.is_limited_by_generator(),
            is_limited_by_modelled_host: result.is_limited_by_modelled_host(),
            generator_occupied: result.generator_occupied(),
            all,
            kinds,
            ios,
            failures: failures(result),
            little: summary::verdict(summary::little(result).verdict),
        }
    }

    /// Latency of one kind of I/O.
    pub(super) fn kind(&self, kind: OpKind) -> Option<&Latency> {
        self.kinds.iter().find(|found| found.0 == kind).map(|found| &found.1)
    }

    /// The main latency: that of reads if there are any, otherwise that of all I/Os.
    pub(super) fn main(&self) -> &Latency {
        self.kind(OpKind::Read).filter(|reads| reads.samples > 0).unwrap_or(&self.all)
    }

    /// Processor time for each I/O, for a table.
    pub(super) fn cpu_cell(&self) -> String {
        text::time(self.cpu_ns_per_io)
    }

    /// The figures as JSON.
    pub(super) fn json(&self) -> Value {
        self.json_by(Latency::json)
    }

    /// Like [`Figures::json`], with histograms of latencies, for results of a few runs.
    pub(super) fn json_counted(&self) -> Value {
        self.json_by(Latency::json_counted)
    }

    fn json_by(&self, latency: fn(&Latency) -> Value) -> Value {
        let kinds: Map<String, Value> =
            self.kinds.iter().map(|(kind, found)| (kind.name().to_owned(), latency(found))).collect();
        json!({
            "depth": self.depth,
            "depth_mean": self.depth_mean,
            "ios": self.ios,
            "iops": self.iops,
            "bytes_per_second": self.bytes_per_second,
            "mean_ns": self.all.known_mean_ns(),
            "p50_ns": self.all.value_ns(50.0),
            "p99_ns": self.all.value_ns(99.0),
            "p99.9_ns": self.all.value_ns(99.9),
            "max_ns": self.all.known_max_ns(),
            "cpu_ns_per_io": self.cpu_ns_per_io,
            "cpu_user_ns_per_io": self.cpu_split_ns_per_io.map(|split| split.0),
            "cpu_system_ns_per_io": self.cpu_split_ns_per_io.map(|split| split.1),
            "generator_occupied": self.generator_occupied,
            "limited_by_generator": self.is_limited_by_generator,
            "littles_law": self.little,
            "failures": self.failures,
            "latency": { "all": latency(&self.all), "by_kind": kinds },
        })
    }
}

/// I/Os in flight of a job, over all its threads.
pub(super) fn in_flight(job: &Job) -> u64 {
    u64::from(job.threads) * u64::from(job.depth)
}

/// Number of I/Os that failed or never completed.
pub(super) fn failures(result: &JobResult) -> u64 {
    result.failures.count + u64::from(result.hung)
}

/// How long a run lasted in nanoseconds, where the job ends by time or after `bytes_wanted`. A run that transferred its
/// bytes before its time ended with its last interval that has any I/O.
pub(super) fn lasted_ns(result: &JobResult, bytes_wanted: f64) -> u64 {
    let reached = result.bytes() as f64 >= 0.999 * bytes_wanted;
    let last = result.intervals.iter().filter(|row| row.ios > 0).map(|row| row.begin_ns).max();
    match last {
        Some(begin_ns) if reached => result.duration_ns.min(begin_ns.saturating_add(result.interval_ns)),
        _ => result.duration_ns,
    }
}
