//! A spec sheet against a target: promised, measured, verdict.

use super::frame::Section;
use crate::fields::{at, list, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Drawing, Estimate, Forest, Form, WITHHELD};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let name = text(value, "drive").or_else(|| text(value, "sheet")).unwrap_or("a drive");
    let mut section = Section { title: format!("Promises of {name}"), ..Section::default() };
    section.warnings.extend(texts(value, "warnings").map(str::to_owned));
    section.notes.extend(texts(value, "notes").map(str::to_owned));
    section.conditions.extend(list(value, "conditions").iter().map(condition));
    let (words, tone) = match text(value, "outcome") {
        Some("pass") => ("every promise is kept", Tone::Good),
        Some("fail") => ("at least one promise is broken", Tone::Bad),
        Some("not_shown") => ("no promise is broken, and not all are shown to be kept", Tone::Open),
        _ => ("unknown", Tone::Open),
    };
    let promises = list(value, "promises");
    section.facts.push(("Outcome".to_owned(), Cell::toned(words, tone)));
    if let Some(count) = number(value, "left_out").filter(|count| *count > 0.0) {
        section.facts.push(("Not asked for".to_owned(), Cell::toned(count.to_string(), Tone::Open)));
    }
    for (verdict, words, tone) in VERDICTS {
        let count = promises.iter().filter(|promise| text(promise, "verdict") == Some(verdict)).count();
        if count > 0 {
            section.facts.push((words.to_owned(), Cell::toned(count.to_string(), tone)));
        }
    }
    section.pictures.push(judged(promises));
    section.pictures.push(Picture::table("Promises", table(promises)));
    section.pictures.push(Picture::table("Runs, and what others measured", runs(list(value, "runs"))));
    section
}

const VERDICTS: [(&str, &str, Tone); 4] = [
    ("pass", "Pass", Tone::Good),
    ("fail", "Fail", Tone::Bad),
    ("too_few_samples", "Too few samples", Tone::Open),
    ("not_run", "Not run", Tone::Open),
];

fn verdict(promise: &Value) -> (&'static str, Tone) {
    let named = text(promise, "verdict").unwrap_or("");
    VERDICTS
        .iter()
        .find(|(key, _, _)| *key == named)
        .map_or(("unknown", Tone::Open), |(_, words, tone)| (*words, *tone))
}

fn condition(condition: &Value) -> String {
    let name = text(condition, "name").unwrap_or("-");
    let what = match (number(condition, "duration_s"), text(condition, "why")) {
        (Some(seconds), why) => format!("{seconds:.0} s{}", why.map_or_else(String::new, |why| format!("; {why}"))),
        (None, why) => format!("left out: {}", why.unwrap_or("unknown")),
    };
    format!("{name}: {what}")
}

fn unit(promise: &Value) -> Unit {
    match text(promise, "unit") {
        Some("ns") => Unit::Ns,
        Some("bytes_per_second") => Unit::BytesPerSecond,
        _ => Unit::Rate,
    }
}

/// The promised limit, and whether it is an upper limit.
fn bound(promise: &Value) -> Option<(f64, bool)> {
    let most = number(promise, "promised/at_most").map(|most| (most, true));
    most.or_else(|| number(promise, "promised/at_least").map(|least| (least, false)))
}

/// How well each promise is kept: above 1 is better than promised, for upper and lower limits alike.
fn judged(promises: &[Value]) -> Picture {
    let row = |promise: &Value| {
        let (limit, is_most) = bound(promise)?;
        let over = |path: &str| {
            let value = number(promise, path).filter(|value| *value > 0.0 && limit > 0.0)?;
            Some(if is_most { limit / value } else { value / limit })
        };
        let (low, high) = if is_most { ("measured/high", "measured/low") } else { ("measured/low", "measured/high") };
        let name = text(promise, "name").unwrap_or("-").to_owned();
        let (words, tone) = verdict(promise);
        let value = over("measured/value");
        let times =
            value.map_or_else(|| "not shown".to_owned(), |value| format!("{value:.3} times as good as promised"));
        Some(Estimate {
            say: format!("{name}: {words}; {times}"),
            name,
            value,
            low: over(low),
            high: over(high),
            absent: if words == "Not run" { "not run" } else { WITHHELD },
            look: match tone {
                Tone::Good => 2,
                Tone::Bad => 1,
                _ => 4,
            },
        })
    };
    let forest = Forest {
        title: "times as good as promised".to_owned(),
        unit: Unit::Ratio,
        form: Form::Log,
        against: Some((1.0, "promised".to_owned())),
        rows: promises.iter().filter_map(row).collect(),
    };
    let about = "Measured against promised with the interval of its verdict: right of the line is better than promised. Green: pass, orange: fail, gray: not decided.";
    Picture::drawn("Promised and measured", about, Drawing::Forest(forest), table(promises))
}

