//! The queue-depth sweep: throughput against latency with the depths on the line, and the figures at an application's depths.

use super::frame::{Section, framed};
use super::percentiles::{self, Named};
use super::texts::bounded;
use crate::fields::{at, is_set, list, number, text};
use crate::picture::Picture;
use crate::results::{Found, Kind};
use crate::svg::{Axis, Bar, Bars, Chart, Draw, Drawing, Form, LOOKS, Point, Series};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// Maximum number of points that are shown: far more than the octaves of any depth.
const POINTS_MAX: usize = 256;

/// Name of the experiment in results.
pub(super) const NAME: &str = "qd-sweep";

/// The section of one sweep. `all` are all results of the page: an analysis among them gives the depths of an application.
pub(super) fn of(found: &Found, all: &[Found]) -> Section {
    let value = &found.value;
    let target = text(value, "target").unwrap_or("an unnamed target");
    let mut section = framed(found, format!("Queue depth of {target}"));
    let result = found.experiment();
    facts(&mut section, result);
    section.notes.extend(left_out("the sweep", result));
    section.pictures.extend(curve(&[(target.to_owned(), result)]));
    section.pictures.extend(application(result));
    section.pictures.extend(all.iter().filter(|found| found.kind == Kind::Analysis).flat_map(depths));
    section.pictures.extend(by_depth(result));
    let latencies: Vec<Named<'_>> = points(result)
        .iter()
        .filter_map(latency)
        .enumerate()
        .map(|(look, (name, latency))| Named { name, latency, look })
        .collect();
    section.pictures.extend(percentiles::picture("Percentiles at each depth", &few(latencies), None));
    section
}

/// The points of a sweep that are shown.
fn points(result: &Value) -> &[Value] {
    let all = list(result, "points");
    &all[..all.len().min(POINTS_MAX)]
}

/// A sentence about the points that are left out; none where all are shown.
pub(super) fn left_out(name: &str, result: &Value) -> Option<String> {
    let all = list(result, "points").len();
    (all > POINTS_MAX).then(|| format!("Of {all} points of {name} the first {POINTS_MAX} are shown"))
}

fn facts(section: &mut Section, result: &Value) {
    let Some(found) = at(result, "saturation") else { return };
    if is_set(found, "limited_by_generator") {
        section.warnings.push(
            "At these depths the threads that make the load had no time left: the curve is the generator's, and where the target saturates is not known"
                .to_owned(),
        );
    }
    let is_saturated = is_saturated(result);
    let mut fact = |name: &str, cell: Cell| section.facts.push((name.to_owned(), cell));
    if is_saturated {
        fact("Saturation depth", Cell::at(found, "depth", Unit::Count));
        fact("IOPS there", Cell::at(found, "iops", Unit::Rate));
        fact("Mean latency there", Cell::at(found, "mean_ns", Unit::Ns));
    }
    fact("Greatest IOPS", Cell::at(found, "peak_iops", Unit::Rate));
    fact("Reads", Cell::at(result, "read_percent", Unit::Percent));
}

/// Whether the sweep reached the saturation of the target, and not that of the load generator.
fn is_saturated(result: &Value) -> bool {
    is_set(result, "saturation/reached") && !is_set(result, "saturation/limited_by_generator")
}

