//! Interleaved comparison of two targets or two settings: A B, B A, A B and so on, so that what drifts meets both alike,
//! and only the ratio within a round counts.

use super::driver::{Driver, DriverError};
use super::error::ExperimentError;
use super::figures::{Latency, failures};
use super::report::Report;
use super::session::Halt;
use super::text;
use crate::job::model::{Job, Plan};
use crate::job::validate::validate;
use crate::output::table::Table;
use crate::run::{JobResult, Partial};
use crate::stats::Confidence;
use crate::stats::compare::{Better, Comparison, Metric, Terms, Verdict, compare as judge};
use forebay_block::OpKind;
use serde_json::{Value, json};

/// Notes kept.
const NOTES_MAX: usize = 40;

/// Between the seeds of two rounds: odd and large, so that they share no low or high bits.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whole rounds from which a verdict is given: in fewer it cannot be seen how much two runs of one thing differ.
const ROUNDS_MIN: u32 = 3;

fn too_few_rounds(rounds: usize) -> String {
    format!("{rounds} whole rounds, at least {ROUNDS_MIN} are needed to see how much two runs of one thing differ")
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that the other is held against.
    A,
    /// The other.
    B,
}

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// Names of the two, for the report.
    pub names: (String, String),
    /// Rounds, each with both; 3 to 10,000.
    pub rounds: u32,
    /// Confidence of the intervals of all figures together.
    pub confidence: Confidence,
    /// The factor that is to be shown, such as 1.05: of each figure it is said how many rounds that would take.
    pub difference: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// What a round's run gave: its results, or that the user ended it.
type Ran = Result<Option<Vec<JobResult>>, DriverError>;

/// A figure of one job that is compared.
struct Compared {
    job: usize,
    name: String,
    metric: Metric,
    show: fn(f64) -> String,
    /// Name in the JSON, with its unit.
    key: &'static str,
    rounds: Vec<(Option<f64>, Option<f64>)>,
}

