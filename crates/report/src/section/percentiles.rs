//! Percentile curves: latency over the number of nines, with intervals. A withheld percentile is a grey part of the axis, never a line.

use super::texts::bounded;
use crate::fields::{at, list, number};
use crate::picture::Picture;
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Point, Series, Withheld};
use crate::table::{Cell, Column, Table};
use crate::unit::Unit;
use serde_json::Value;

/// Latencies with a name, such as of reads, of a depth or of a run. Jobs and experiments use different field names.
pub(super) struct Named<'a> {
    pub(super) name: String,
    /// Object with `samples`, `mean`, `max` and `percentiles`.
    pub(super) latency: &'a Value,
    pub(super) look: usize,
}

/// Field names of a percentile.
struct Names {
    value: &'static str,
    low: &'static str,
    high: &'static str,
}

const OF_JOBS: Names = Names { value: "value", low: "low", high: "high" };
const OF_EXPERIMENTS: Names = Names { value: "value_ns", low: "low_ns", high: "high_ns" };

/// The field names that this entry uses.
fn names(entry: &Value) -> &'static Names {
    if entry.get("value_ns").is_some() { &OF_EXPERIMENTS } else { &OF_JOBS }
}

/// The picture; none where no latency has percentiles.
pub(super) fn picture(title: impl Into<String>, all: &[Named<'_>], confidence_percent: Option<f64>) -> Option<Picture> {
    let series: Vec<Series> = all.iter().map(series).collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let mut chart = Chart::new(
        Axis::new("percentile", Unit::Percent, Form::Nines),
        Axis::new("latency", Unit::Ns, Form::Log),
        series,
    );
    chart.withheld = withheld(all);
    let band = confidence_percent.map_or_else(
        || "Areas and bars are confidence intervals".to_owned(),
        |percent| format!("Areas and bars are {percent} % confidence intervals"),
    );
    let about = format!(
        "Latency that so many percent of the I/Os do not exceed. {band}; percentiles that too few samples would have to bear are withheld."
    );
    let legend = all.iter().map(|named| (named.look, named.name.clone())).collect();
    let picture = Picture::drawn(title, about, Drawing::Chart(chart), table(all));
    Some(Picture { legend, ..picture })
}

fn series(named: &Named<'_>) -> Series {
    let points = list(named.latency, "percentiles").iter().filter_map(|entry| {
        let of = names(entry);
        let (percentile, value) = (number(entry, "percentile")?, number(entry, of.value)?);
        let (low, high) = (number(entry, of.low), number(entry, of.high));
        let say = format!("{}: p{percentile} {}", named.name, bounded(value, low, high, Unit::Ns));
        Some(Point { x: percentile, y: value, low, high, say, ..Point::default() })
    });
    Series { name: named.name.clone(), look: named.look, draw: Draw::Line, points: points.collect() }
}

/// The part of the axis between the highest percentile shown and the highest one withheld; none where nothing above the shown is withheld.
fn withheld(all: &[Named<'_>]) -> Option<Withheld> {
    let entries = || all.iter().flat_map(|named| list(named.latency, "percentiles"));
    let is_shown = |entry: &&Value| number(entry, names(entry).value).is_some();
    let deepest = |entries: &mut dyn Iterator<Item = &Value>| {
        entries.filter_map(|entry| number(entry, "percentile")).fold(f64::NAN, f64::max)
    };
    let from = deepest(&mut entries().filter(is_shown));
    let to = deepest(&mut entries().filter(|entry| !is_shown(entry)));
    (to > from).then(|| Withheld { from, to, words: "withheld: too few samples".to_owned() })
}

fn table(all: &[Named<'_>]) -> Table {
    let head = vec![
        Column::text("of"),
        Column::text("figure"),
        Column::number("latency", Unit::Ns),
        Column::interval("interval", Unit::Ns),
        Column::number("samples", Unit::Count),
        Column::number("worth independent ones", Unit::Count),
    ];
    let mut table = Table::new("Latencies and their intervals", head);
    for named in all {
        let latency = named.latency;
        let mean = if at(latency, "mean_ns").is_some() { "mean_ns" } else { "mean" };
        let max = if at(latency, "max_ns").is_some() { "max_ns" } else { "max" };
        let plain = |figure: &str, path: &str| {
            vec![
                Cell::text(named.name.clone()),
                Cell::text(figure),
                Cell::at(latency, path, Unit::Ns),
                Cell::text("-"),
                Cell::at(latency, "samples", Unit::Count),
                Cell::text("-"),
            ]
        };
        if at(latency, "min").is_some() {
            table.rows.push(plain("min", "min"));
        }
        table.rows.push(plain("mean", mean));
        for entry in list(latency, "percentiles") {
            let of = names(entry);
            let value = match number(entry, of.value) {
                Some(_) => Cell::at(entry, of.value, Unit::Ns),
                None => Cell::withheld(number(entry, "samples_needed_more")),
            };
            table.rows.push(vec![
                Cell::text(named.name.clone()),
                Cell::text(
                    number(entry, "percentile").map_or_else(|| "-".to_owned(), |percentile| format!("p{percentile}")),
                ),
                value,
                Cell::interval(at(entry, of.low), at(entry, of.high), Unit::Ns),
                Cell::at(latency, "samples", Unit::Count),
                Cell::at(entry, "effective_samples", Unit::Plain),
            ]);
        }
        table.rows.push(plain("max", max));
    }
    table
}
