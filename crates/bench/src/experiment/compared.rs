//! Figures of interleaved rounds and their verdicts, for two sides or for the rungs of a ladder.

use super::figures::Latency;
use super::text;
use crate::job::model::Job;
use crate::run::{JobResult, KindResult};
use crate::stats::Confidence;
use crate::stats::compare::{Comparison, Metric, Terms, Verdict, compare};
use crate::stats::percentile::Level;
use forebay_block::OpKind;
use serde_json::{Value, json};

/// Fewest complete rounds for a verdict: fewer do not show how much two runs of the same thing differ.
pub(super) const ROUNDS_MIN: u32 = 3;
/// Distance between the seeds of two rounds: odd and large, so that they share no low or high bits.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The values of two runs in a round; `None` where a run has too few samples.
pub(super) type Pair = (Option<f64>, Option<f64>);

/// A figure of one job that is compared.
#[derive(Clone)]
pub(super) struct Figure {
    /// Index of the job.
    pub job: usize,
    /// Name for people.
    pub name: String,
    /// How the figure is judged.
    pub metric: Metric,
    /// Formats a value for people.
    pub show: fn(f64) -> String,
    /// Key in the JSON, with its unit.
    pub key: String,
    /// The percentile, if the figure is one.
    level: Option<Level>,
}

/// Default percentiles of a comparison.
const LEVELS: &str = "99,99.9";

/// Default percentiles of a comparison: p99 and p99.9.
#[must_use]
pub fn levels() -> Vec<Level> {
    Level::parse_list(LEVELS).unwrap_or_default()
}

pub(super) fn too_few_rounds(rounds: usize) -> String {
    format!("{rounds} whole rounds, at least {ROUNDS_MIN} are needed to see how much two runs of one thing differ")
}

/// Gives each round a seed of its own: otherwise the cost of one seed's offsets would be in all rounds and look like a
/// difference.
#[must_use]
pub fn of_round(job: &Job, round: u32) -> Job {
    Job { seed: job.seed.wrapping_add(u64::from(round).wrapping_mul(SEED_STEP)), ..job.clone() }
}

/// The compared figures of a job: throughput, and for each kind of I/O the mean and these percentiles.
pub(super) fn figures_of(job: usize, result: &JobResult, levels: &[Level]) -> Vec<Figure> {
    let new = |name: String, metric, show: fn(f64) -> String, key: &str, level| {
        let key = key.to_owned();
        Figure { job, name, metric, show, key, level }
    };
    let mut all = vec![new("IOPS".to_owned(), Metric::THROUGHPUT, text::rate, "iops", None)];
    for kind in result.kinds.iter().map(|kind| kind.kind.name()) {
        all.push(new(format!("{kind} mean"), Metric::MEAN_LATENCY, text::time, "mean_ns", None));
        all.extend(levels.iter().map(|&level| {
            let key = format!("{level}_ns");
            new(format!("{kind} {level}"), Metric::PERCENTILE, text::time, &key, Some(level))
        }));
    }
    all
}

/// Latencies of a run by kind, with these percentiles.
pub(super) fn latencies(result: &JobResult, confidence: Confidence, levels: &[Level]) -> Vec<(OpKind, Latency)> {
    let of = |kind: &KindResult| Latency::with_levels(&kind.total, Some(&kind.blocks), (confidence, levels.to_vec()));
    result.kinds.iter().map(|kind| (kind.kind, of(kind))).collect()
}

/// Whether every round has values of both sides, and there are enough rounds for a verdict.
pub(super) fn is_whole(rounds: &[Pair]) -> bool {
    rounds.len() >= ROUNDS_MIN as usize && rounds.iter().all(|round| round.0.is_some() && round.1.is_some())
}

impl Figure {
    /// The figure's value in one run; `None` where it is withheld.
    pub(super) fn value(&self, result: &JobResult, latencies: &[(OpKind, Latency)]) -> Option<f64> {
        if self.key == "iops" {
            return Some(result.iops());
        }
        let kind = self.name.split(' ').next()?;
        let latency = &latencies.iter().find(|(found, latency)| found.name() == kind && latency.samples > 0)?.1;
        match self.level {
            None => Some(latency.mean_ns),
            Some(level) => latency.level_ns(level).map(|ns| ns as f64),
        }
    }

    /// Judges the figure by its rounds, or says why there is no verdict.
    pub(super) fn judged(&self, rounds: &[Pair], terms: Terms) -> Result<Comparison, String> {
        if rounds.len() < ROUNDS_MIN as usize {
            return Err(format!("no verdict: {}", too_few_rounds(rounds.len())));
        }
        let whole: Vec<(f64, f64)> = rounds.iter().filter_map(|round| Some((round.0?, round.1?))).collect();
        if whole.len() < rounds.len() {
            let lacking = rounds.len() - whole.len();
            return Err(format!("not compared: too few samples in {lacking} of {} rounds", rounds.len()));
        }
        compare(&whole, self.metric, terms).map_err(|error| format!("not compared: {error}"))
    }
}

pub(super) fn comparison_json(found: &Comparison) -> Value {
    json!({
        "a": found.a,
        "b": found.b,
        "ratio": found.ratio,
        "ratio_low": found.interval.low,
        "ratio_high": found.interval.high,
        "bootstrap_low": found.bootstrap.low,
        "bootstrap_high": found.bootstrap.high,
        "verdict": match found.verdict {
            Verdict::AFaster => "a better",
            Verdict::BFaster => "b better",
            Verdict::NoDifferenceShown => "no difference shown",
        },
        "factor": found.factor,
        "would_show": found.would_show,
        "rounds_needed": found.rounds_needed,
        "variation_a": found.variation.0,
        "variation_b": found.variation.1,
    })
}
