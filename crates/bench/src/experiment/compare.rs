//! Interleaved comparison of two targets or two settings: A B, B A, A B and so on. Drift affects both alike, and only
//! the ratio within a round counts.

use super::compared::{Figure, Pair, ROUNDS_MIN, comparison_json, figures_of, is_whole, latencies, of_round};
use super::driver::{Driver, DriverError};
use super::error::ExperimentError;
use super::report::Report;
use super::rounds::Rounds;
use super::session::Halt;
use super::text;
use crate::job::model::{Job, Plan};
use crate::job::validate::validate;
use crate::output::table::Table;
use crate::run::{JobResult, Partial};
use crate::stats::Confidence;
use crate::stats::compare::{Better, Comparison, Metric, Terms, Verdict};
use crate::stats::percentile::Level;
use serde_json::{Value, json};

/// Distance between the seeds of the two sides; no multiple of the distance between rounds.
const SIDE_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The baseline.
    A,
    /// The side that is compared with the baseline.
    B,
}

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Comparing {
    /// Names of the sides for the report, A first.
    pub names: (String, String),
    /// Number of rounds, each with a run of both sides; 3 to 10,000.
    pub rounds: u32,
    /// Confidence of the intervals of all figures together (simultaneous).
    pub confidence: Confidence,
    /// Percentiles that are compared, for each kind of I/O.
    pub levels: Vec<Level>,
    /// The ratio to be detected, such as 1.05: the report says for each figure how many rounds that would take.
    pub difference: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// The results of a side's run in a round; `None` if the user ended it.
type Ran = Result<Option<Vec<JobResult>>, DriverError>;

/// A figure with its values of both sides in each round.
struct Compared {
    figure: Figure,
    rounds: Vec<Pair>,
}

/// Compares two ways of running jobs. `run` runs all jobs of one side in a round (counted from 0) and returns their
/// results in order, or `None` if the user has ended the run.
///
/// # Errors
/// [`ExperimentError`]: the number of rounds is out of bounds, a run could not begin, or the sides have different
/// numbers of jobs.
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

/// Compares two targets under the same jobs. Groups of jobs run one after the other, the jobs of a group at the same
/// time.
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
        Side::A => run_groups(a, step, groups, (side, round)),
        Side::B => run_groups(b, step, groups, (side, round)),
    })
}

/// Compares two settings on one target. Both sides have the same number of jobs; the first of A is compared with the
/// first of B, and so on.
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
    compare(comparing, &mut |side, round, step| {
        run_groups(driver, step, if side == Side::A { a } else { b }, (side, round))
    })
}

fn check(groups: &[Vec<Job>]) -> Result<(), ExperimentError> {
    let plan = Plan { groups: groups.to_vec(), notes: Vec::new() };
    validate(&plan).map_err(|source| ExperimentError::Job { step: "comparison".to_owned(), source })
}

/// Gives each side seeds of its own. With equal seeds, two runs of one model in virtual time are the same run, bit for
/// bit, and the interval of a ratio would not include the effect of chance.
fn of_side(job: Job, side: Side) -> Job {
    let seed = if side == Side::A { job.seed } else { job.seed.wrapping_add(SIDE_STEP) };
    Job { seed, ..job }
}

fn run_groups(driver: &mut dyn Driver, step: &str, groups: &[Vec<Job>], (side, round): (Side, u32)) -> Ran {
    let mut results = Vec::new();
    for group in groups {
        if driver.is_stopped() {
            return Ok(None);
        }
        let jobs: Vec<Job> = group.iter().map(|job| of_side(of_round(job, round), side)).collect();
        results.extend(driver.run(step, &jobs)?);
    }
    // A run that was cut short does not count for its round.
    let ended = driver.is_stopped() || results.iter().any(|result| result.partial == Some(Partial::Interrupted));
    Ok((!ended).then_some(results))
}

#[derive(Default)]
struct State {
    compared: Vec<Compared>,
    jobs: Vec<(String, String)>,
    seen: [Vec<String>; 2],
    rounds: Rounds,
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

    /// The results of one side, or the end of the comparison.
    fn side(&mut self, step: &str, ran: Ran) -> Result<Vec<JobResult>, Halt> {
        let results = match ran {
            Ok(Some(results)) => results,
            Ok(None) => {
                self.rounds.partial = true;
                return Err(Halt::Ended);
            }
            Err(source) if self.rounds.whole > 0 => {
                return Err(self.rounds.ended(format!("{step}: {source}; the comparison ended there")));
            }
            Err(source) => return Err(ExperimentError::Driver { step: step.to_owned(), source }.into()),
        };
        self.rounds.looked(step, results, "this round is left out")
    }