/// Curves of one sweep or several. A single sweep also shows its 99th percentile beside the mean.
pub(super) fn curve(sweeps: &[(String, &Value)]) -> Option<Picture> {
    let mut series = Vec::new();
    let mut table = Table::new("Throughput and latency by queue depth", head(sweeps.len() > 1));
    let mut legend = Vec::new();
    for (look, (name, result)) in sweeps.iter().enumerate() {
        let knee = number(result, "saturation/depth").filter(|_| is_saturated(result));
        let points = points(result);
        let mean: Vec<Point> =
            points.iter().filter_map(|point| on_curve(point, "mean_ns", "mean", knee, true)).collect();
        legend.push((look, if sweeps.len() == 1 { "mean".to_owned() } else { name.clone() }));
        series.push(Series { name: name.clone(), look, draw: Draw::Line, points: mean });
        if sweeps.len() == 1 {
            let slow: Vec<Point> =
                points.iter().filter_map(|point| on_curve(point, "p99_ns", "p99", None, false)).collect();
            if !slow.is_empty() {
                legend.push((1, "99th percentile".to_owned()));
                series.push(Series { name: "p99".to_owned(), look: 1, draw: Draw::Line, points: slow });
            }
        }
        table.rows.extend(points.iter().map(|point| row((sweeps.len() > 1).then_some(name), point, knee)));
    }
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let mut chart = Chart::new(
        Axis::new("I/Os a second", Unit::Rate, Form::FromZero),
        Axis::new("latency", Unit::Ns, Form::Log),
        series,
    );
    let mut about = "Throughput against latency; at each point stands the number of I/Os in flight.".to_owned();
    if let [(_, result)] = sweeps
        && let (Some(depth), Some(iops)) = (number(result, "saturation/depth"), number(result, "saturation/iops"))
        && is_saturated(result)
    {
        about.push_str(&format!(
            " The saturation depth, {depth}, is the lowest with 95 % of the peak: more I/Os in flight bring latency and no throughput."
        ));
        chart.marks.push((iops, format!("saturation depth {depth}")));
    }
    Some(Picture { legend, ..Picture::drawn("Throughput and latency", about, Drawing::Chart(chart), table) })
}

fn on_curve(point: &Value, path: &str, name: &str, knee: Option<f64>, labelled: bool) -> Option<Point> {
    let (depth, iops, ns) = (number(point, "depth")?, number(point, "iops")?, number(point, path)?);
    let interval = |end: &str| {
        let of = |entry: &&Value| number(entry, "percentile") == Some(99.0);
        list(point, "latency/all/percentiles").iter().find(of).and_then(|entry| number(entry, end))
    };
    let (low, high) = if name == "p99" { (interval("low_ns"), interval("high_ns")) } else { (None, None) };
    Some(Point {
        x: iops,
        y: ns,
        low,
        high,
        label: labelled.then(|| format!("{depth}")),
        say: format!("depth {depth}: {} IOPS, {name} {}", Unit::Rate.show(iops), bounded(ns, low, high, Unit::Ns)),
        marked: knee == Some(depth),
        after_gap: false,
    })
}

fn head(is_named: bool) -> Vec<Column> {
    let name = is_named.then(|| Column::text("run"));
    let columns = [
        Column::number("depth", Unit::Count),
        Column::number("reached", Unit::Plain),
        Column::number("IOPS", Unit::Rate),
        Column::number("throughput", Unit::BytesPerSecond),
        Column::number("mean", Unit::Ns),
        Column::number("p50", Unit::Ns),
        Column::number("p99", Unit::Ns),
        Column::number("p99.9", Unit::Ns),
        Column::number("max", Unit::Ns),
        Column::number("I/Os", Unit::Count),
        Column::text("Little's law"),
        Column::text(""),
    ];
    name.into_iter().chain(columns).collect()
}

fn row(name: Option<&String>, point: &Value, knee: Option<f64>) -> Vec<Cell> {
    let percentile = |path: &str, percent: f64| match number(point, path) {
        Some(_) => Cell::at(point, path, Unit::Ns),
        None => {
            let of = |entry: &&Value| number(entry, "percentile") == Some(percent);
            let entry = list(point, "latency/all/percentiles").iter().find(of);
            Cell::withheld(entry.and_then(|entry| number(entry, "samples_needed_more")))
        }
    };
    let law = text(point, "littles_law").unwrap_or("-");
    let mut mark = Vec::new();
    if knee.is_some() && number(point, "depth") == knee {
        mark.push("saturation");
    }
    if is_set(point, "limited_by_generator") {
        mark.push("the generator's limit");
    }
    let cells = [
        Cell::at(point, "depth", Unit::Count),
        Cell::at(point, "depth_mean", Unit::Plain),
        Cell::at(point, "iops", Unit::Rate),
        Cell::at(point, "bytes_per_second", Unit::BytesPerSecond),
        Cell::at(point, "mean_ns", Unit::Ns),
        percentile("p50_ns", 50.0),
        percentile("p99_ns", 99.0),
        percentile("p99.9_ns", 99.9),
        Cell::at(point, "max_ns", Unit::Ns),
        Cell::at(point, "ios", Unit::Count),
        Cell::toned(law, if law.starts_with("broken") { Tone::Bad } else { Tone::Plain }),
        Cell::text(mark.join(", ")),
    ];
    name.map(|name| Cell::text(name.clone())).into_iter().chain(cells).collect()
}

