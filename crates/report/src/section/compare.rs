//! A comparison in interleaved rounds: the ratio of each figure with its interval, and the rounds themselves.

use super::frame::{Section, framed};
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Axis, Chart, Draw, Drawing, Estimate, Forest, Form, Point, Series, WITHHELD};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// Figures whose rounds are drawn.
const ROUNDS_SHOWN: usize = 6;

/// Name of the experiment in results.
pub(super) const NAME: &str = "compare";

pub(super) fn of(found: &Found) -> Section {
    let result = &found.value["result"];
    let (a, b) = (text(result, "a").unwrap_or("A"), text(result, "b").unwrap_or("B"));
    let mut section = framed(found, format!("{a} against {b}"));
    section.facts.extend([
        ("A".to_owned(), Cell::text(a)),
        ("B".to_owned(), Cell::text(b)),
        ("Rounds".to_owned(), Cell::at(result, "rounds", Unit::Count)),
    ]);
    let figures = list(result, "figures");
    let confidence = number(result, "confidence_percent").unwrap_or(95.0);
    let ratios = ratios(figures, confidence);
    let verdicts = Picture::table("Verdicts", ratios.table.clone());
    section.pictures.extend([ratios, verdicts]);
    section.pictures.extend(figures.iter().take(ROUNDS_SHOWN).filter_map(rounds));
    section
}

fn called(figure: &Value) -> String {
    let (a, b) = (text(figure, "job_a").unwrap_or("-"), text(figure, "job_b").unwrap_or("-"));
    let job = if a == b { a.to_owned() } else { format!("{a}/{b}") };
    format!("{job}: {}", text(figure, "figure").unwrap_or("-"))
}

fn unit(figure: &Value) -> Unit {
    if text(figure, "unit") == Some("iops") { Unit::Rate } else { Unit::Ns }
}

fn ratios(figures: &[Value], confidence: f64) -> Picture {
    let mut table = Table::new(
        format!("B over A, intervals of {confidence} % that hold together"),
        vec![
            Column::text("figure"),
            Column::text("A"),
            Column::text("B"),
            Column::number("B / A", Unit::Ratio),
            Column::interval("interval", Unit::Ratio),
            Column::text("verdict"),
            Column::number("would have been shown", Unit::Ratio),
            Column::number("rounds needed", Unit::Count),
        ],
    );
    let mut rows = Vec::new();
    for figure in figures {
        let found = &figure["comparison"];
        let verdict = text(found, "verdict").or_else(|| text(figure, "not_compared")).unwrap_or("-");
        let (low, high) = (at(found, "ratio_low"), at(found, "ratio_high"));
        table.rows.push(vec![
            Cell::text(called(figure)),
            Cell::at(found, "a", unit(figure)),
            Cell::at(found, "b", unit(figure)),
            Cell::at(found, "ratio", Unit::Ratio),
            Cell::interval(low, high, Unit::Ratio),
            Cell::toned(verdict, if verdict.ends_with("better") { Tone::Plain } else { Tone::Open }),
            Cell::at(found, "would_show", Unit::Ratio),
            Cell::at(found, "rounds_needed", Unit::Count),
        ]);
        let (value, low, high) = (number(found, "ratio"), number(found, "ratio_low"), number(found, "ratio_high"));
        let ratio = value.map_or_else(|| "-".to_owned(), |value| super::texts::bounded(value, low, high, Unit::Ratio));
        rows.push(Estimate {
            name: called(figure),
            value,
            low,
            high,
            say: format!("{}: B / A {ratio}: {verdict}", called(figure)),
            absent: WITHHELD,
            look: usize::from(text(figure, "unit") != Some("iops")),
        });
    }
    let forest = Forest {
        title: "B over A".to_owned(),
        unit: Unit::Ratio,
        form: Form::Log,
        against: Some((1.0, "no difference".to_owned())),
        rows,
    };
    let about = "Each figure of B over that of A. An interval that holds 1 shows no difference. More IOPS are better, less latency is.";
    Picture::drawn("B over A", about, Drawing::Forest(forest), table)
}

/// The values of both sides in each round.
fn rounds(figure: &Value) -> Option<Picture> {
    let (unit, name) = (unit(figure), called(figure));
    let mut table = Table::new(
        format!("{name} by round"),
        vec![Column::text("round"), Column::number("A", unit), Column::number("B", unit)],
    );
    let (a, b) = (list(figure, "rounds_a"), list(figure, "rounds_b"));
    table.rows.extend(
        a.iter().zip(b).enumerate().map(|(at, (a, b))| {
            vec![Cell::text(format!("{}", at + 1)), Cell::of(Some(a), unit), Cell::of(Some(b), unit)]
        }),
    );
    let series = [("A", a), ("B", b)].into_iter().enumerate().map(|(look, (side, values))| {
        let points = values.iter().enumerate().filter_map(|(at, value)| {
            let (round, y) = (at + 1, value.as_f64()?);
            Some(Point {
                x: round as f64,
                y,
                say: format!("round {round}: {side} {}", unit.show(y)),
                ..Point::default()
            })
        });
        Series { name: side.to_owned(), look, draw: Draw::Line, points: super::over_time::reduced(points.collect()) }
    });
    let series: Vec<Series> = series.collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let chart = Chart::new(
        Axis::new("round", Unit::Count, Form::Linear),
        Axis::new(name.clone(), unit, Form::FromZero),
        series,
    );
    let about = "Both sides in each round; only what differs within rounds counts.";
    let picture = Picture::drawn(format!("{name} by round"), about, Drawing::Chart(chart), table);
    Some(Picture { legend: vec![(0, "A".to_owned()), (1, "B".to_owned())], ..picture })
}
