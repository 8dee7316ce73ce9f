//! A ladder of settings: the same jobs run on every rung, to show what each rung changes.
//!
//! Rungs are measured in interleaved rounds. The seed gives an order; a pair of rounds walks it forwards and then
//! backwards, and the next pair begins one rung later. So drift affects all rungs alike, and only ratios within a round
//! count.

use super::compared::{Figure, Pair, ROUNDS_MIN, comparison_json, figures_of, is_whole, latencies, levels};
use super::driver::DriverError;
use super::error::ExperimentError;
use super::figures::Latency;
use super::report::Report;
use super::rounds::Rounds;
use super::session::Halt;
use super::text;
use crate::output::table::Table;
use crate::run::{JobResult, Latencies};
use crate::stats::Confidence;
use crate::stats::compare::{Comparison, Terms, Verdict};
use forebay_block::Random;
use serde_json::{Map, Value, json};

/// Keys of the figures that are judged.
const JUDGED: [&str; 2] = ["mean_ns", "p99_ns"];

const WHAT: &str = "The same jobs, rung by rung, in interleaved rounds (the settings ladder of Intel's P4800X evaluation guide): each \
                    rung held against the one that it says; \"no difference shown\" is an answer.";

/// One rung.
#[derive(Clone, Debug, Default)]
pub struct Rung {
    /// Its name.
    pub name: String,
    /// Facts for the report, with keys such as `what`, `cost` and `source`.
    pub facts: Vec<(&'static str, String)>,
    /// Index of the rung that this one is compared with; only the first rung has none.
    pub against: Option<usize>,
    /// Published figures of this rung, one entry for each job.
    pub published: Vec<Option<Published>>,
    /// Why the rung cannot be measured, where that is known before the run.
    pub missing: Option<String>,
}

/// Published figures of a job on a rung.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Published {
    /// Mean latency in nanoseconds.
    pub mean_ns: Option<f64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<f64>,
    /// I/Os a second.
    pub iops: Option<f64>,
}

/// A ladder and how it is measured.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The rungs. Each but the first is compared with the first, or with a rung whose comparisons lead to the first.
    pub rungs: Vec<Rung>,
    /// Number of rounds, 3 to 10,000.
    pub rounds: u32,
    /// Confidence of all intervals together (simultaneous).
    pub confidence: Confidence,
    /// The ratio to be detected, such as 1.05.
    pub difference: f64,
    /// Seed of the order and of the bootstrap.
    pub seed: u64,
    /// Conditions that hold for all runs, for the report.
    pub conditions: Vec<String>,
    /// Notes that the reader should see first.
    pub notes: Vec<String>,
}

/// Why a rung is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A first, shorter run that does not count: it shows whether the rung works, and warms up.
    Look,
    /// A round that counts, from 0.
    Round(u32),
}

/// The outcome of running a rung.
#[derive(Debug)]
pub enum Climb {
    /// Results of all jobs, in order.
    Ran(Vec<JobResult>),
    /// The user has ended the run.
    Ended,
    /// The rung is not available, with the reason.
    Missing(String),
}

