//! A PRISM analysis of a trace: rows with alpha and beta, the effect of the size of a fast tier, and the depths of the requests.

use super::frame::Section;
use super::{class_bars, sweep, trace_over_time};
use crate::fields::{at, list, number, text, texts};
use crate::picture::Picture;
use crate::results::Found;
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Point, Series};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::Value;

pub(super) fn of(found: &Found) -> Section {
    match at(&found.value, "traces") {
        Some(_) => fleet(found),
        None => one(found),
    }
}

fn one(found: &Found) -> Section {
    let value = &found.value;
    let name = text(value, "trace").unwrap_or("a trace");
    let report = &value["report"];
    let mut section = Section { title: format!("{name} through the PRISM"), ..Section::default() };
    section.notes.extend(texts(value, "notes").map(str::to_owned));
    section.warnings.extend(text(value, "cut").map(|why| format!("CUT: it could not be read to its end: {why}")));
    if let Some(missing) = number(value, "faults/missing").filter(|missing| *missing > 0.0) {
        section
            .warnings
            .push(format!("{} missing from the recording", forebay_block::figures::count(missing as u64, "request")));
    }
    if let Some(faults) = number(value, "faults/count").filter(|faults| *faults > 0.0) {
        section.warnings.push(format!(
            "{} of the trace could not be read, and left out",
            forebay_block::figures::count(faults as u64, "part")
        ));
    }
    if let Some(one_in) = number(report, "one_block_in").filter(|one_in| *one_in > 1.0) {
        section.warnings.push(format!(
            "SAMPLED: one block in {one_in} was followed; curves have their errors, other figures of blocks (occupancy, beta, \
             lives, times between accesses, working sets) are estimates without"
        ));
    }
    section.facts.extend([
        ("Requests".to_owned(), Cell::at(value, "requests", Unit::Count)),
        ("Lasted".to_owned(), Cell::at(report, "duration_ns", Unit::Ns)),
        ("Touched".to_owned(), Cell::at(report, "footprint_bytes", Unit::Bytes)),
        ("Beta".to_owned(), Cell::at(report, "beta", Unit::Plain)),
        ("Writes of rows for the fast tier".to_owned(), Cell::at(report, "alpha_fast", Unit::Share)),
        ("Which take".to_owned(), Cell::at(report, "fast_bytes", Unit::Bytes)),
    ]);
    let rows = list(report, "rows");
    section.pictures.extend(class_bars::bars(
        rows,
        "alpha",
        ("Alpha", "share of the writes"),
        Unit::Share,
        Form::FromZero,
    ));
    section.pictures.extend(class_bars::bars(rows, "beta", ("Beta", "written over occupied"), Unit::Plain, Form::Log));
    section.pictures.push(Picture::table("The workload through the PRISM", workload(rows)));
    section.pictures.extend(curve(list(report, "curve"), number(report, "knee_bytes")));
    section.pictures.extend(trace_over_time::working_set(report));
    section.pictures.extend(trace_over_time::maps(report));
    section.pictures.extend(sweep::depths(found));
    section.pictures.push(operations(report));
    section.pictures.extend(spreads(report));
    section
}

