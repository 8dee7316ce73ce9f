//! Runs every stream and size through every policy.

use super::patterns;
use super::requests::{BUILT_IN, Origin, Stream};
use super::staging::{Reads, events};
use crate::parallel::in_parallel;
use crate::traces;
use anyhow::{Result, bail};
use forebay_placement::cache::{Event, Policy, optimum_hits};
use std::collections::BTreeMap;

/// Default sizes in percent of the distinct blocks read.
const SIZES_PERCENT: [f64; 3] = [0.1, 1.0, 10.0];
/// Staged blocks in percent of the distinct blocks read, the same for every cache size: otherwise rows would also differ in which reads
/// count.
pub const STAGED_PERCENT: u64 = 10;
/// Distinct blocks to which the percentages of patterns refer.
const PATTERN_BLOCKS: u64 = 131_072;

/// What to run.
pub struct Plan {
    /// Traces in addition to the built-in streams.
    pub traces: Vec<String>,
    /// Whether only the traces run.
    pub without_built_in: bool,
    /// Sizes in percent of the distinct blocks read; empty uses the defaults.
    pub sizes_percent: Vec<f64>,
}

/// Result of a policy on a stream, in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub hits: u64,
    /// Blocks copied to the fast tier.
    pub fills: u64,
}

/// A row: a stream through caches of one size.
#[derive(Clone, Debug)]
pub struct Row {
    pub stream: String,
    pub origin: Origin,
    /// Which reads of the stream count.
    pub counted: Reads,
    pub size_percent: f64,
    pub places: u32,
    pub staged_blocks: u64,
    /// Number of distinct blocks read.
    pub read_blocks: u64,
    /// Number of block reads from the capacity tier.
    pub reads: u64,
    pub outcomes: BTreeMap<Policy, Outcome>,
    pub optimum_hits: u64,
}

/// Runs the plan on several threads.
///
/// # Errors
/// A trace cannot be read, or a size is impossible for a cache.
pub fn run(plan: &Plan, say: impl Fn(&str)) -> Result<Vec<Row>> {
    let sizes = if plan.sizes_percent.is_empty() { &SIZES_PERCENT[..] } else { &plan.sizes_percent };
    if let Some(percent) = sizes.iter().find(|percent| !(0.001..=100.0).contains(*percent)) {
        bail!("--cache-percent {percent}: 0.001 to 100");
    }
    let built_in: &[&str] = if plan.without_built_in { &[] } else { &BUILT_IN };
    // What cannot be read is found before the others take minutes.
    plan.traces.iter().try_for_each(|trace| traces::read_blocks(trace, |_| false))?;
    let mut rows = Vec::new();
    for name in built_in.iter().copied().chain(plan.traces.iter().map(String::as_str)) {
        say(name);
        let stream = Stream::read(name)?;
        rows.extend(rows_of(&stream, sizes, Reads::All));
        if stream.origin == Origin::Recorded && stream.going_on_inside() > 0 {
            rows.extend(rows_of(&stream, sizes, Reads::OnceBetweenRequests));
        }
    }
    if !plan.without_built_in {
        let load = patterns::load()?;
        for (name, pattern) in patterns::ALL {
            say(name);
            for &percent in sizes {
                let places = places(PATTERN_BLOCKS, percent);
                let stream = patterns::make(name, pattern, &load, places);
                rows.extend(rows_at(&stream, &[(percent, places)], Reads::All));
            }
        }
    }
    Ok(rows)
}

fn places(blocks: u64, percent: f64) -> u32 {
    ((blocks as f64 * percent / 100.0) as u32).max(1)
}

fn rows_of(stream: &Stream, sizes_percent: &[f64], counted: Reads) -> Vec<Row> {
    let sizes: Vec<_> = sizes_percent.iter().map(|&percent| (percent, places(stream.read_blocks, percent))).collect();
    rows_at(stream, &sizes, counted)
}

/// The rows for caches of these sizes.
fn rows_at(stream: &Stream, sizes: &[(f64, u32)], counted: Reads) -> Vec<Row> {
    let staged_blocks = stream.read_blocks * STAGED_PERCENT / 100;
    let events = events(stream, staged_blocks as usize, counted);
    let reads = events.iter().filter(|event| matches!(event, Event::Read(_))).count() as u64;
    // One cell for each policy, and one for the optimum.
    let with = Policy::ALL.into_iter().map(Some).chain([None]);
    let cells: Vec<_> =
        sizes.iter().flat_map(|&(_, places)| with.clone().map(move |policy| (places, policy))).collect();
    let outcomes = in_parallel(&cells, |&(places, policy)| match policy {
        Some(policy) => outcome(policy, &events, places),
        None => Outcome { hits: optimum_hits(&events, places), fills: 0 },
    });
    let of_size = outcomes.chunks(Policy::ALL.len() + 1);
    sizes
        .iter()
        .zip(of_size)
        .map(|(&(size_percent, places), outcomes)| Row {
            stream: stream.name.clone(),
            origin: stream.origin,
            counted,
            size_percent,
            places,
            staged_blocks,
            read_blocks: stream.read_blocks,
            reads,
            outcomes: Policy::ALL.into_iter().zip(outcomes.iter().copied()).collect(),
            optimum_hits: outcomes.last().map_or(0, |optimum| optimum.hits),
        })
        .collect()
}

fn outcome(policy: Policy, events: &[Event], places: u32) -> Outcome {
    let mut cache = policy.build(places);
    let mut outcome = Outcome::default();
    for event in events {
        match *event {
            Event::Read(key) if cache.read(key) => outcome.hits += 1,
            Event::Read(key) => outcome.fills += u64::from(cache.has_copy(key)),
            Event::Gone(key) => cache.remove(key),
        }
    }
    outcome
}
