//! A run over time: latencies and throughput of its intervals, and its steady part.

use crate::fields::{at, number};
use crate::picture::Picture;
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Point, Series};
use crate::table::{Cell, Column, ROWS_MAX, Table};
use crate::unit::Unit;
use serde_json::Value;

/// Parts into which a longer run is divided; each part keeps its least and greatest point.
const PARTS: usize = 200;

/// Access to the fields of a result's intervals.
pub(super) struct Rows<'a> {
    pub(super) rows: &'a [Value],
    /// Start in seconds since the run began.
    pub(super) begin_s: fn(&Value) -> Option<f64>,
    pub(super) length_s: fn(&Value) -> Option<f64>,
    /// Path and name of each latency, slowest last.
    pub(super) latencies: &'a [(&'static str, &'static str)],
}

/// The steady part of the run.
pub(super) struct Steady {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
}

impl Rows<'_> {
    /// The rows that are drawn. A last interval that the end of the run cut short has little meaning and is only in the table.
    fn drawn(&self) -> &[Value] {
        let length = |row: Option<&Value>| row.and_then(|row| (self.length_s)(row));
        match (length(self.rows.first()), length(self.rows.last())) {
            (Some(first), Some(last)) if self.rows.len() > 2 && last < first / 2.0 => &self.rows[..self.rows.len() - 1],
            _ => self.rows,
        }
    }
}

/// Latency over time; none for fewer than two intervals.
pub(super) fn latency(title: impl Into<String>, rows: &Rows<'_>, steady: Option<&Steady>) -> Option<Picture> {
    let of = |(look, (path, name)): (usize, &(&'static str, &'static str))| {
        let point = |row: &Value| {
            let (x, y) = (middle(rows, row)?, number(row, path)?);
            let say = format!("{} s: {name} {}", seconds(x), Unit::Ns.show(y));
            Some(Point { x, y, say, ..Point::default() })
        };
        let points = with_gaps(rows.drawn().iter().map(point));
        let draw = if *name == "max" { Draw::Dots } else { Draw::QuietLine };
        Series { name: (*name).to_owned(), look, draw, points: reduced(points) }
    };
    let series: Vec<Series> =
        rows.latencies.iter().enumerate().map(of).filter(|series| !series.points.is_empty()).collect();
    draw(title.into(), "Latency of the intervals of the run.", ("latency", Unit::Ns, Form::Log), series, rows, steady)
}

/// I/Os a second over time.
pub(super) fn rate(title: impl Into<String>, rows: &Rows<'_>, steady: Option<&Steady>) -> Option<Picture> {
    let point = |row: &Value| {
        let length = (rows.length_s)(row).filter(|length| *length > 0.0)?;
        let (x, y) = (middle(rows, row)?, number(row, "ios")? / length);
        // A length of next to nothing, which no real run has, would give an infinite rate.
        if !y.is_finite() {
            return None;
        }
        let say = format!("{} s: {} IOPS", seconds(x), Unit::Rate.show(y));
        Some(Point { x, y, say, ..Point::default() })
    };
    let points = with_gaps(rows.drawn().iter().map(point));
    let series = Series { name: "IOPS".to_owned(), look: 0, draw: Draw::QuietLine, points: reduced(points) };
    let what = "I/Os a second in the intervals of the run.";
    draw(title.into(), what, ("IOPS", Unit::Rate, Form::FromZero), vec![series], rows, steady)
}

fn draw(
    title: String,
    what: &str,
    (name, unit, form): (&str, Unit, Form),
    series: Vec<Series>,
    rows: &Rows<'_>,
    steady: Option<&Steady>,
) -> Option<Picture> {
    if rows.rows.len() < 2 || series.iter().all(|series| series.points.len() < 2) {
        return None;
    }
    let legend = series.iter().map(|series| (series.look, series.name.clone())).collect();
    let drawn = series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let mut about = what.to_owned();
    if rows.drawn().len() < rows.rows.len() {
        about.push_str(" The last, which the end of the run cut short, stands in the table alone.");
    }
    if drawn < rows.drawn().len() {
        about.push_str(&format!(
            " Of {} intervals the least and the greatest of each of {PARTS} parts are drawn.",
            rows.rows.len()
        ));
    }
    let mut chart = Chart::new(Axis::new("time (s)", Unit::Plain, Form::Linear), Axis::new(name, unit, form), series);
    chart.zooms = true;
    if let Some(steady) = steady {
        chart.span = Some((steady.from_s, steady.to_s, "steady".to_owned()));
        about.push_str(&format!(
            " Steady by SNIA's rule from {} s on: five equal parts differ by at most 20 %, and their line rises or falls by at most 10 %.",
            seconds(steady.from_s)
        ));
    }
    Some(Picture { legend, ..Picture::drawn(title, about, Drawing::Chart(chart), table(rows)) })
}

fn middle(rows: &Rows<'_>, row: &Value) -> Option<f64> {
    Some((rows.begin_s)(row)? + (rows.length_s)(row).unwrap_or(0.0) / 2.0)
}

fn seconds(value: f64) -> String {
    format!("{}", (value * 1e6).round() / 1e6)
}

