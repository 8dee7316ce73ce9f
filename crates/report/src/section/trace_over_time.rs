//! A trace over time: its working set in slices of time, and the regions of its volumes that requests went to.

use super::over_time::with_gaps;
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Heat, Point, Series};
use crate::table::{Cell, Column, ROWS_MAX, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

/// Maximum number of slices and of regions.
const SIDE_MAX: usize = 64;
/// Maximum number of volumes whose maps are drawn.
const VOLUMES_MAX: usize = 4;
/// Shown for a figure that an analysis withholds of a slice.
const NOT_KNOWN: &str = "not known: none of them in the sample";

/// The time scale of an analysis: nanoseconds, or the number of earlier requests.
struct Time<'a> {
    slices: &'a [Value],
    length: f64,
    has_clock: bool,
}

impl<'a> Time<'a> {
    fn of(report: &'a Value) -> Option<Self> {
        let found = at(report, "over_time")?;
        let slices = list(found, "slices");
        let (ns, requests) = (number(found, "slice_ns"), number(found, "slice_requests"));
        let slices = &slices[..slices.len().min(SIDE_MAX)];
        Some(Self { slices, length: ns.or(requests)?, has_clock: ns.is_some() })
    }

    fn unit(&self) -> Unit {
        if self.has_clock { Unit::Ns } else { Unit::Count }
    }

    /// Column for the starts of slices.
    fn column(&self) -> Column {
        Column::number(if self.has_clock { "from" } else { "from request" }, self.unit())
    }

    /// The time axis, and the factor from the result's time to the axis's unit.
    fn axis(&self) -> (Axis, f64) {
        match self.has_clock {
            true => (Axis::new("time (s)", Unit::Plain, Form::Linear), 1e-9),
            false => (Axis::new("requests", Unit::Plain, Form::Linear), 1.0),
        }
    }

    fn words(&self) -> String {
        let length = self.unit().show(self.length);
        if self.has_clock { length } else { format!("{length} requests, since the trace has no times") }
    }
}

/// Distinct blocks in each slice.
pub(super) fn working_set(report: &Value) -> Option<Picture> {
    let time = Time::of(report)?;
    let figures = [
        ("all", "block_bytes", "touched"),
        ("reads", "block_bytes", "read"),
        ("writes", "block_bytes", "written"),
        ("all", "new_block_bytes", "new, or discarded before"),
    ];
    let (axis, by) = time.axis();
    let series = figures.iter().enumerate().map(|(look, (of, path, name))| {
        let point = |slice: &Value| {
            let begin = number(slice, "begin")?;
            let y = number(slice, &format!("{of}/{path}"))?;
            let say = format!("from {}: {} {name}", time.unit().show(begin), Unit::Bytes.show(y));
            Some(Point { x: (begin + time.length / 2.0) * by, y, say, ..Point::default() })
        };
        Series {
            name: (*name).to_owned(),
            look,
            draw: Draw::QuietLine,
            points: with_gaps(time.slices.iter().map(point)),
        }
    });
    let series: Vec<Series> = series.collect();
    if series.iter().all(|series| series.points.is_empty()) {
        return None;
    }
    let legend = series.iter().map(|series| (series.look, series.name.clone())).collect();
    let mut chart = Chart::new(axis, Axis::new("distinct blocks", Unit::Bytes, Form::FromZero), series);
    chart.zooms = true;
    let mut about = format!(
        "Distinct blocks of 4 KiB that were touched in each slice of {}, and those of them that nobody had touched before, or not since their discard. The last slice ends with the trace.",
        time.words()
    );
    if number(report, "one_block_in").is_some_and(|one_in| one_in > 1.0) {
        about.push_str(" Estimates from a sample of the blocks; where none of those that were touched is in the sample, no line is drawn.");
    }
    Some(Picture { legend, ..Picture::drawn("Working set over time", about, Drawing::Chart(chart), slices(&time)) })
}

fn slices(time: &Time<'_>) -> Table {
    let mut head = vec![time.column(), Column::number("requests", Unit::Count)];
    let parts = [("all", "touched"), ("reads", "read"), ("writes", "written")];
    for (_, name) in parts {
        head.extend([
            Column::number(format!("blocks {name}"), Unit::Bytes),
            Column::number("new of them", Unit::Bytes),
            Column::number(format!("bytes {}", if name == "touched" { "moved" } else { name }), Unit::Bytes),
        ]);
    }
    let mut table = Table::new("Slices", head);
    let blocks = |of: &Value, path: &str| match (at(of, path), number(of, "moved_bytes")) {
        (None, Some(_)) => Cell::toned(NOT_KNOWN, Tone::Open),
        _ => Cell::at(of, path, Unit::Bytes),
    };
    table.rows.extend(time.slices.iter().map(|slice| {
        let mut cells = vec![Cell::at(slice, "begin", time.unit()), Cell::at(slice, "requests", Unit::Count)];
        for (of, _) in parts {
            let of = at(slice, of).unwrap_or(&Value::Null);
            cells.extend([
                blocks(of, "block_bytes"),
                blocks(of, "new_block_bytes"),
                Cell::at(of, "moved_bytes", Unit::Bytes),
            ]);
        }
        cells
    }));
    table
}