/// Compares two ways of running jobs. `run` carries out one side's jobs of a round, counted from 0, all of them, and gives
/// their results in order, or nothing where the user has ended the run.
///
/// # Errors
/// [`ExperimentError`]: rounds out of bounds, a run that could not begin, sides that have different numbers of jobs.
pub fn compare(comparing: &Comparing, run: &mut dyn FnMut(Side, u32, &str) -> Ran) -> Result<Report, ExperimentError> {
    if !(ROUNDS_MIN..=super::options::ROUNDS_MAX).contains(&comparing.rounds) {
        let reason = format!("{}; 3 to {}: fewer than 3 judge nothing", comparing.rounds, super::options::ROUNDS_MAX);
        return Err(ExperimentError::Option { option: "rounds", reason });
    }
    let mut state = State::default();
    match state.measure(comparing, run) {
        Ok(()) | Err(Halt::Ended) => Ok(state.report(comparing)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Compares two targets under the same jobs: groups one after the other, the jobs of a group at once.
///
/// # Errors
/// As [`compare`], and jobs that cannot be run.
pub fn compare_targets(
    comparing: &Comparing,
    a: &mut dyn Driver,
    b: &mut dyn Driver,
    groups: &[Vec<Job>],
) -> Result<Report, ExperimentError> {
    check(groups)?;
    compare(comparing, &mut |side, round, step| match side {
        Side::A => run_groups(a, step, groups, round),
        Side::B => run_groups(b, step, groups, round),
    })
}

/// Compares two settings on one target. Both have as many jobs, of which the first of A is compared with the first of B
/// and so on.
///
/// # Errors
/// As [`compare_targets`].
pub fn compare_settings(
    comparing: &Comparing,
    driver: &mut dyn Driver,
    a: &[Vec<Job>],
    b: &[Vec<Job>],
) -> Result<Report, ExperimentError> {
    check(a)?;
    check(b)?;
    compare(comparing, &mut |side, round, step| run_groups(driver, step, if side == Side::A { a } else { b }, round))
}

fn check(groups: &[Vec<Job>]) -> Result<(), ExperimentError> {
    let plan = Plan { groups: groups.to_vec(), notes: Vec::new() };
    validate(&plan).map_err(|source| ExperimentError::Job { step: "comparison".to_owned(), source })
}

/// Each round has seeds of its own, the same for both sides where they had the same: what one seed's places happen to cost
/// would be in all rounds, and pass for a difference.
fn of_round(job: &Job, round: u32) -> Job {
    Job { seed: job.seed.wrapping_add(u64::from(round).wrapping_mul(SEED_STEP)), ..job.clone() }
}

fn run_groups(driver: &mut dyn Driver, step: &str, groups: &[Vec<Job>], round: u32) -> Ran {
    let mut results = Vec::new();
    for group in groups {
        if driver.is_stopped() {
            return Ok(None);
        }
        let jobs: Vec<Job> = group.iter().map(|job| of_round(job, round)).collect();
        results.extend(driver.run(step, &jobs)?);
    }
    // A run that was cut short is no run of its round.
    let ended = driver.is_stopped() || results.iter().any(|result| result.partial == Some(Partial::Interrupted));
    Ok((!ended).then_some(results))
}

#[derive(Default)]
struct State {
    compared: Vec<Compared>,
    jobs: Vec<(String, String)>,
    seen: [Vec<String>; 2],
    notes: Vec<String>,
    rounds: u32,
    partial: bool,
    failures: u64,
}

impl State {
    fn measure(&mut self, comparing: &Comparing, run: &mut dyn FnMut(Side, u32, &str) -> Ran) -> Result<(), Halt> {
        for round in 0..comparing.rounds {
            let order = if round % 2 == 0 { [Side::A, Side::B] } else { [Side::B, Side::A] };
            let mut found: [Option<Vec<JobResult>>; 2] = [None, None];
            for side in order {
                let name = if side == Side::A { &comparing.names.0 } else { &comparing.names.1 };
                let step = format!("round {} of {}: {name}", round + 1, comparing.rounds);
                found[side as usize] = Some(self.side(&step, run(side, round, &step))?);
            }
            if let [Some(a), Some(b)] = found {
                self.take(comparing, &a, &b)?;
            }
        }
        Ok(())
    }

    /// Results of one side, or the end.
    fn side(&mut self, step: &str, ran: Ran) -> Result<Vec<JobResult>, Halt> {
        let results = match ran {
            Ok(Some(results)) => results,
            Ok(None) => {
                self.partial = true;
                return Err(Halt::Ended);
            }
            Err(source) if self.rounds > 0 => {
                self.partial = true;
                self.note(format!("{step}: {source}; the comparison ended there"));
                return Err(Halt::Ended);
            }
            Err(source) => return Err(ExperimentError::Driver { step: step.to_owned(), source }.into()),
        };
        for result in &results {
            let failed = failures(result);
            self.failures += failed;
            if failed > 0 {
                self.note(format!("{step}: job {:?}: {failed} I/Os failed or never came back", result.job.name));
            }
            if let Some(partial) = result.partial {
                self.partial = true;
                self.note(format!("{step}: job {:?}: {}; this round is left out", result.job.name, partial.name()));
            }
        }
        if self.partial { Err(Halt::Ended) } else { Ok(results) }
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text);
        }
    }

    fn take(&mut self, comparing: &Comparing, a: &[JobResult], b: &[JobResult]) -> Result<(), ExperimentError> {
        if a.len() != b.len() {
            let step = format!("comparing {} with {}", comparing.names.0, comparing.names.1);
            return Err(ExperimentError::Results { step, got: b.len(), want: a.len() });
        }
        self.rounds += 1;
        if self.rounds == 1 {
            self.jobs = a.iter().zip(b).map(|(a, b)| (a.job.name.clone(), b.job.name.clone())).collect();
            self.compared = a.iter().enumerate().flat_map(|(job, result)| figures_of(job, result)).collect();
        }
        for (seen, results) in self.seen.iter_mut().zip([a, b]) {
            for result in results {
                let text = format!("{}, waiting by {}", result.description, result.job.wait);
                if !seen.contains(&text) && seen.len() < 8 {
                    seen.push(text);
                }
            }
        }
        let latencies = |results: &[JobResult]| -> Vec<Vec<(OpKind, Latency)>> {
            let of = |result: &JobResult| {
                let kinds = result.kinds.iter();
                kinds
                    .map(|kind| (kind.kind, Latency::new(&kind.total, Some(&kind.blocks), comparing.confidence)))
                    .collect()
            };
            results.iter().map(of).collect()
        };
        let (of_a, of_b) = (latencies(a), latencies(b));
        for figure in &mut self.compared {
            let at = figure.job;
            let value = |result: &JobResult, latencies: &[(OpKind, Latency)]| value(figure, result, latencies);
            let pair = (value(&a[at], &of_a[at]), value(&b[at], &of_b[at]));
            figure.rounds.push(pair);
        }
        Ok(())
    }

    fn report(mut self, comparing: &Comparing) -> Report {
        let (a, b) = &comparing.names;
        let judged = self.compared.iter().filter(|figure| figure.is_whole()).count().max(1);
        let mut tables = Vec::new();
        let mut rows = Vec::new();
        for (job, names) in self.jobs.iter().enumerate() {
            let title =
                if names.0 == names.1 { names.0.clone() } else { format!("{} (A) and {} (B)", names.0, names.1) };
            let interval = format!("{} % interval", comparing.confidence.percent());
            let head = ["figure", "A", "B", "variation A", "B", "B / A", &interval, "verdict"];
            let mut table = Table::new(format!("{title}: A = {a}, B = {b}, {} rounds", self.rounds), 1, &head);
            for figure in self.compared.iter().filter(|figure| figure.job == job) {
                let (row, json) = figure.judged(comparing, judged, names);
                table.rows.push(row);
                rows.push(json);
            }
            tables.push(table);
        }
        let mut conditions = vec![format!(
            "{} whole rounds of {} in the order A B, B A; only ratios within a round count",
            self.rounds, comparing.rounds
        )];
        for (name, seen) in ["A", "B"].iter().zip(&self.seen) {
            conditions.extend(seen.iter().map(|seen| format!("{name} reached by {seen}")));
        }
        if judged > 1 {
            conditions.push(format!(
                "{judged} figures are judged together: all intervals hold at once with {} % (Bonferroni)",
                comparing.confidence.percent()
            ));
        }
        if self.partial {
            self.notes.insert(0, "PARTIAL: ended before its time; only whole rounds count".to_owned());
        }
        if self.rounds < ROUNDS_MIN {
            self.notes.insert(0, format!("NO VERDICT: {}", too_few_rounds(self.rounds as usize)));
        }
        let json = json!({
            "experiment": "compare",
            "partial": self.partial,
            "failures": self.failures,
            "a": a,
            "b": b,
            "rounds": self.rounds,
            "confidence_percent": comparing.confidence.percent(),
            "figures_judged_together": judged,
            "difference": comparing.difference,
            "figures": rows,
            "conditions": conditions,
            "notes": self.notes,
        });
        Report {
            name: "compare".to_owned(),
            what: "Two targets or settings in interleaved rounds; \"no difference shown\" is an answer.".to_owned(),
            conditions,
            tables,
            json,
            notes: self.notes,
            partial: self.partial,
            failures: self.failures,
        }
    }
}

/// What is compared of a job: throughput, and of each kind mean, p99 and p99.9.
fn figures_of(job: usize, result: &JobResult) -> Vec<Compared> {
    let new = |name: String, metric, show: fn(f64) -> String, key| Compared {
        job,
        name,
        metric,
        show,
        key,
        rounds: Vec::new(),
    };
    let mut all = vec![new("IOPS".to_owned(), Metric::THROUGHPUT, text::rate, "iops")];
    for kind in result.kinds.iter().map(|kind| kind.kind.name()) {
        all.push(new(format!("{kind} mean"), Metric::MEAN_LATENCY, text::time, "mean_ns"));
        all.push(new(format!("{kind} p99"), Metric::PERCENTILE, text::time, "p99_ns"));
        all.push(new(format!("{kind} p99.9"), Metric::PERCENTILE, text::time, "p99.9_ns"));
    }
    all
}

/// A figure's value in one run; none where it is not printed.
fn value(figure: &Compared, result: &JobResult, latencies: &[(OpKind, Latency)]) -> Option<f64> {
    if figure.key == "iops" {
        return Some(result.iops());
    }
    let kind = figure.name.split(' ').next()?;
    let latency = &latencies.iter().find(|(found, latency)| found.name() == kind && latency.samples > 0)?.1;
    match figure.key {
        "mean_ns" => Some(latency.mean_ns),
        "p99_ns" => latency.value_ns(99.0).map(|ns| ns as f64),
        _ => latency.value_ns(99.9).map(|ns| ns as f64),
    }
}

impl Compared {
    /// Whether every round has a value of both sides, and there are enough for a verdict.
    fn is_whole(&self) -> bool {
        self.rounds.len() >= ROUNDS_MIN as usize
            && self.rounds.iter().all(|round| round.0.is_some() && round.1.is_some())
    }

    /// The row for people and the one for programs, of a figure among `together`.
    fn judged(&self, comparing: &Comparing, together: usize, names: &(String, String)) -> (Vec<String>, Value) {
        let whole: Vec<(f64, f64)> = self.rounds.iter().filter_map(|round| Some((round.0?, round.1?))).collect();
        let found = if self.rounds.len() < ROUNDS_MIN as usize {
            Err(format!("no verdict: {}", too_few_rounds(self.rounds.len())))
        } else if whole.len() < self.rounds.len() {
            let lacking = self.rounds.len() - whole.len();
            Err(format!("not compared: too few samples in {lacking} of {} rounds", self.rounds.len()))
        } else {
            let error = comparing.confidence.error() / together as f64;
            judge(&whole, self.metric, Terms { error, difference: comparing.difference, seed: comparing.seed })
                .map_err(|error| format!("not compared: {error}"))
        };
        let json = json!({
            "job_a": names.0,
            "job_b": names.1,
            "figure": self.name,
            "unit": self.key,
            "rounds_a": self.rounds.iter().map(|round| round.0).collect::<Vec<_>>(),
            "rounds_b": self.rounds.iter().map(|round| round.1).collect::<Vec<_>>(),
            "comparison": found.as_ref().ok().map(comparison_json),
            "not_compared": found.as_ref().err(),
        });
        let mut row = vec![self.name.clone()];
        match found {
            Err(why) => {
                row.extend(std::iter::repeat_n("-".to_owned(), 6));
                row.push(why);
            }
            Ok(found) => row.extend([
                (self.show)(found.a),
                (self.show)(found.b),
                text::percent(found.variation.0),
                text::percent(found.variation.1),
                format!("{:.3}", found.ratio),
                format!("{:.3} - {:.3}", found.interval.low, found.interval.high),
                verdict(&found, self.metric, comparing.difference),
            ]),
        }
        (row, json)
    }
}

fn verdict(found: &Comparison, metric: Metric, difference: f64) -> String {
    let word = if metric.better == Better::Higher { "more" } else { "faster" };
    match found.verdict {
        Verdict::AFaster => format!("A {:.3} x {word}", found.factor),
        Verdict::BFaster => format!("B {:.3} x {word}", found.factor),
        Verdict::NoDifferenceShown => {
            let needed = match found.rounds_needed {
                Some(rounds) if rounds > found.rounds => format!("; {difference} x needs {rounds} rounds"),
                None => format!("; no number of rounds shows {difference} x"),
                Some(_) => String::new(),
            };
            format!("no difference shown ({:.3} x would have been{needed})", found.would_show)
        }
    }
}

fn comparison_json(found: &Comparison) -> Value {
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