/// The points with a value; a point after rows without a value is marked as following a gap.
pub(super) fn with_gaps(points: impl Iterator<Item = Option<Point>>) -> Vec<Point> {
    let (mut found, mut is_gap) = (Vec::<Point>::new(), false);
    for point in points {
        match point {
            Some(point) => {
                found.push(Point { after_gap: is_gap && !found.is_empty(), ..point });
                is_gap = false;
            }
            None => is_gap = true,
        }
    }
    found
}

/// Points in order of time, reduced to the least and the greatest of each part of the time.
pub(super) fn reduced(points: Vec<Point>) -> Vec<Point> {
    if points.len() <= 2 * PARTS {
        return points;
    }
    let each = points.len().div_ceil(PARTS);
    let mut kept = Vec::with_capacity(2 * PARTS);
    let mut is_gap = false;
    for part in points.chunks(each) {
        let by = |a: &(usize, &Point), b: &(usize, &Point)| a.1.y.total_cmp(&b.1.y);
        let (Some(least), Some(most)) = (part.iter().enumerate().min_by(by), part.iter().enumerate().max_by(by)) else {
            continue;
        };
        let mut ends = [least, most];
        ends.sort_by_key(|end| end.0);
        let count = if least.0 == most.0 { 1 } else { 2 };
        // A gap between two kept points stays, even where the point that followed it was dropped.
        let has_gap = |from: usize, to: usize| part[from..=to].iter().any(|point| point.after_gap);
        let mut from = 0;
        for (at, end) in &ends[..count] {
            kept.push(Point { after_gap: has_gap(from, *at) || std::mem::take(&mut is_gap), ..(*end).clone() });
            from = at + 1;
        }
        is_gap = from < part.len() && has_gap(from, part.len() - 1);
    }
    kept
}

fn table(rows: &Rows<'_>) -> Table {
    // Jobs give seconds, experiments nanoseconds; the column's unit follows the field that the rows have.
    let unit_of = |seconds: &str| {
        if rows.rows.iter().any(|row| at(row, seconds).is_some()) { Unit::Seconds } else { Unit::Ns }
    };
    let mut head = vec![
        Column::number("begin", unit_of("begin_s")),
        Column::number("length", unit_of("length_s")),
        Column::number("I/Os", Unit::Count),
    ];
    head.extend(rows.latencies.iter().map(|(_, name)| Column::number(*name, Unit::Ns)));
    head.push(Column::number("failed", Unit::Count));
    let of = |names: &[&str], row: &Value, unit| {
        names
            .iter()
            .find(|name| at(row, name).is_some())
            .map_or_else(|| Cell::text("-"), |name| Cell::at(row, name, unit))
    };
    let time = |row: &Value, seconds: &str, ns: &str| match at(row, seconds) {
        Some(_) => Cell::at(row, seconds, Unit::Seconds),
        None => Cell::at(row, ns, Unit::Ns),
    };
    let row = |row: &Value| {
        let mut cells = vec![
            time(row, "begin_s", "begin_ns"),
            time(row, "length_s", "length_ns"),
            Cell::at(row, "ios", Unit::Count),
        ];
        cells.extend(rows.latencies.iter().map(|(path, _)| match number(row, path) {
            None if number(row, "ios").is_some_and(|ios| ios > 0.0) => Cell::withheld(None),
            _ => Cell::at(row, path, Unit::Ns),
        }));
        cells.push(of(&["errors", "failures"], row, Unit::Count));
        cells
    };
    // Readers look for the slowest intervals: those stay where the table has too little room.
    let mut wanted: Vec<usize> = (0..rows.rows.len()).collect();
    let mut caption = "Intervals of the run".to_owned();
    if wanted.len() > ROWS_MAX {
        let slowest = rows.latencies.last().map_or("", |(path, _)| path);
        let of = |at: usize| number(&rows.rows[at], slowest).unwrap_or(0.0);
        wanted.sort_by(|a, b| of(*b).total_cmp(&of(*a)));
        wanted.truncate(ROWS_MAX);
        wanted.sort_unstable();
        caption = format!("The {ROWS_MAX} slowest of {} intervals", rows.rows.len());
    }
    let mut table = Table::new(caption, head);
    table.rows = wanted.into_iter().map(|at| row(&rows.rows[at])).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_points_the_extremes_stay_and_none_is_made_up() {
        let y = |at: usize| {
            if at == 7_777 {
                1e9
            } else if at == 5_000 {
                1.0
            } else {
                1e4 + (at % 97) as f64
            }
        };
        let all: Vec<Point> = (0..10_000).map(|at| Point { x: at as f64, y: y(at), ..Point::default() }).collect();
        let kept = reduced(all);
        assert!(kept.len() <= 2 * PARTS, "{}", kept.len());
        assert!(kept.iter().all(|point| y(point.x as usize) == point.y));
        assert!(kept.iter().any(|point| point.y == 1e9) && kept.iter().any(|point| point.y == 1.0));
        assert!(kept.windows(2).all(|pair| pair[0].x < pair[1].x), "in the order of time");
    }
}