fn workload(rows: &[Value]) -> Table {
    let head = vec![
        Column::text("data"),
        Column::text("class"),
        Column::number("occupancy", Unit::Bytes),
        Column::number("writes", Unit::Bytes),
        Column::number("alpha", Unit::Share),
        Column::number("beta", Unit::Plain),
        Column::number("reads", Unit::Bytes),
        Column::number("discarded", Unit::Bytes),
        Column::number("life p50", Unit::Ns),
        Column::number("read p50", Unit::Ns),
        Column::number("read p99", Unit::Ns),
        Column::number("write p50", Unit::Ns),
        Column::number("write p99", Unit::Ns),
    ];
    let mut table = Table::new("T temporary, M metadata, L log, H hot, X for the capacity tier", head);
    table.rows.extend(rows.iter().map(|row| {
        let letter = text(row, "letter").unwrap_or("-");
        vec![
            Cell::at(row, "name", Unit::Plain),
            Cell::toned(letter, if letter == "X" { Tone::Plain } else { Tone::Good }),
            Cell::at(row, "occupancy_bytes", Unit::Bytes),
            Cell::at(row, "written_bytes", Unit::Bytes),
            Cell::at(row, "alpha", Unit::Share),
            Cell::at(row, "beta", Unit::Plain),
            Cell::at(row, "read_bytes", Unit::Bytes),
            Cell::at(row, "discarded_bytes", Unit::Bytes),
            Cell::at(row, "life_ns/p50", Unit::Ns),
            Cell::at(row, "latency/read_ns/p50", Unit::Ns),
            Cell::at(row, "latency/read_ns/p99", Unit::Ns),
            Cell::at(row, "latency/write_ns/p50", Unit::Ns),
            Cell::at(row, "latency/write_ns/p99", Unit::Ns),
        ]
    }));
    table
}

/// Alpha and miss ratios over the size of the fast tier.
fn curve(curve: &[Value], knee_bytes: Option<f64>) -> Option<Picture> {
    let figures = [
        ("alpha", "alpha_error", "alpha: kept of the writes"),
        ("miss_ratio", "miss_ratio_error", "misses of all accesses (LRU)"),
        ("read_miss_ratio", "read_miss_ratio_error", "misses of reads (LRU)"),
    ];
    let series = figures.iter().enumerate().map(|(look, (path, error, name))| {
        let points = curve.iter().filter_map(|point| {
            let (x, y) = (number(point, "size_bytes")?, number(point, path)?);
            // The result gives half of the interval's width.
            let half = number(point, error);
            let (low, high) = (half.map(|half| y - half), half.map(|half| y + half));
            let error = half.map_or_else(String::new, |half| format!(" +- {:.1} points", half * 100.0));
            let say = format!("{}: {name} {}{error}", Unit::Bytes.show(x), Unit::Share.show(y));
            Some(Point { x, y, low, high, say, marked: look == 0 && knee_bytes == Some(x), ..Point::default() })
        });
        Series { name: (*name).to_owned(), look, draw: Draw::Line, points: points.collect() }
    });
    let mut series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    // Sizes by octaves and by shares of the footprint are in one list.
    series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    if series.is_empty() {
        return None;
    }
    let legend = series.iter().map(|series| (series.look, series.name.clone())).collect();
    let head = vec![
        Column::number("size", Unit::Bytes),
        Column::number("of what is touched", Unit::Percent),
        Column::number("alpha", Unit::Share),
        Column::number("+-", Unit::Share),
        Column::number("miss ratio", Unit::Ratio),
        Column::number("+-", Unit::Ratio),
        Column::number("of reads", Unit::Ratio),
        Column::number("+-", Unit::Ratio),
    ];
    let mut table =
        Table::new("By size of the fast tier; +- is half of the 95 % interval, where blocks were sampled", head);
    table.rows.extend(curve.iter().map(|point| {
        vec![
            Cell::at(point, "size_bytes", Unit::Bytes),
            Cell::at(point, "percent", Unit::Percent),
            Cell::at(point, "alpha", Unit::Share),
            Cell::at(point, "alpha_error", Unit::Share),
            Cell::at(point, "miss_ratio", Unit::Ratio),
            Cell::at(point, "miss_ratio_error", Unit::Ratio),
            Cell::at(point, "read_miss_ratio", Unit::Ratio),
            Cell::at(point, "read_miss_ratio_error", Unit::Ratio),
        ]
    }));
    let mut chart = Chart::new(
        Axis::new("size of the fast tier", Unit::Bytes, Form::Octaves),
        Axis::new("share", Unit::Share, Form::FromZero),
        series,
    );
    chart.marks.extend(knee_bytes.map(|bytes| (bytes, format!("knee {}", Unit::Bytes.show(bytes)))));
    let about = "What a fast tier of that size keeps of the writes where it stages writes alone, with the knee of that curve, and what an LRU cache misses.";
    Some(Picture { legend, ..Picture::drawn("By size of the fast tier", about, Drawing::Chart(chart), table) })
}