    fn take(&mut self, comparing: &Comparing, a: &[JobResult], b: &[JobResult]) -> Result<(), ExperimentError> {
        if a.len() != b.len() {
            let step = format!("comparing {} with {}", comparing.names.0, comparing.names.1);
            return Err(ExperimentError::Results { step, got: b.len(), want: a.len() });
        }
        self.rounds.whole += 1;
        if self.rounds.whole == 1 {
            self.jobs = a.iter().zip(b).map(|(a, b)| (a.job.name.clone(), b.job.name.clone())).collect();
            let of = |(job, result)| {
                let figures = figures_of(job, result, &comparing.levels).into_iter();
                figures.map(|figure| Compared { figure, rounds: Vec::new() })
            };
            self.compared = a.iter().enumerate().flat_map(of).collect();
        }
        for (seen, results) in self.seen.iter_mut().zip([a, b]) {
            for result in results {
                let text = format!("{}, waiting by {}", result.description, result.job.wait);
                if !seen.contains(&text) && seen.len() < 8 {
                    seen.push(text);
                }
            }
        }
        let of = |results: &[JobResult]| -> Vec<_> {
            results.iter().map(|result| latencies(result, comparing.confidence, &comparing.levels)).collect()
        };
        let (of_a, of_b) = (of(a), of(b));
        for Compared { figure, rounds } in &mut self.compared {
            let at = figure.job;
            rounds.push((figure.value(&a[at], &of_a[at]), figure.value(&b[at], &of_b[at])));
        }
        Ok(())
    }

    fn report(mut self, comparing: &Comparing) -> Report {
        let (a, b) = &comparing.names;
        let judged = self.compared.iter().filter(|figure| is_whole(&figure.rounds)).count().max(1);
        let mut tables = Vec::new();
        let mut rows = Vec::new();
        for (job, names) in self.jobs.iter().enumerate() {
            let title =
                if names.0 == names.1 { names.0.clone() } else { format!("{} (A) and {} (B)", names.0, names.1) };
            let interval = format!("{} % interval", comparing.confidence.percent());
            let head = ["figure", "A", "B", "variation A", "B", "B / A", &interval, "verdict"];
            let mut table = Table::new(format!("{title}: A = {a}, B = {b}, {} rounds", self.rounds.whole), 1, &head);
            for figure in self.compared.iter().filter(|compared| compared.figure.job == job) {
                let (row, json) = figure.judged(comparing, judged, names);
                table.rows.push(row);
                rows.push(json);
            }
            tables.push(table);
        }
        let mut conditions = vec![format!(
            "{} whole rounds of {} in the order A B, B A; only ratios within a round count",
            self.rounds.whole, comparing.rounds
        )];
        conditions.push(
            "each side of each round has seeds of its own: what they make of places and times is chance".to_owned(),
        );
        for (name, seen) in ["A", "B"].iter().zip(&self.seen) {
            conditions.extend(seen.iter().map(|seen| format!("{name} reached by {seen}")));
        }
        if judged > 1 {
            conditions.push(format!(
                "{judged} figures are judged together: all intervals hold at once with {} % (Bonferroni)",
                comparing.confidence.percent()
            ));
        }
        self.rounds.warn();
        let json = json!({
            "experiment": "compare",
            "partial": self.rounds.partial,
            "failures": self.rounds.failures,
            "a": a,
            "b": b,
            "rounds": self.rounds.whole,
            "confidence_percent": comparing.confidence.percent(),
            "figures_judged_together": judged,
            "difference": comparing.difference,
            "figures": rows,
            "conditions": conditions,
            "notes": self.rounds.notes,
        });
        Report {
            name: "compare".to_owned(),
            what: "Two targets or settings in interleaved rounds; \"no difference shown\" is an answer.".to_owned(),
            conditions,
            tables,
            json,
            notes: self.rounds.notes,
            partial: self.rounds.partial,
            failures: self.rounds.failures,
        }
    }
}

impl Compared {
    /// The table row and the JSON of one figure, where `together` figures share the allowed error.
    fn judged(&self, comparing: &Comparing, together: usize, names: &(String, String)) -> (Vec<String>, Value) {
        let terms = Terms {
            error: comparing.confidence.error() / together as f64,
            difference: comparing.difference,
            seed: comparing.seed,
        };
        let found = self.figure.judged(&self.rounds, terms);
        let json = json!({
            "job_a": names.0,
            "job_b": names.1,
            "figure": self.figure.name,
            "unit": self.figure.key,
            "rounds_a": self.rounds.iter().map(|round| round.0).collect::<Vec<_>>(),
            "rounds_b": self.rounds.iter().map(|round| round.1).collect::<Vec<_>>(),
            "comparison": found.as_ref().ok().map(comparison_json),
            "not_compared": found.as_ref().err(),
        });
        let mut row = vec![self.figure.name.clone()];
        match found {
            Err(why) => {
                row.extend(std::iter::repeat_n("-".to_owned(), 6));
                row.push(why);
            }
            Ok(found) => row.extend([
                (self.figure.show)(found.a),
                (self.figure.show)(found.b),
                text::percent(found.variation.0),
                text::percent(found.variation.1),
                format!("{:.3}", found.ratio),
                format!("{:.3} - {:.3}", found.interval.low, found.interval.high),
                verdict(&found, self.figure.metric, comparing.difference),
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
        Verdict::NoDifferenceShown => not_shown(found, difference),
    }
}

/// The sentence that no difference was shown, with the number of rounds that would show one.
fn not_shown(found: &Comparison, difference: f64) -> String {
    let needed = match found.rounds_needed {
        Some(rounds) if rounds > found.rounds => format!("; {difference} x needs {rounds} rounds"),
        None => format!("; no number of rounds shows {difference} x"),
        Some(_) => String::new(),
    };
    format!("no difference shown ({:.3} x would have been{needed})", found.would_show)
}