fn table(promises: &[Value]) -> Table {
    let head = vec![
        Column::text("promise"),
        Column::text("promised"),
        Column::text("verdict"),
        Column::text("measured"),
        Column::interval("interval", Unit::Plain),
        Column::number("confidence", Unit::Percent),
        Column::number("samples", Unit::Count),
        Column::text("why"),
        Column::text("source"),
    ];
    let mut table = Table::new("Promises in the order of the sheet", head);
    table.rows.extend(promises.iter().map(|promise| {
        let unit = unit(promise);
        let (words, tone) = verdict(promise);
        let promised = bound(promise).map_or_else(
            || "-".to_owned(),
            |(limit, is_most)| format!("{} {}", if is_most { "at most" } else { "at least" }, unit.show(limit)),
        );
        let memory = if crate::fields::is_set(promise, "from_memory") { " (from memory)" } else { "" };
        let note = text(promise, "note").map_or_else(String::new, |note| format!("; {note}"));
        vec![
            Cell::at(promise, "name", Unit::Plain),
            Cell::text(promised),
            Cell::toned(words, tone),
            Cell::at(promise, "measured/value", unit),
            Cell::interval(at(promise, "measured/low"), at(promise, "measured/high"), unit),
            Cell::at(promise, "confidence_percent", Unit::Percent),
            Cell::at(promise, "measured/samples", Unit::Count),
            Cell::at(promise, "why", Unit::Plain),
            Cell::text(format!("{}{memory}{note}", text(promise, "source").unwrap_or("-"))),
        ]
    }));
    table
}

fn runs(runs: &[Value]) -> Table {
    let head = vec![
        Column::text("test"),
        Column::text("drive"),
        Column::number("throughput", Unit::BytesPerSecond),
        Column::number("IOPS", Unit::Rate),
        Column::number("mean", Unit::Ns),
        Column::number("median", Unit::Ns),
        Column::number("p99", Unit::Ns),
        Column::number("p99.999", Unit::Ns),
    ];
    let mut table = Table::new("Rows of other drives are published, not measured here", head);
    let cell = |run: &Value, path: &str| {
        let found = &run[path];
        match (number(found, "value"), number(found, "needed_more")) {
            (None, Some(more)) => Cell::withheld(Some(more)),
            _ => Cell::at(found, "value", Unit::Ns),
        }
    };
    for run in runs {
        let test = text(run, "test").unwrap_or("-");
        table.rows.push(vec![
            Cell::text(test),
            Cell::toned("this target", Tone::Good),
            Cell::at(run, "bytes_per_second", Unit::BytesPerSecond),
            Cell::at(run, "iops", Unit::Rate),
            Cell::at(run, "mean_ns", Unit::Ns),
            cell(run, "median_ns"),
            cell(run, "p99_ns"),
            cell(run, "p99.999_ns"),
        ]);
        table.rows.extend(list(run, "published").iter().map(|row| {
            vec![
                Cell::text(test),
                Cell::at(row, "drive", Unit::Plain),
                Cell::at(row, "bytes_per_second", Unit::BytesPerSecond),
                Cell::at(row, "iops", Unit::Rate),
                Cell::at(row, "mean_ns", Unit::Ns),
                Cell::at(row, "median_ns", Unit::Ns),
                Cell::at(row, "p99_ns", Unit::Ns),
                Cell::at(row, "p99.999_ns", Unit::Ns),
            ]
        }));
    }
    table
}