fn operations(report: &Value) -> Picture {
    let head = vec![
        Column::text("operation"),
        Column::number("requests", Unit::Count),
        Column::number("bytes", Unit::Bytes),
        Column::number("IOPS", Unit::Rate),
        Column::number("throughput", Unit::BytesPerSecond),
    ];
    let mut table = Table::new("Requests by operation", head);
    table.rows.extend(list(report, "operations").iter().map(|row| {
        vec![
            Cell::at(row, "op", Unit::Plain),
            Cell::at(row, "requests", Unit::Count),
            Cell::at(row, "bytes", Unit::Bytes),
            Cell::at(row, "requests_per_s", Unit::Rate),
            Cell::at(row, "bytes_per_s", Unit::BytesPerSecond),
        ]
    }));
    Picture::table("Operations", table)
}

/// Distributions of sizes and times, by quantiles.
fn spreads(report: &Value) -> Option<Picture> {
    let rows = [
        ("size of a read", "reads/sizes", Unit::Bytes),
        ("size of a write", "writes/sizes", Unit::Bytes),
        ("flush", "flush_ns", Unit::Ns),
        ("between requests", "gaps_ns", Unit::Ns),
        ("from a write of a block to the next, or to its discard", "overwrite_ns", Unit::Ns),
        ("written meanwhile", "overwrite_bytes", Unit::Bytes),
        ("from an access of a block to its next read", "reread_ns", Unit::Ns),
    ];
    let quantiles = ["mean", "p50", "p90", "p99", "p99_9", "max"];
    let head = ["what", "mean", "p50", "p90", "p99", "p99.9", "max"].map(Column::text);
    let mut table = Table::new("Sizes and times", head.to_vec());
    for (name, path, unit) in rows {
        if let Some(spread) = at(report, path) {
            let figures = quantiles.map(|quantile| Cell::at(spread, quantile, unit));
            table.rows.push([Cell::text(name)].into_iter().chain(figures).collect());
        }
    }
    (!table.rows.is_empty()).then(|| Picture::table("Sizes and times", table))
}

/// Many traces, one row each.
fn fleet(found: &Found) -> Section {
    let value = &found.value;
    let traces = list(value, "traces");
    let mut section = Section { title: format!("{} traces through the PRISM", traces.len()), ..Section::default() };
    section.warnings.extend(list(value, "left_out").iter().map(|left| {
        format!("{} was left out: {}", text(left, "trace").unwrap_or("-"), text(left, "why").unwrap_or("-"))
    }));
    let head = vec![
        Column::text("trace"),
        Column::number("requests", Unit::Count),
        Column::number("touched", Unit::Bytes),
        Column::number("beta", Unit::Plain),
        Column::number("alpha", Unit::Share),
        Column::number("fast tier", Unit::Bytes),
        Column::text("exact"),
    ];
    let mut table =
        Table::new("Alpha: share of the writes of rows for the fast tier, which take the size beside", head);
    table.rows.extend(traces.iter().map(|trace| {
        vec![
            Cell::at(trace, "trace", Unit::Plain),
            Cell::at(trace, "requests", Unit::Count),
            Cell::at(trace, "report/footprint_bytes", Unit::Bytes),
            Cell::at(trace, "report/beta", Unit::Plain),
            Cell::at(trace, "report/alpha_fast", Unit::Share),
            Cell::at(trace, "report/fast_bytes", Unit::Bytes),
            Cell::at(trace, "exact", Unit::Plain),
        ]
    }));
    section.pictures.push(Picture::table("Traces", table));
    section
}
