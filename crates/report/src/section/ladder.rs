//! A ladder of settings: the effect of each rung with intervals, and the figures themselves.

use super::frame::{Section, framed};
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Drawing, Estimate, Forest, Form, WITHHELD};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// Name of the experiment in results.
pub(super) const NAME: &str = "ladder";

pub(super) fn of(found: &Found) -> Section {
    let result = &found.value["result"];
    let target = text(&found.value, "target").unwrap_or("a target");
    let mut section = framed(found, format!("What settings cost: {target}"));
    let rungs = list(result, "rungs");
    let missing: Vec<&Value> = rungs.iter().filter(|rung| text(rung, "missing").is_some()).collect();
    section.facts.extend([
        ("Rungs".to_owned(), Cell::text((rungs.len() - missing.len()).to_string())),
        ("Not there".to_owned(), Cell::text(missing.len().to_string())),
        ("Rounds".to_owned(), Cell::at(result, "rounds", Unit::Count)),
    ]);
    let confidence = number(result, "confidence_percent").unwrap_or(95.0);
    for job in 0..rungs.iter().map(|rung| list(rung, "jobs").len()).max().unwrap_or(0) {
        let named = rungs.iter().find_map(|rung| text(list(rung, "jobs").get(job)?, "job"));
        let name = named.unwrap_or("-");
        section.pictures.push(effects(rungs, job, name, confidence));
        section.pictures.push(Picture::table(format!("{name}: figures"), figures(rungs, job)));
    }
    section.pictures.push(Picture::table("Rungs", about(rungs)));
    section
}

/// The effects of all rungs on a job's figures, as a picture with its table.
fn effects(rungs: &[Value], job: usize, name: &str, confidence: f64) -> Picture {
    let mut table = Table::new(
        format!("Over the rung below, intervals of {confidence} % that hold together"),
        vec![
            Column::text("rung"),
            Column::text("against"),
            Column::text("figure"),
            Column::number("ratio", Unit::Ratio),
            Column::interval("interval", Unit::Ratio),
            Column::text("effect"),
            Column::number("would have been shown", Unit::Ratio),
            Column::number("rounds needed", Unit::Count),
        ],
    );
    let mut rows = Vec::new();
    for rung in rungs {
        let (Some(against), Some(of_job)) = (text(rung, "against"), list(rung, "jobs").get(job)) else { continue };
        for (look, effect) in list(of_job, "effects").iter().enumerate() {
            let found = &effect["comparison"];
            let figure = text(effect, "figure").unwrap_or("-");
            let verdict = match text(found, "verdict") {
                Some("a better") => "slower",
                Some("b better") => "faster",
                other => other.or_else(|| text(effect, "not_compared")).unwrap_or("-"),
            };
            let (low, high) = (at(found, "ratio_low"), at(found, "ratio_high"));
            table.rows.push(vec![
                Cell::at(rung, "name", Unit::Plain),
                Cell::text(against),
                Cell::text(figure),
                Cell::at(found, "ratio", Unit::Ratio),
                Cell::interval(low, high, Unit::Ratio),
                Cell::toned(verdict, if matches!(verdict, "faster" | "slower") { Tone::Plain } else { Tone::Open }),
                Cell::at(found, "would_show", Unit::Ratio),
                Cell::at(found, "rounds_needed", Unit::Count),
            ]);
            let (value, low, high) = (number(found, "ratio"), number(found, "ratio_low"), number(found, "ratio_high"));
            let called = format!("{}: {figure}", text(rung, "name").unwrap_or("-"));
            let ratio =
                value.map_or_else(|| "-".to_owned(), |value| super::texts::bounded(value, low, high, Unit::Ratio));
            rows.push(Estimate {
                say: format!("{called} {ratio} of {against}: {verdict}"),
                name: called,
                value,
                low,
                high,
                absent: WITHHELD,
                look,
            });
        }
    }
    let forest = Forest {
        title: format!("{name}: latency over that of the rung below"),
        unit: Unit::Ratio,
        form: Form::Log,
        against: Some((1.0, "no difference".to_owned())),
        rows,
    };
    let says = "Left of the line a rung is faster than the one that it is held against. An interval that holds 1 shows no difference.";
    Picture::drawn(format!("{name}: what each rung changes"), says, Drawing::Forest(forest), table)
}

fn figures(rungs: &[Value], job: usize) -> Table {
    let mut table = Table::new(
        "Over all rounds",
        vec![
            Column::text("rung"),
            Column::number("mean", Unit::Ns),
            Column::number("published mean", Unit::Ns),
            Column::number("p99", Unit::Ns),
            Column::number("published p99", Unit::Ns),
            Column::number("p99.999", Unit::Ns),
            Column::number("max", Unit::Ns),
            Column::number("IOPS", Unit::Rate),
            Column::text("reached by"),
        ],
    );
    for rung in rungs {
        let Some(of_job) = list(rung, "jobs").get(job) else { continue };
        let ns = |key: &str| Cell::of(of_job.get(key), Unit::Ns);
        let published = |key: &str| Cell::of(of_job["published"].get(key), Unit::Ns);
        table.rows.push(vec![
            Cell::at(rung, "name", Unit::Plain),
            ns("mean_ns"),
            published("mean_ns"),
            ns("p99_ns"),
            published("p99_ns"),
            ns("p99.999_ns"),
            ns("max_ns"),
            Cell::at(of_job, "iops", Unit::Rate),
            Cell::at(of_job, "access", Unit::Plain),
        ]);
    }
    table
}

fn about(rungs: &[Value]) -> Table {
    let titles = ["rung", "what it is", "what it costs, and why", "what the change costs", "source", "not there"];
    let mut table = Table::new("In the order of the ladder", titles.map(Column::text).to_vec());
    let row = |rung: &Value| {
        ["name", "what", "cost", "price", "source", "missing"].map(|key| Cell::at(rung, key, Unit::Plain)).to_vec()
    };
    table.rows.extend(rungs.iter().map(row));
    table
}