/// Percentiles over the depth.
fn by_depth(result: &Value) -> Option<Picture> {
    let levels = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];
    let series = levels.iter().enumerate().map(|(look, (name, percent))| {
        let points = points(result).iter().filter_map(|point| {
            let depth = number(point, "depth")?;
            let of = |entry: &&Value| number(entry, "percentile") == Some(*percent);
            let entry = list(point, "latency/all/percentiles").iter().find(of)?;
            let (y, low, high) = (number(entry, "value_ns")?, number(entry, "low_ns"), number(entry, "high_ns"));
            let say = format!("depth {depth}: {name} {}", bounded(y, low, high, Unit::Ns));
            Some(Point { x: depth, y, low, high, say, ..Point::default() })
        });
        Series { name: (*name).to_owned(), look, draw: Draw::Line, points: points.collect() }
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let legend = series.iter().map(|series| (series.look, series.name.clone())).collect();
    let mut table = Table::new(
        "Percentiles by depth",
        vec![
            Column::number("depth", Unit::Count),
            Column::text("percentile"),
            Column::number("latency", Unit::Ns),
            Column::interval("interval", Unit::Ns),
            Column::number("samples", Unit::Count),
            Column::number("worth independent ones", Unit::Count),
        ],
    );
    for point in points(result) {
        for entry in list(point, "latency/all/percentiles") {
            let percentile =
                number(entry, "percentile").map_or_else(|| "-".to_owned(), |percent| format!("p{percent}"));
            table.rows.push(vec![
                Cell::at(point, "depth", Unit::Count),
                Cell::text(percentile),
                match number(entry, "value_ns") {
                    Some(_) => Cell::at(entry, "value_ns", Unit::Ns),
                    None => Cell::withheld(number(entry, "samples_needed_more")),
                },
                Cell::interval(at(entry, "low_ns"), at(entry, "high_ns"), Unit::Ns),
                Cell::at(point, "latency/all/samples", Unit::Count),
                Cell::at(entry, "effective_samples", Unit::Plain),
            ]);
        }
    }
    let chart = Chart::new(
        Axis::new("I/Os in flight", Unit::Count, Form::Octaves),
        Axis::new("latency", Unit::Ns, Form::Log),
        series,
    );
    let about = "Percentiles of the latency over the queue depth, with their confidence intervals; those that too few samples would have to bear are withheld.";
    Some(Picture { legend, ..Picture::drawn("Latency by depth", about, Drawing::Chart(chart), table) })
}

fn latency(point: &Value) -> Option<(String, &Value)> {
    Some((format!("depth {}", number(point, "depth")?), at(point, "latency/all")?))
}

/// At most as many curves as there are looks: the first, the last, and some between.
fn few(all: Vec<Named<'_>>) -> Vec<Named<'_>> {
    let count = all.len();
    if count <= LOOKS {
        return all;
    }
    let wanted: Vec<usize> = (0..LOOKS).map(|at| at * (count - 1) / (LOOKS - 1)).collect();
    let kept = all.into_iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, named)| named);
    kept.enumerate().map(|(look, named)| Named { look, ..named }).collect()
}

