//! Fill level, share of reads and queue depth: a grid for each fill level and figure.

use super::frame::{Section, framed};
use crate::fields::{at, list, number, text};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Drawing, Heat};
use crate::table::{Cell, Column, Table};
use crate::unit::Unit;
use serde_json::Value;

/// Maximum number of fill levels that are drawn.
const FILLS_MAX: usize = 12;
/// Maximum number of depths and of read shares in a grid; further ones are left out.
const SIDE_MAX: usize = 12;

/// Name of the experiment in results.
pub(super) const NAME: &str = "surface";

pub(super) fn of(found: &Found) -> Section {
    let target = text(&found.value, "target").unwrap_or("an unnamed target");
    let mut section = framed(found, format!("Surface of {target}"));
    let cells = list(found.experiment(), "cells");
    let mut fills = distinct(cells, "fill_percent");
    if fills.len() > FILLS_MAX {
        section.notes.push(format!("Of {} degrees of fill the first {FILLS_MAX} are drawn", fills.len()));
    }
    fills.truncate(FILLS_MAX);
    for fill in fills {
        let here: Vec<&Value> = cells.iter().filter(|cell| number(cell, "fill_percent") == Some(fill)).collect();
        section.pictures.push(grid(fill, &here, "IOPS", "figures/iops", Unit::Rate));
        section.pictures.push(grid(fill, &here, "mean latency", "figures/mean_ns", Unit::Ns));
    }
    section.pictures.push(all(cells));
    section
}

fn distinct<'a>(cells: impl IntoIterator<Item = &'a Value>, path: &str) -> Vec<f64> {
    let mut values: Vec<f64> = cells.into_iter().filter_map(|cell| number(cell, path)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn grid(fill: f64, cells: &[&Value], what: &str, path: &str, unit: Unit) -> Picture {
    let mut depths = distinct(cells.iter().copied(), "depth");
    let mut reads = distinct(cells.iter().copied(), "read_percent");
    let drawn = |what: &str, all: usize| format!(" Of {all} {what} the first {SIDE_MAX} are drawn; the table has all.");
    let left_out = [("depths", depths.len()), ("shares of reads", reads.len())];
    let left_out: String =
        left_out.iter().filter(|(_, all)| *all > SIDE_MAX).map(|(what, all)| drawn(what, *all)).collect();
    depths.truncate(SIDE_MAX);
    reads.truncate(SIDE_MAX);
    let value = |depth: f64, read: f64| {
        let is_here =
            |cell: &&&Value| number(cell, "depth") == Some(depth) && number(cell, "read_percent") == Some(read);
        cells.iter().find(is_here).and_then(|cell| number(cell, path))
    };
    let values: Vec<Vec<Option<f64>>> =
        depths.iter().map(|depth| reads.iter().map(|read| value(*depth, *read)).collect()).collect();
    let heat = Heat {
        title: what.to_owned(),
        across: "reads (%)".to_owned(),
        down: "depth".to_owned(),
        unit,
        columns: reads.iter().map(|read| format!("{read}")).collect(),
        rows: depths.iter().map(|depth| format!("{depth}")).collect(),
        values,
        is_log: true,
    };
    let head = vec![
        Column::number("depth", Unit::Count),
        Column::number("reads (%)", Unit::Count),
        Column::number(what, unit),
    ];
    let mut table = Table::new(format!("{what} at {fill} % full"), head);
    table.rows.extend(cells.iter().map(|cell| {
        vec![
            Cell::at(cell, "depth", Unit::Count),
            Cell::at(cell, "read_percent", Unit::Count),
            Cell::at(cell, path, unit),
        ]
    }));
    let about = format!(
        "{what} over queue depth and share of reads, {fill} % full; the larger the stronger the colour, by the logarithm.{left_out}"
    );
    Picture::drawn(format!("{fill} % full: {what}"), about, Drawing::Heat(heat), table)
}

fn all(cells: &[Value]) -> Picture {
    let head = vec![
        Column::number("full (%)", Unit::Count),
        Column::number("reads (%)", Unit::Count),
        Column::number("depth", Unit::Count),
        Column::number("IOPS", Unit::Rate),
        Column::number("mean", Unit::Ns),
        Column::number("p99", Unit::Ns),
        Column::number("p99.9", Unit::Ns),
        Column::number("max", Unit::Ns),
        Column::number("I/Os", Unit::Count),
        Column::number("overwritten before", Unit::Plain),
    ];
    let mut table = Table::new("All cells, in the order in which they were measured", head);
    let percentile = |cell: &Value, path: &str| match at(cell, path) {
        Some(_) => Cell::at(cell, path, Unit::Ns),
        None => Cell::withheld(None),
    };
    table.rows.extend(cells.iter().map(|cell| {
        vec![
            Cell::at(cell, "fill_percent", Unit::Count),
            Cell::at(cell, "read_percent", Unit::Count),
            Cell::at(cell, "depth", Unit::Count),
            Cell::at(cell, "figures/iops", Unit::Rate),
            Cell::at(cell, "figures/mean_ns", Unit::Ns),
            percentile(cell, "figures/p99_ns"),
            percentile(cell, "figures/p99.9_ns"),
            Cell::at(cell, "figures/max_ns", Unit::Ns),
            Cell::at(cell, "figures/ios", Unit::Count),
            Cell::at(cell, "state/overwritten_by_cells_before", Unit::Plain),
        ]
    }));
    Picture::table("All cells", table)
}
