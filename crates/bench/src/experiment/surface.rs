//! Throughput and latency over percent of reads, queue depth and fill level (S-PASS), with the conditioning state of each cell.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Figures;
use super::options::Options;
use super::prepare::{apply, can_trim, prepare};
use super::report::Report;
use super::session::{Halt, Session, known};
use super::text;
use crate::job::model::{End, Job, Mix};
use crate::output::table::Table;
use crate::run::JobResult;
use forebay_block::OpKind;
use serde_json::json;

/// Time of a cell in nanoseconds.
const CELL_NS: u64 = 10_000_000_000;

const WHAT: &str = "Throughput and latency over percent read, queue depth and fill level: what a device does where applications \
                    use it, not only at its corners (S-PASS, Shrout Research on the 800P).";

/// A cell.
struct Cell {
    fill_percent: u32,
    read_percent: u32,
    depth: u32,
    /// Bytes that cells have written since the fill, relative to the filled bytes: how much of the sequential fill has been overwritten.
    overwritten: f64,
    trimmed: bool,
    figures: Figures,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    if options.conditioning.is_some() {
        session.note("conditioning as asked comes before the first fill level; each fill level conditions again");
    }
    let mut cells = Vec::new();
    known(measure(&mut session, &mut cells))?;
    let mut tables = Vec::new();
    for &fill in &options.fills_percent {
        let here: Vec<&Cell> = cells.iter().filter(|cell| cell.fill_percent == fill).collect();
        if !here.is_empty() {
            tables.push(table(options, &here, format!("fill {fill} %: IOPS"), |figures| {
                let mark = if figures.is_limited_by_generator { "*" } else { "" };
                format!("{}{mark}", text::rate(figures.iops))
            }));
            tables.push(table(
                options,
                &here,
                format!("fill {fill} %: mean latency of reads (of all where there are none)"),
                |figures| figures.main().mean_cell(),
            ));
        }
    }
    let limited = cells.iter().filter(|cell| cell.figures.is_limited_by_generator).count();
    if limited > 0 {
        session.note(format!(
            "THE GENERATOR IS THE LIMIT in {limited} of {} cells, which are marked *: there the {} have no time left, and the rate is not the \
             target's; take more threads",
            cells.len(),
            if cells.iter().any(|cell| cell.figures.is_limited_by_modelled_host) {
                "modelled host's threads"
            } else {
                "threads that make the load"
            }
        ));
    }
    let json = json!({
        "cells": cells.iter().map(|cell| json!({
            "fill_percent": cell.fill_percent,
            "read_percent": cell.read_percent,
            "depth": cell.depth,
            "state": {
                "sequential_fills": 1,
                "rest_trimmed": cell.trimmed,
                "overwritten_by_cells_before": cell.overwritten,
            },
            "figures": cell.figures.json(),
        })).collect::<Vec<_>>(),
    });
    Ok(session.finish("surface", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, cells: &mut Vec<Cell>) -> Result<(), Halt> {
    let options = session.options;
    if options.conditioning.is_some() {
        prepare(session, None)?;
    }
    let point_ns = options.point_ns(CELL_NS);
    let warmup_ns = options.warmup_ns(point_ns);
    session.condition(format!("{} s a cell, I/O within the filled part only", text::digits(point_ns as f64 / 1e9)));
    session.condition(
        "before each fill level: the rest trimmed where the target can, the part up to the level written once \
         sequentially; cells in order of falling share of reads, and what they wrote since the fill is reported beside them",
    );
    session.note(
        "XPoint media needs power-on time instead of filling: at least 3 hours after a long power-off, for its faster \
         background refresh (P4800X evaluation guide)",
    );
    // Reads first, since they do not change the state.
    let mut mixes = options.mixes_percent.clone();
    mixes.sort_unstable_by(|a, b| b.cmp(a));
    mixes.dedup();
    let mut depths = options.depths.clone();
    depths.sort_unstable();
    depths.dedup();
    let all = options.fills_percent.len() * mixes.len() * depths.len();
    for &fill_percent in &options.fills_percent {
        let fill = Conditioning { purge: true, sequential_passes: 1, random_passes: 0, fill_percent };
        let done = apply(fill, session)?;
        session.condition(format!("fill {fill_percent} %: {done}"));
        let trimmed = can_trim(session)?;
        let filled = fill.filled_bytes(session.region.1);
        let mut written = 0;
        for &read_percent in &mixes {
            for &depth in &depths {
                let (threads, each) = options.in_flight(depth);
                let job = Job {
                    threads,
                    depth: each,
                    mix: Mix::reads_percent(read_percent),
                    region: session.part(filled),
                    end: End { after_ns: Some(point_ns), ..End::default() },
                    warmup_ns,
                    ..session.job(format!("fill-{fill_percent}-read-{read_percent}-depth-{depth}"))
                };
                let step = format!(
                    "fill {fill_percent} %, {read_percent} % reads, depth {depth} ({} of {all})",
                    cells.len() + 1
                );
                let result = session.one(&step, job)?;
                let figures = Figures::new(&result, options);
                let overwritten = written as f64 / filled.max(1) as f64;
                written += written_bytes(&result);
                cells.push(Cell { fill_percent, read_percent, depth, overwritten, trimmed, figures });
            }
        }
    }
    Ok(())
}

/// Bytes that a run wrote within its measurement. Its warm-up wrote more, at most a fifth of that.
fn written_bytes(result: &JobResult) -> u64 {
    result.kind(OpKind::Write).map_or(0, |writes| writes.bytes)
}

fn table(options: &Options, cells: &[&Cell], title: String, show: impl Fn(&Figures) -> String) -> Table {
    let mut depths: Vec<u32> = options.depths.clone();
    depths.sort_unstable();
    depths.dedup();
    let heads: Vec<String> = depths.iter().map(|depth| format!("depth {depth}")).collect();
    let mut head = vec!["read %"];
    head.extend(heads.iter().map(String::as_str));
    head.push("overwritten since fill");
    let mut table = Table::new(title, 0, &head);
    let mut mixes: Vec<u32> = cells.iter().map(|cell| cell.read_percent).collect();
    mixes.dedup();
    for mix in mixes {
        let row: Vec<&&Cell> = cells.iter().filter(|cell| cell.read_percent == mix).collect();
        let mut line = vec![mix.to_string()];
        for depth in &depths {
            let cell = row.iter().find(|cell| cell.depth == *depth);
            line.push(cell.map_or_else(|| "-".to_owned(), |cell| show(&cell.figures)));
        }
        let first = row.first().map_or(0.0, |cell| cell.overwritten);
        let last = row.last().map_or(0.0, |cell| cell.overwritten);
        line.push(if first == last { format!("{first:.2}x") } else { format!("{first:.2}x - {last:.2}x") });
        table.rows.push(line);
    }
    table
}
