//! Several results of one kind side by side, without a verdict: a difference between two runs may be chance; only interleaved rounds
//! (`forebay bench --against`) decide.

use super::frame::Section;
use super::percentiles::{self, Named};
use super::{jobs, sweep};
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::results::{Found, Kind};
use crate::svg::{Drawing, Estimate, Forest, Form, LOOKS, WITHHELD};
use crate::table::{Cell, Column, Table};
use crate::unit::Unit;
use serde_json::Value;

const NO_VERDICT: &str = "Runs that were made one after the other differ by chance and by what has drifted between them. Whether a difference is one, \
                          interleaved rounds tell: forebay bench --target A --against B.";

pub(super) fn of(found: &[Found]) -> Vec<Section> {
    let sweeps: Vec<&Found> = found.iter().filter(|found| found.is_experiment(sweep::NAME)).collect();
    let runs: Vec<&Found> = found.iter().filter(|found| found.kind == Kind::Jobs).collect();
    let mut sections = Vec::new();
    if sweeps.len() > 1 {
        sections.push(of_sweeps(&sweeps));
    }
    if runs.len() > 1 {
        sections.push(of_runs(&runs));
    }
    sections
}

fn files(found: &[&Found]) -> String {
    found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Label of a run among several: the name of its file, because only that is unique; the whole path where file names are equal.
fn called(found: &Found, among: &[&Found]) -> String {
    let short = |found: &Found| found.name.rsplit('/').next().unwrap_or(&found.name).to_owned();
    let is_alone = among.iter().filter(|other| short(other) == short(found)).count() == 1;
    if is_alone { short(found) } else { found.name.clone() }
}

/// The same label with the target.
fn with_target(found: &Found, among: &[&Found]) -> String {
    format!("{} ({})", called(found, among), text(&found.value, "target").unwrap_or("-"))
}

fn of_sweeps(sweeps: &[&Found]) -> Section {
    let mut section =
        Section { title: "Queue depth, beside each other".to_owned(), file: files(sweeps), ..Section::default() };
    section.about.push(NO_VERDICT.to_owned());
    let shown: Vec<(String, &Value)> =
        sweeps.iter().take(LOOKS).map(|found| (with_target(found, sweeps), found.experiment())).collect();
    if sweeps.len() > LOOKS {
        section.notes.push(format!("Of {} sweeps the first {LOOKS} are drawn", sweeps.len()));
    }
    section.notes.extend(shown.iter().filter_map(|(name, result)| sweep::left_out(name, result)));
    section.pictures.extend(sweep::curve(&shown));
    section
}

/// One kind of I/O of a job in one run: a row of the picture.
struct Row<'a> {
    run: String,
    run_with_target: String,
    job: &'a Value,
    kind: &'a Value,
}

impl Row<'_> {
    fn what(&self) -> String {
        format!("{} {}", jobs::name(self.job), text(self.kind, "kind").unwrap_or("I/Os"))
    }
}

fn of_runs(runs: &[&Found]) -> Section {
    let mut section = Section { title: "Runs, beside each other".to_owned(), file: files(runs), ..Section::default() };
    section.about.push(NO_VERDICT.to_owned());
    let rows: Vec<Row<'_>> = runs
        .iter()
        .flat_map(|found| {
            let jobs = list(&found.value, "jobs").iter();
            jobs.flat_map(|job| {
                list(job, "kinds").iter().map(|kind| Row {
                    run: called(found, runs),
                    run_with_target: with_target(found, runs),
                    job,
                    kind,
                })
            })
        })
        .collect();
    let mut whats: Vec<String> = Vec::new();
    for row in &rows {
        if !whats.contains(&row.what()) {
            whats.push(row.what());
        }
    }
    let iops =
        Figure { title: "IOPS", value: "iops", low: "iops_interval/low", high: "iops_interval/high", unit: Unit::Rate };
    let mean = Figure {
        title: "mean latency",
        value: "latency_ns/total/mean",
        low: "mean_interval_ns/low",
        high: "mean_interval_ns/high",
        unit: Unit::Ns,
    };
    for what in whats.iter().take(LOOKS) {
        let these: Vec<&Row<'_>> = rows.iter().filter(|row| row.what() == *what).collect();
        if these.len() < 2 {
            continue;
        }
        section.pictures.push(iops.picture(what, &these));
        section.pictures.push(mean.picture(what, &these));
        let named: Vec<Named<'_>> = these
            .iter()
            .take(LOOKS)
            .enumerate()
            .filter_map(|(look, row)| {
                Some(Named { name: row.run_with_target.clone(), latency: at(row.kind, "latency_ns/total")?, look })
            })
            .collect();
        let confidence = named.first().and_then(|named| number(named.latency, "confidence_percent"));
        section.pictures.extend(percentiles::picture(format!("{what}: percentiles"), &named, confidence));
    }
    section
}

/// A figure with its interval.
struct Figure {
    title: &'static str,
    value: &'static str,
    low: &'static str,
    high: &'static str,
    unit: Unit,
}

impl Figure {
    fn picture(&self, what: &str, rows: &[&Row<'_>]) -> Picture {
        let estimate = |(look, row): (usize, &&Row<'_>)| {
            let (value, low, high) =
                (number(row.kind, self.value), number(row.kind, self.low), number(row.kind, self.high));
            let say = value.map_or_else(String::new, |value| super::texts::bounded(value, low, high, self.unit));
            Estimate {
                name: row.run.clone(),
                value,
                low,
                high,
                say: format!("{}: {say}", row.run),
                look,
                absent: WITHHELD,
            }
        };
        let forest = Forest {
            title: self.title.to_owned(),
            unit: self.unit,
            form: Form::FromZero,
            against: None,
            rows: rows.iter().enumerate().map(estimate).collect(),
        };
        let head = vec![
            Column::text("run"),
            Column::number(self.title, self.unit),
            Column::interval("interval", self.unit),
            Column::number("I/Os", Unit::Count),
        ];
        let mut table = Table::new(format!("{what}: {}", self.title), head);
        table.rows.extend(rows.iter().map(|row| {
            vec![
                Cell::text(row.run_with_target.clone()),
                Cell::at(row.kind, self.value, self.unit),
                Cell::interval(at(row.kind, self.low), at(row.kind, self.high), self.unit),
                Cell::at(row.kind, "ios", Unit::Count),
            ]
        }));
        let about = format!("{} of each run with the interval that it was printed with.", capital(self.title));
        Picture::drawn(format!("{what}: {}", self.title), about, Drawing::Forest(forest), table)
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
