//! SNIA PTS 2.0.2, IOPS test.

use super::conditioning::Conditioning;
use super::driver::Driver;
use super::error::ExperimentError;
use super::options::Options;
use super::prepare::prepare;
use super::report::Report;
use super::session::{Halt, Session, known, load_text};
use super::snia::{self, Cell};
use super::text;
use crate::output::table::Table;
use crate::stats::steady::{Search, Verdict, WINDOW};
use serde_json::json;

/// Shares of reads in percent, in the order of the loop.
const MIXES: [u32; 7] = [100, 95, 65, 50, 35, 5, 0];
/// Sizes in bytes, in the order of the loop.
const SIZES: [u32; 8] = [1 << 20, 128 << 10, 64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10, 512];
/// The tracking variables of PTS 2.0.2 (earlier versions use the first alone); all of them must be steady.
const TRACKED: [Cell; 3] = [(0, 4 << 10), (65, 64 << 10), (100, 1 << 20)];
/// Threads and depth that the PTS recommends for enterprise devices (2 x 16 for client devices).
const LOAD: (u32, u32) = (4, 32);
/// Standard conditioning: purge, then sequential writes of twice the capacity (workload independent preconditioning).
const STANDARD: Conditioning = Conditioning { purge: true, sequential_passes: 2, random_passes: 0, fill_percent: 100 };

const WHAT: &str = "IOPS of 7 read/write mixes x 8 sizes in the steady state (SNIA SSS PTS 2.0.2, IOPS test).";

/// IOPS of the cells of a round, in the order of the cells.
type Round = Vec<f64>;

/// What was measured.
struct Found {
    cells: Vec<Cell>,
    rounds: Vec<Round>,
    search: Search,
}

pub(super) fn run(driver: &mut dyn Driver, options: &Options) -> Result<Report, ExperimentError> {
    let mut session = Session::new(driver, options)?;
    let names = TRACKED.iter().map(|&cell| snia::name(cell)).collect();
    let mut found = Found { cells: Vec::new(), rounds: Vec::new(), search: Search::new(names) };
    known(measure(&mut session, &mut found))?;
    let report = found.search.report();
    snia::judge(&mut session, &report);
    let mut tables = vec![snia::table(&report, text::rate)];
    let last = found.rounds.len().saturating_sub(WINDOW);
    let window = &found.rounds[last..];
    let averages: Vec<f64> = (0..found.cells.len())
        .map(|cell| window.iter().map(|round| round[cell]).sum::<f64>() / window.len().max(1) as f64)
        .collect();
    if !window.is_empty() {
        tables.push(average_table(&found.cells, &averages));
    }
    let json = json!({
        "steady_state": snia::window_json(&report, "iops"),
        "cells": found.cells.iter().enumerate().map(|(at, cell)| json!({
            "read_percent": cell.0,
            "size_bytes": cell.1,
            "average_iops": if window.is_empty() { None } else { Some(averages[at]) },
            "rounds_iops": found.rounds.iter().map(|round| round[at]).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    Ok(session.finish("snia-iops", WHAT, tables, json))
}

fn measure(session: &mut Session<'_>, found: &mut Found) -> Result<(), Halt> {
    let options = session.options;
    let cell_ns = options.point_ns(snia::CELL_NS);
    let load = options.parallel(LOAD);
    snia::tell(session, cell_ns, "the IOPS of 0/100 4 KiB, 65/35 64 KiB and 100/0 1 MiB");
    session.condition(format!(
        "{}; the PTS recommends 4 x 32 (client devices: 2 x 16)",
        load_text(&snia::job(session, TRACKED[0], load, cell_ns))
    ));
    // This writes, so it comes before the purge, which removes its traces.
    let sizes = snia::possible_sizes(session, &SIZES)?;
    prepare(session, Some(STANDARD))?;
    found.cells = MIXES.iter().flat_map(|&mix| sizes.iter().map(move |&size| (mix, size))).collect();
    loop {
        let number = found.rounds.len() + 1;
        let mut round = Round::with_capacity(found.cells.len());
        for (at, &cell) in found.cells.iter().enumerate() {
            let step =
                format!("round {number} of at most 25: {} ({} of {})", snia::name(cell), at + 1, found.cells.len());
            let result = session.one(&step, snia::job(session, cell, load, cell_ns))?;
            round.push(result.iops());
        }
        let value =
            |tracked: &Cell| found.cells.iter().position(|cell| cell == tracked).map_or(f64::NAN, |at| round[at]);
        let values: Vec<f64> = TRACKED.iter().map(value).collect();
        found.rounds.push(round);
        if !matches!(found.search.push(&values), Ok(Verdict::NotYet)) {
            return Ok(());
        }
    }
}

fn average_table(cells: &[Cell], averages: &[f64]) -> Table {
    let heads: Vec<String> = MIXES.iter().map(|mix| format!("{mix}/{}", 100 - mix)).collect();
    let mut head = vec!["size"];
    head.extend(heads.iter().map(String::as_str));
    let mut table = Table::new("average IOPS over the window, by size and read/write mix", 1, &head);
    // Small sizes at the top, as in the report of the PTS.
    for &size in SIZES.iter().rev() {
        let mut row = vec![text::size(size.into())];
        for &mix in &MIXES {
            let at = cells.iter().position(|&cell| cell == (mix, size));
            row.push(at.map_or_else(|| "-".to_owned(), |at| text::rate(averages[at])));
        }
        table.rows.push(row);
    }
    table
}