/// The maps of the volumes: reads, writes, and totals of the regions.
pub(super) fn maps(report: &Value) -> Vec<Picture> {
    let Some(time) = Time::of(report) else { return Vec::new() };
    let volumes = list(report, "over_time/volumes");
    let mut pictures: Vec<Picture> = volumes.iter().take(VOLUMES_MAX).flat_map(|map| volume(&time, map)).collect();
    if let (Some(last), true) = (pictures.last_mut(), volumes.len() > VOLUMES_MAX) {
        last.notes.push(format!(
            "Of {} volumes the {VOLUMES_MAX} with most bytes have maps here; the result has all.",
            volumes.len()
        ));
    }
    pictures
}

/// A cell of a map with the bytes moved.
#[derive(Clone, Copy)]
struct Moved<'a> {
    slice: usize,
    region: usize,
    bytes: f64,
    /// The number as in the result.
    value: &'a Value,
}

/// A cell of the result, with the number at index `place`; none where no bytes were moved.
fn moved(cell: &Value, place: usize) -> Option<Moved<'_>> {
    let index = |at: usize| cell.get(at).and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
    let value = cell.get(place)?;
    let bytes = value.as_f64().filter(|bytes| *bytes > 0.0)?;
    Some(Moved { slice: index(0)?, region: index(1)?, bytes, value })
}

fn volume(time: &Time<'_>, map: &Value) -> Vec<Picture> {
    let regions = list(map, "regions");
    let regions = &regions[..regions.len().min(SIDE_MAX)];
    let name = match map.get("volume") {
        Some(Value::Null) => ", all other volumes".to_owned(),
        _ => text(map, "volume").filter(|name| !name.is_empty()).map_or_else(String::new, |name| format!(", {name}")),
    };
    let mut pictures = Vec::new();
    for (what, place) in [("Reads", 2), ("Writes", 3)] {
        let found = list(map, "cells").iter().filter_map(|cell| moved(cell, place));
        let cells: Vec<Moved<'_>> =
            found.filter(|cell| cell.slice < time.slices.len() && cell.region < regions.len()).collect();
        if !cells.is_empty() {
            pictures.push(heat(time, map, regions, &cells, &format!("{what} over time and place{name}")));
        }
    }
    pictures.push(Picture::table(format!("Regions{name}"), sums(regions)));
    pictures
}

fn heat(time: &Time<'_>, map: &Value, regions: &[Value], cells: &[Moved<'_>], title: &str) -> Picture {
    let mut values = vec![vec![None; time.slices.len()]; regions.len()];
    for cell in cells {
        values[cell.region][cell.slice] = Some(cell.bytes);
    }
    let shown =
        |value: &Value, path: &str, unit: Unit| number(value, path).map_or_else(String::new, |found| unit.show(found));
    let most = cells.iter().fold(0.0, |most: f64, cell| most.max(cell.bytes));
    let heat = Heat {
        title: format!("bytes, at most {} in a cell", Unit::Bytes.show(most)),
        across: if time.has_clock { "from" } else { "from request" }.to_owned(),
        down: "offset".to_owned(),
        unit: Unit::Bytes,
        columns: time.slices.iter().map(|slice| shown(slice, "begin", time.unit())).collect(),
        rows: regions.iter().map(|region| shown(region, "begin_bytes", Unit::Bytes)).collect(),
        values,
        is_log: true,
    };
    let about = format!(
        "Bytes of each slice of {} and each region of {}; the more the stronger the colour, by the logarithm. Where nothing is drawn none were moved.",
        time.words(),
        shown(map, "region_bytes", Unit::Bytes)
    );
    let head = vec![time.column(), Column::number("offset", Unit::Bytes), Column::number("bytes", Unit::Bytes)];
    // Readers look for the fullest cells: those stay where the table has too little room.
    let mut wanted = cells.to_vec();
    let mut caption = "Cells in which bytes were moved".to_owned();
    if wanted.len() > ROWS_MAX {
        caption = format!("The {ROWS_MAX} fullest of {} cells in which bytes were moved", wanted.len());
        wanted.sort_by(|a, b| b.bytes.total_cmp(&a.bytes));
        wanted.truncate(ROWS_MAX);
        wanted.sort_by_key(|cell| (cell.slice, cell.region));
    }
    let mut table = Table::new(caption, head);
    table.rows.extend(wanted.iter().map(|cell| {
        vec![
            Cell::at(&time.slices[cell.slice], "begin", time.unit()),
            Cell::at(&regions[cell.region], "begin_bytes", Unit::Bytes),
            Cell::of(Some(cell.value), Unit::Bytes),
        ]
    }));
    Picture::drawn(title, about, Drawing::Heat(heat), table)
}

fn sums(regions: &[Value]) -> Table {
    let head = vec![
        Column::number("offset", Unit::Bytes),
        Column::number("read", Unit::Bytes),
        Column::number("written", Unit::Bytes),
    ];
    let mut table = Table::new("Bytes of each region over all of the time", head);
    table.rows.extend(regions.iter().map(|region| {
        ["begin_bytes", "read_bytes", "written_bytes"].map(|path| Cell::at(region, path, Unit::Bytes)).to_vec()
    }));
    table
}
