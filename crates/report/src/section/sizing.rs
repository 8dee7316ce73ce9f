//! Size of the fast tier: alpha and endurance over the size, with the knee.

use super::frame::Section;
use crate::fields::{at, list, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Point, Series};
use crate::table::{Cell, Column, Table};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    let value = &found.value;
    let name = text(value, "trace").unwrap_or("a trace");
    let mut section = Section { title: format!("A fast tier for {name}"), ..Section::default() };
    section.notes.extend(texts(value, "notes").map(str::to_owned));
    if let Some(one_in) = number(value, "one_block_in").filter(|one_in| *one_in > 1.0) {
        section.warnings.push(format!("SAMPLED: one block in {one_in} was followed"));
    }
    let knee = at(value, "knee");
    match knee {
        Some(knee) => section.facts.extend([
            ("Knee".to_owned(), Cell::at(knee, "size_bytes", Unit::Bytes)),
            ("Alpha there".to_owned(), Cell::at(knee, "alpha", Unit::Share)),
            ("Drive writes a day there".to_owned(), Cell::at(knee, "edpwd", Unit::Plain)),
            ("Worn first".to_owned(), Cell::at(knee, "worn_first", Unit::Plain)),
        ]),
        None => section.notes.push("There is no knee".to_owned()),
    }
    section
        .facts
        .push(("All that is written fits in".to_owned(), Cell::at(value, "written_footprint_bytes", Unit::Bytes)));
    let pinned: Vec<&str> = knee.and_then(|knee| number(knee, "pinned")).map_or_else(Vec::new, |count| {
        list(value, "order").iter().take(count as usize).filter_map(|row| text(row, "name")).collect()
    });
    if !pinned.is_empty() {
        section.notes.push(format!("Pinned at the knee: {}", pinned.join(", ")));
    }
    let bypassed: Vec<&str> = list(value, "bypassed").iter().filter_map(|row| text(row, "name")).collect();
    if !bypassed.is_empty() {
        section.notes.push(format!("Straight to the capacity tier, by the rules' place: {}", bypassed.join(", ")));
    }
    let sizes = list(value, "sizes");
    section.pictures.extend(curve(
        sizes,
        knee,
        "Alpha by size of the fast tier",
        "Share of the writes that a fast tier of that size keeps from the capacity tier; rewrites, by which the knee is found, are those written over or discarded there.",
        ("share of the writes", Unit::Share),
        &[("alpha", "alpha"), ("rewrites", "rewrites"), ("alpha_pinned", "of pinned data")],
    ));
    let drives = format!("{} over {}", text(value, "fast").unwrap_or("-"), text(value, "capacity").unwrap_or("-"));
    section.pictures.extend(curve(
        sizes,
        knee,
        "Endurance by size of the fast tier",
        &format!("Drive writes a day of the capacity tier that hosts may write ({drives}); at most: where the share of what is staged that lets them write most passes the fast tier by."),
        ("drive writes a day", Unit::Plain),
        &[("edpwd", "all through the fast tier"), ("longest/edpwd", "at most")],
    ));
    section.pictures.extend(super::class_bars::bars(
        list(value, "order"),
        "beta",
        ("What can be pinned, in this order", "beta: written over occupied"),
        Unit::Plain,
        Form::Log,
    ));
    section
}

fn curve(
    sizes: &[Value],
    knee: Option<&Value>,
    title: &str,
    about: &str,
    (axis, unit): (&str, Unit),
    figures: &[(&str, &str)],
) -> Option<Picture> {
    let knee_bytes = knee.and_then(|knee| number(knee, "size_bytes"));
    let series = figures.iter().enumerate().map(|(look, (path, name))| {
        let points = sizes.iter().filter_map(|size| {
            let (x, y) = (number(size, "size_bytes")?, number(size, path)?);
            let half = number(size, "alpha_error").filter(|_| *path == "alpha");
            let (low, high) = (half.map(|half| y - half), half.map(|half| y + half));
            let say = format!("{}: {name} {}", Unit::Bytes.show(x), super::texts::bounded(y, low, high, unit));
            Some(Point { x, y, low, high, say, marked: look == 0 && knee_bytes == Some(x), ..Point::default() })
        });
        Series { name: (*name).to_owned(), look, draw: Draw::Line, points: points.collect() }
    });
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    if series.is_empty() {
        return None;
    }
    let legend = series.iter().map(|series| (series.look, series.name.clone())).collect();
    let mut chart = Chart::new(
        Axis::new("size of the fast tier", Unit::Bytes, Form::Octaves),
        Axis::new(axis, unit, Form::FromZero),
        series,
    );
    chart.marks.extend(knee_bytes.map(|bytes| (bytes, format!("knee {}", Unit::Bytes.show(bytes)))));
    let mut head = vec![Column::number("size", Unit::Bytes)];
    head.extend(figures.iter().map(|(_, name)| Column::number(*name, unit)));
    head.extend([
        Column::number("alpha +-", Unit::Share),
        Column::number("rows pinned", Unit::Count),
        Column::number("read hits", Unit::Share),
        Column::number("taken by the fast tier", Unit::Share),
        Column::text("worn first"),
    ]);
    let mut table = Table::new(title, head);
    table.rows.extend(sizes.iter().map(|size| {
        let mut cells = vec![Cell::at(size, "size_bytes", Unit::Bytes)];
        cells.extend(figures.iter().map(|(path, _)| Cell::at(size, path, unit)));
        cells.extend([
            Cell::at(size, "alpha_error", Unit::Share),
            Cell::at(size, "pinned", Unit::Count),
            Cell::at(size, "read_hit_ratio", Unit::Share),
            Cell::at(size, "fast_share", Unit::Share),
            Cell::at(size, "worn_first", Unit::Plain),
        ]);
        cells
    }));
    Some(Picture { legend, ..Picture::drawn(title, about, Drawing::Chart(chart), table) })
}
