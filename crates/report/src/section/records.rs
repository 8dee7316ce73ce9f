//! Single I/Os: the fastest and the slowest of each part of the run, and windows that show every I/O.

use super::frame::Section;
use crate::picture::Picture;
use crate::records::{Io, Records, Window};
use crate::svg::{Axis, Chart, Draw, Drawing, Form, Point, Series};
use crate::table::{Cell, Column, Table, Tone};
use crate::unit::Unit;
use serde_json::json;

pub(super) fn of(records: &Records) -> Section {
    let mut section = Section {
        title: format!("Single I/Os of {}", records.name),
        file: records.name.clone(),
        command: records.command.clone(),
        ..Section::default()
    };
    section.about.push("Each point is an I/O: when it should have begun, and how long it took from then.".to_owned());
    section.notes.clone_from(&records.notes);
    let count = |count: u64| Cell::of(Some(&json!(count)), Unit::Count);
    section.facts.push(("I/Os".to_owned(), count(records.count)));
    if records.failed > 0 {
        section.warnings.push(format!("{} failed", forebay_block::figures::count(records.failed, "I/O")));
    }
    let extremes = records.extremes();
    let about = "The fastest and the slowest I/O of each two-hundredth of the run.";
    section.pictures.push(picture("Fastest and slowest", about, &extremes));
    section.pictures.extend(records.windows.iter().filter(|window| window.count > 0).map(window_picture));
    section
}

fn window_picture(window: &Window) -> Picture {
    let ios = window.ios();
    let about = if (ios.len() as u64) < window.count {
        format!("Of {} I/Os the {} nearest to its middle.", window.count, ios.len())
    } else {
        format!("All {} I/Os of it.", ios.len())
    };
    picture(&window.title, &about, &ios)
}

fn picture(title: &str, about: &str, ios: &[Io]) -> Picture {
    let mut kinds: Vec<&'static str> = Vec::new();
    for io in ios {
        if !kinds.contains(&io.kind) {
            kinds.push(io.kind);
        }
    }
    // A kind of I/O has the same look in all pictures.
    kinds.sort_unstable();
    let point = |io: &Io| {
        let ms = io.intended_ns as f64 / 1e6;
        let failed = if io.failed { ", FAILED" } else { "" };
        let say = format!(
            "{ms} ms: {} of {} at byte {}, depth {}: {}{failed}",
            io.kind,
            Unit::Bytes.show(f64::from(io.len_bytes)),
            io.offset_bytes,
            io.depth,
            Unit::Ns.show(io.latency_ns() as f64)
        );
        Point { x: ms, y: io.latency_ns() as f64, say, ..Point::default() }
    };
    let series = kinds.iter().enumerate().map(|(look, kind)| Series {
        name: (*kind).to_owned(),
        look,
        draw: Draw::Dots,
        points: ios.iter().filter(|io| io.kind == *kind).map(point).collect(),
    });
    let mut chart = Chart::new(
        Axis::new("time (ms)", Unit::Plain, Form::Linear),
        Axis::new("latency", Unit::Ns, Form::Log),
        series.collect(),
    );
    chart.zooms = true;
    let legend = kinds.iter().enumerate().map(|(look, kind)| (look, (*kind).to_owned())).collect();
    Picture { legend, ..Picture::drawn(title, about, Drawing::Chart(chart), table(ios)) }
}

fn table(ios: &[Io]) -> Table {
    let head = vec![
        Column::number("should have begun", Unit::Ns),
        Column::number("submitted", Unit::Ns),
        Column::number("completed", Unit::Ns),
        Column::number("latency", Unit::Ns),
        Column::text("kind"),
        Column::number("offset (bytes)", Unit::Count),
        Column::number("size", Unit::Bytes),
        Column::number("in flight", Unit::Count),
        Column::text("result"),
    ];
    let mut table = Table::new("Records, times since the run's begin", head);
    table.rows.extend(ios.iter().map(|io| {
        let number = |number: u64, unit: Unit| Cell::of(Some(&json!(number)), unit);
        vec![
            number(io.intended_ns, Unit::Ns),
            number(io.submitted_ns, Unit::Ns),
            number(io.completed_ns, Unit::Ns),
            number(io.latency_ns(), Unit::Ns),
            Cell::text(io.kind),
            number(io.offset_bytes, Unit::Count),
            number(u64::from(io.len_bytes), Unit::Bytes),
            number(u64::from(io.depth), Unit::Count),
            if io.failed { Cell::toned("failed", Tone::Bad) } else { Cell::text("good") },
        ]
    }));
    table
}