/// The device's figures at the depths of an application, as the sweep itself computed them.
fn application(result: &Value) -> Option<Picture> {
    let found = at(result, "application")?;
    let rows = list(found, "depths");
    let bars = rows.iter().filter_map(|row| {
        let (depth, share) = (number(row, "depth")?, number(row, "share")?);
        Some(Bar {
            name: format!("depth {depth}"),
            value: share,
            say: format!("depth {depth}: {} of the I/Os", Unit::Share.show(share)),
            look: 0,
        })
    });
    let bars = Bars {
        title: "share of the application's I/Os".to_owned(),
        unit: Unit::Share,
        form: Form::FromZero,
        bars: bars.collect(),
    };
    let mut table = Table::new(
        "The application's depths",
        vec![
            Column::number("depth", Unit::Count),
            Column::number("share of I/Os", Unit::Share),
            Column::number("IOPS", Unit::Rate),
            Column::number("mean", Unit::Ns),
            Column::text("figures"),
        ],
    );
    table.rows.extend(rows.iter().map(|row| {
        vec![
            Cell::at(row, "depth", Unit::Count),
            Cell::at(row, "share", Unit::Share),
            Cell::at(row, "iops", Unit::Rate),
            Cell::at(row, "mean_ns", Unit::Ns),
            Cell::at(row, "source", Unit::Plain),
        ]
    }));
    let figure = |path: &str, unit: Unit| number(found, path).map_or_else(|| "-".to_owned(), |value| unit.show(value));
    let about = format!(
        "Where the application works on this curve: at its depths (mean {}) the device gives {} IOPS at a mean of {}.",
        figure("mean_depth", Unit::Plain),
        figure("iops", Unit::Rate),
        figure("mean_ns", Unit::Ns)
    );
    Some(Picture::drawn("At the application's depths", about, Drawing::Bars(bars), table))
}

/// Queue depths that the requests of a trace met.
pub(super) fn depths(found: &Found) -> Option<Picture> {
    let depths = list(&found.value, "report/depths").first()?;
    let name = text(&found.value, "trace").unwrap_or("a trace");
    // Each depth has its own entry at first, then the entries double in width.
    let entries: Vec<(f64, f64, f64)> = list(depths, "histogram")
        .iter()
        .filter_map(|entry| Some((entry.get(0)?.as_f64()?, entry.get(1)?.as_f64()?, entry.get(2)?.as_f64()?)))
        .collect();
    let deepest = entries.iter().map(|entry| entry.0).fold(0.0, f64::max);
    let (mut bars, mut first, mut last) = (Vec::new(), 1.0, 1.0);
    while first <= deepest && bars.len() < 40 {
        let share: f64 = entries.iter().filter(|entry| (first..=last).contains(&entry.0)).map(|entry| entry.1).sum();
        let name = if first == last { format!("depth {first}") } else { format!("{first} to {last}") };
        if share > 0.0 {
            bars.push(Bar {
                say: format!("{name}: {} of the requests", Unit::Share.show(share)),
                name,
                value: share,
                look: 0,
            });
        }
        (first, last) = (last + 1.0, if last < 8.0 { last + 1.0 } else { last * 2.0 });
    }
    if bars.is_empty() {
        return None;
    }
    let mut table = Table::new(
        "Depths",
        vec![
            Column::number("depth", Unit::Count),
            Column::number("share of requests", Unit::Share),
            Column::number("share of the busy time", Unit::Share),
        ],
    );
    table.rows.extend(list(depths, "histogram").iter().map(|entry| {
        vec![
            Cell::of(entry.get(0), Unit::Count),
            Cell::of(entry.get(1), Unit::Share),
            Cell::of(entry.get(2), Unit::Share),
        ]
    }));
    let figure = |path: &str| number(depths, path).map_or_else(|| "-".to_owned(), |value| Unit::Plain.show(value));
    let about = format!(
        "How many requests of {name} were in flight when one came, itself included: mean {}, median {}, 99 % at or below {}.",
        figure("mean"),
        figure("p50"),
        figure("p99")
    );
    let drawing = Bars { title: "share of the requests".to_owned(), unit: Unit::Share, form: Form::FromZero, bars };
    Some(Picture::drawn(format!("Depths of {name}"), about, Drawing::Bars(drawing), table))
}
