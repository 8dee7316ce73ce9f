//! SNIA PTS 2.0.2, latency test.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::figures::Latency;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known};
use super::snia::{self, Cell};
use super::text;
use crate::output::table::Table;
use crate::run::Latencies;
use crate::stats::steady::{Search, Verdict, WINDOW};
use serde_json::json;
use std::collections::VecDeque;

/// Shares of reads in percent, in the order of the loop.
const MIXES: [u32; 3] = [100, 65, 0];
/// Sizes in bytes, in the order of the loop.
const SIZES: [u32; 3] = [8 << 10, 4 << 10, 512];
/// The tracking variable: the mean latency of 4 KiB writes.
const TRACKED: Cell = (0, 4 << 10);
/// Standard conditioning, the same as in the IOPS test.
const STANDARD: Conditioning = Conditioning { purge: true, sequential_passes: 2, random_passes: 0, fill_percent: 100 };

const WHAT: &str = "Mean, greatest and percentiles of the latency of 3 read/write mixes x 3 sizes with one I/O in flight in the \
                    steady state (SNIA SSS PTS 2.0.2, latency test).";

/// What was measured.
struct Found {
    cells: Vec<Cell>,
    /// For each round that may still be in the window, the latencies of each cell.
    rounds: VecDeque<Vec<Latencies>>,
    /// For each round, the mean latency of each cell in ns.
    means: Vec<Vec<f64>>,
    search: Search,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let search = Search::new(vec![format!("mean latency of {}", snia::name(TRACKED))]);
    let mut found = Found { cells: Vec::new(), rounds: VecDeque::new(), means: Vec::new(), search };
    known(measure(&mut session, &mut found))?;
    let report = found.search.report();
    snia::judge(&mut session, &report);
    let mut tables = vec![snia::table(&report, text::time)];
    let mut rows = Vec::new();
    for (at, &cell) in found.cells.iter().enumerate() {
        let mut all = Latencies::new();
        found.rounds.iter().for_each(|round| all.merge(&round[at]));
        rows.push((cell, Latency::new(&all, None, options.confidence)));
    }
    if !found.rounds.is_empty() {
        tables.push(table(&rows));
    }
    let json = json!({
        "steady_state": snia::window_json(&report, "ns"),
        "cells": rows.iter().enumerate().map(|(at, (cell, latency))| json!({
            "read_percent": cell.0,
            "size_bytes": cell.1,
            "window": if found.rounds.is_empty() { None } else { Some(latency.json()) },
            "rounds_mean_ns": found.means.iter().map(|round| round[at]).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    Ok(session.finish("snia-latency", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, found: &mut Found) -> Result<(), Halt> {
    let options = session.options;
    let cell_ns = options.point_ns(snia::CELL_NS);
    snia::tell(session, cell_ns, "the mean latency of 0/100 4 KiB");
    session.condition(
        "1 I/O in flight; percentiles are over the five rounds of the window, intervals as if I/Os were independent",
    );
    let sizes = snia::possible_sizes(session, &SIZES)?;
    prepare(session, Some(STANDARD))?;
    found.cells = MIXES.iter().flat_map(|&mix| sizes.iter().map(move |&size| (mix, size))).collect();
    loop {
        let number = found.means.len() + 1;
        let mut round = Vec::with_capacity(found.cells.len());
        for &cell in &found.cells {
            let step = format!("round {number} of at most 25: {}", snia::name(cell));
            round.push(session.one(&step, snia::job(session, cell, (1, 1), cell_ns))?.total());
        }
        found.means.push(round.iter().map(Latencies::mean_ns).collect());
        let tracked = found.cells.iter().position(|&cell| cell == TRACKED).map_or(f64::NAN, |at| round[at].mean_ns());
        found.rounds.push_back(round);
        if found.rounds.len() > WINDOW {
            found.rounds.pop_front();
        }
        if !matches!(found.search.push(&[tracked]), Ok(Verdict::NotYet)) {
            return Ok(());
        }
    }
}

fn table(rows: &[(Cell, Latency)]) -> Table {
    let head = ["mix and size", "IOPS at depth 1", "mean", "p50", "p99", "p99.9", "p99.999", "max"];
    let mut table = Table::new("latency over the window", 1, &head);
    for (cell, latency) in rows {
        let iops = if latency.mean_ns > 0.0 { text::rate(1e9 / latency.mean_ns) } else { "-".to_owned() };
        let mut row = vec![snia::name(*cell), iops, latency.mean_cell()];
        row.extend([50.0, 99.0].map(|percent| latency.cell(percent)));
        row.extend([99.9, 99.999].map(|percent| latency.bounded_cell(percent)));
        row.push(latency.max_cell());
        table.rows.push(row);
    }
    table
}