/// Measures a ladder. `run` applies the settings of a rung, runs all jobs, and returns their results.
///
/// # Errors
/// [`ExperimentError`]: the number of rounds is out of bounds, or the first rung cannot be run.
pub fn ladder(
    ladder: &Ladder,
    run: &mut dyn FnMut(usize, Pass, &str) -> Result<Climb, DriverError>,
) -> Result<Report, ExperimentError> {
    if !(ROUNDS_MIN..=super::options::ROUNDS_MAX).contains(&ladder.rounds) {
        let reason = format!("{}; 3 to {}: fewer than 3 judge nothing", ladder.rounds, super::options::ROUNDS_MAX);
        return Err(ExperimentError::Option { option: "rounds", reason });
    }
    let taken = ladder.rungs.iter().map(|rung| Taken { missing: rung.missing.clone(), ..Taken::default() }).collect();
    let mut state = State { taken, ..State::default() };
    state.rounds.notes.clone_from(&ladder.notes);
    match state.measure(ladder, run) {
        Ok(()) | Err(Halt::Ended) => Ok(state.report(ladder)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// The order of the rungs in a round.
fn order(base: &[usize], round: u32) -> Vec<usize> {
    let mut order = base.to_vec();
    let by = (round / 2) as usize % order.len().max(1);
    order.rotate_left(by);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// A shuffled order of `count` rungs.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.index(last + 1));
    }
    order
}

/// All measurements of one job on one rung.
#[derive(Default)]
struct Pooled {
    latencies: Latencies,
    iops: Vec<f64>,
    description: String,
}

/// All measurements of one rung.
#[derive(Default)]
struct Taken {
    jobs: Vec<Pooled>,
    /// For each judged figure, its value in each round.
    values: Vec<Vec<Option<f64>>>,
    missing: Option<String>,
}

#[derive(Default)]
struct State {
    taken: Vec<Taken>,
    figures: Vec<Figure>,
    jobs: Vec<String>,
    rounds: Rounds,
}

impl State {
    fn measure(
        &mut self,
        ladder: &Ladder,
        run: &mut dyn FnMut(usize, Pass, &str) -> Result<Climb, DriverError>,
    ) -> Result<(), Halt> {
        for rung in 0..ladder.rungs.len() {
            self.one(ladder, run, rung, Pass::Look)?;
        }
        let base = shuffled(ladder.rungs.len(), ladder.seed);
        for round in 0..ladder.rounds {
            let mut found = Vec::new();
            for rung in order(&base, round) {
                if let Some(results) = self.one(ladder, run, rung, Pass::Round(round))? {
                    found.push((rung, results));
                }
            }
            self.take(ladder, found)?;
        }
        Ok(())
    }

    /// The results of one rung, `None` if the rung is missing, or the end of the run.
    fn one(
        &mut self,
        ladder: &Ladder,
        run: &mut dyn FnMut(usize, Pass, &str) -> Result<Climb, DriverError>,
        rung: usize,
        pass: Pass,
    ) -> Result<Option<Vec<JobResult>>, Halt> {
        if self.taken[rung].missing.is_some() {
            return Ok(None);
        }
        let name = &ladder.rungs[rung].name;
        let step = match pass {
            Pass::Look => format!("looking at {name}"),
            Pass::Round(round) => format!("round {} of {}: {name}", round + 1, ladder.rounds),
        };
        let why = match run(rung, pass, &step) {
            Ok(Climb::Ran(results)) => return self.rounds.looked(&step, results, "the ladder ended there").map(Some),
            Ok(Climb::Ended) => {
                self.rounds.partial = true;
                return Err(Halt::Ended);
            }
            Ok(Climb::Missing(why)) => why,
            Err(error) => error.to_string(),
        };
        // The first rung must work, since all others are compared with it. A rung lost after rounds were counted ends
        // the ladder: the rungs above it were measured together with it so far, and would now be measured without it.
        if self.rounds.whole > 0 {
            return Err(self.rounds.ended(format!("{step}: {why}; the ladder ended there")));
        }
        if rung == 0 {
            return Err(ExperimentError::Driver { step, source: DriverError(why) }.into());
        }
        self.taken[rung] = Taken { missing: Some(why), ..Taken::default() };
        Ok(None)
    }

    /// Adds a complete round.
    fn take(&mut self, ladder: &Ladder, found: Vec<(usize, Vec<JobResult>)>) -> Result<(), ExperimentError> {
        if self.rounds.whole == 0
            && let Some((_, first)) = found.first()
        {
            self.jobs = first.iter().map(|result| result.job.name.clone()).collect();
            let figures = first.iter().enumerate().flat_map(|(job, result)| figures_of(job, result, &levels()));
            self.figures = figures.filter(|figure| JUDGED.contains(&figure.key.as_str())).collect();
        }
        self.rounds.whole += 1;
        for (rung, results) in found {
            if results.len() != self.jobs.len() {
                let step = ladder.rungs[rung].name.clone();
                return Err(ExperimentError::Results { step, got: results.len(), want: self.jobs.len() });
            }
            let taken = &mut self.taken[rung];
            // The rung may have been found missing later in this round.
            if taken.missing.is_some() {
                continue;
            }
            taken.jobs.resize_with(results.len(), Pooled::default);
            taken.values.resize_with(self.figures.len(), Vec::new);
            for (pooled, result) in taken.jobs.iter_mut().zip(&results) {
                pooled.latencies.merge(&result.total());
                pooled.iops.push(result.iops());
                pooled.description = format!("{}, waiting by {}", result.description, result.job.wait);
            }
            let of_kinds: Vec<_> =
                results.iter().map(|result| latencies(result, ladder.confidence, &levels())).collect();
            for (values, figure) in taken.values.iter_mut().zip(&self.figures) {
                values.push(figure.value(&results[figure.job], &of_kinds[figure.job]));
            }
        }
        Ok(())
    }

    /// The rung that `rung` is compared with. If that one is missing, the rung that it would be compared with itself,
    /// and so on.
    fn against(&self, ladder: &Ladder, rung: usize) -> Option<usize> {
        let mut below = ladder.rungs[rung].against?;
        while self.taken[below].missing.is_some() {
            below = ladder.rungs[below].against?;
        }
        Some(below)
    }

    /// The values of a figure on a rung and on the rung that it is compared with, round by round.
    fn pairs(&self, ladder: &Ladder, rung: usize, figure: usize) -> Option<Vec<Pair>> {
        let before = self.taken[self.against(ladder, rung)?].values.get(figure)?;
        Some(before.iter().copied().zip(self.taken[rung].values.get(figure)?.iter().copied()).collect())
    }

    fn report(mut self, ladder: &Ladder) -> Report {
        let present: Vec<usize> = (0..ladder.rungs.len()).filter(|&rung| self.taken[rung].missing.is_none()).collect();
        let all = || present.iter().flat_map(|&rung| (0..self.figures.len()).map(move |figure| (rung, figure)));
        let judged = all().filter(|&(rung, at)| self.pairs(ladder, rung, at).is_some_and(|pairs| is_whole(&pairs)));
        let together = judged.count().max(1);
        let terms = Terms {
            error: ladder.confidence.error() / together as f64,
            difference: ladder.difference,
            seed: ladder.seed,
        };
        let climbed = Climbed { ladder, state: &self, terms };
        let mut tables: Vec<Table> = (0..self.jobs.len()).map(|job| climbed.table(job, &present)).collect();
        tables.extend((0..self.jobs.len()).filter_map(|job| climbed.published_table(job, &present)));
        let rungs: Vec<Value> = (0..ladder.rungs.len()).map(|rung| climbed.rung_json(rung)).collect();
        let mut conditions = ladder.conditions.clone();
        conditions.push(format!(
            "{} whole rounds of {}; the order comes from seed {}, is walked forwards and backwards, and then begins one rung later",
            self.rounds.whole, ladder.rounds, ladder.seed
        ));
        conditions.push("\"would show\" is the smallest effect that these rounds would have shown".to_owned());
        conditions.push(format!(
            "{together} effects are judged together: all intervals hold at once with {} % (Bonferroni)",
            ladder.confidence.percent()
        ));
        self.rounds.warn();
        for (rung, taken) in ladder.rungs.iter().zip(&self.taken) {
            if let Some(why) = &taken.missing {
                self.rounds.notes.push(format!("not there: {}: {why}", rung.name));
            }
        }
        let json = json!({
            "experiment": "ladder",
            "partial": self.rounds.partial,
            "failures": self.rounds.failures,
            "rounds": self.rounds.whole,
            "seed": ladder.seed,
            "confidence_percent": ladder.confidence.percent(),
            "effects_judged_together": together,
            "difference": ladder.difference,
            "rungs": rungs,
            "conditions": conditions,
            "notes": self.rounds.notes,
        });
        Report {
            name: "ladder".to_owned(),
            what: WHAT.to_owned(),
            conditions,
            tables,
            json,
            notes: self.rounds.notes,
            partial: self.rounds.partial,
            failures: self.rounds.failures,
        }
    }
}

/// A measured ladder, for its tables.
struct Climbed<'a> {
    ladder: &'a Ladder,
    state: &'a State,
    terms: Terms,
}

impl Climbed<'_> {
    /// The latency of a job on a rung, and its rate if there was any I/O.
    fn latency(&self, rung: usize, job: usize) -> Option<(Latency, Option<f64>)> {
        let pooled = self.state.taken[rung].jobs.get(job)?;
        let iops = pooled.iops.iter().sum::<f64>() / pooled.iops.len().max(1) as f64;
        let latency = Latency::new(&pooled.latencies, None, self.ladder.confidence);
        let iops = (latency.samples > 0).then_some(iops);
        Some((latency, iops))
    }

    fn effect(&self, rung: usize, figure: usize) -> Option<Result<Comparison, String>> {
        let pairs = self.state.pairs(self.ladder, rung, figure)?;
        Some(self.state.figures[figure].judged(&pairs, self.terms))
    }

    fn numbered(&self, rung: usize) -> String {
        format!("{rung} {}", self.ladder.rungs[rung].name)
    }

    fn table(&self, job: usize, present: &[usize]) -> Table {
        let interval = format!("{} % interval", self.ladder.confidence.percent());
        let head = [
            "rung",
            "mean",
            "p99",
            "p99.999",
            "max",
            "IOPS",
            "against",
            "mean / against",
            &interval,
            "effect on mean",
            "would show",
            "effect on p99",
            "would show",
        ];
        let title = format!("{}: {} rounds", self.state.jobs[job], self.state.rounds.whole);
        let mut table = Table::new(title, 1, &head);
        for &rung in present {
            let Some((latency, iops)) = self.latency(rung, job) else { continue };
            let mut row = vec![
                self.numbered(rung),
                latency.mean_cell(),
                latency.cell(99.0),
                latency.cell(99.999),
                latency.max_cell(),
                iops.map_or_else(|| "-".to_owned(), text::rate),
            ];
            row.push(self.state.against(self.ladder, rung).map_or_else(|| "-".to_owned(), |below| below.to_string()));
            let of_job =
                |key: &str| self.state.figures.iter().position(|figure| figure.job == job && figure.key == key);
            let effect = |key: &str| of_job(key).and_then(|figure| self.effect(rung, figure));
            let none = || "-".to_owned();
            let judged = |found: Option<Result<Comparison, String>>| match found {
                Some(Ok(found)) => [verdict(&found), format!("{:.3} x", found.would_show)],
                Some(Err(why)) => [why, none()],
                None => [none(), none()],
            };
            let of_mean = effect("mean_ns");
            row.extend(match &of_mean {
                Some(Ok(found)) => {
                    [format!("{:.3}", found.ratio), format!("{:.3} - {:.3}", found.interval.low, found.interval.high)]
                }
                _ => [none(), none()],
            });
            row.extend(judged(of_mean));
            row.extend(judged(effect("p99_ns")));
            table.rows.push(row);
        }
        table
    }

    /// Our figures beside published ones, if there are any.
    fn published_table(&self, job: usize, present: &[usize]) -> Option<Table> {
        let head = ["rung", "mean", "published", "off by", "p99", "published", "off by", "IOPS", "published", "off by"];
        let mut table = Table::new(format!("{}: beside what was published", self.state.jobs[job]), 1, &head);
        for &rung in present {
            let Some(Some(published)) = self.ladder.rungs[rung].published.get(job) else { continue };
            let Some((latency, iops)) = self.latency(rung, job) else { continue };
            let mut row = vec![self.numbered(rung)];
            for (ours, theirs, show) in beside(published, &latency, iops) {
                let off = ours.zip(theirs).map(|(ours, theirs)| format!("{:+.1} %", (ours / theirs - 1.0) * 100.0));
                let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), show);
                row.extend([shown(ours), shown(theirs), off.unwrap_or_else(|| "-".to_owned())]);
            }
            table.rows.push(row);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    fn rung_json(&self, rung: usize) -> Value {
        let (what, taken) = (&self.ladder.rungs[rung], &self.state.taken[rung]);
        let mut fields = Map::new();
        fields.insert("name".to_owned(), what.name.clone().into());
        fields.extend(what.facts.iter().map(|(key, text)| ((*key).to_owned(), text.clone().into())));
        let against = self.state.against(self.ladder, rung).map(|below| self.ladder.rungs[below].name.clone());
        fields.insert("against".to_owned(), json!(against));
        fields.insert("missing".to_owned(), json!(taken.missing));
        let jobs = (0..taken.jobs.len()).map(|job| self.job_json(rung, job)).collect::<Vec<_>>();
        fields.insert("jobs".to_owned(), json!(jobs));
        Value::Object(fields)
    }

    fn job_json(&self, rung: usize, job: usize) -> Value {
        let Some((latency, iops)) = self.latency(rung, job) else { return Value::Null };
        let of_job = self.state.figures.iter().enumerate().filter(|(_, figure)| figure.job == job);
        let effects = of_job.map(|(at, figure)| {
            let found = self.effect(rung, at);
            json!({
                "figure": figure.name,
                "unit": figure.key,
                "rounds": self.state.taken[rung].values.get(at),
                "comparison": found.as_ref().and_then(|found| found.as_ref().ok()).map(comparison_json),
                "not_compared": found.as_ref().and_then(|found| found.as_ref().err()),
            })
        });
        let published = self.ladder.rungs[rung].published.get(job).copied().flatten().map(
            |published| json!({ "mean_ns": published.mean_ns, "p99_ns": published.p99_ns, "iops": published.iops }),
        );
        json!({
            "job": self.state.jobs[job],
            "access": self.state.taken[rung].jobs[job].description,
            "mean_ns": latency.known_mean_ns(),
            "p99_ns": latency.value_ns(99.0),
            "p99.999_ns": latency.value_ns(99.999),
            "max_ns": latency.known_max_ns(),
            "iops": iops,
            "latency": latency.json(),
            "effects": effects.collect::<Vec<_>>(),
            "published": published,
        })
    }
}

/// Our value, the published value, and how a value is formatted.
type Beside = (Option<f64>, Option<f64>, fn(f64) -> String);

fn beside(published: &Published, latency: &Latency, iops: Option<f64>) -> [Beside; 3] {
    [
        (latency.known_mean_ns(), published.mean_ns, text::time),
        (latency.value_ns(99.0).map(|ns| ns as f64), published.p99_ns, text::time),
        (iops, published.iops, text::rate),
    ]
}

fn verdict(found: &Comparison) -> String {
    match found.verdict {
        Verdict::AFaster => format!("{:.3} x slower", found.factor),
        Verdict::BFaster => format!("{:.3} x faster", found.factor),
        Verdict::NoDifferenceShown => "no difference shown".to_owned(),
    }
}

#[cfg(test)]
mod tests;
