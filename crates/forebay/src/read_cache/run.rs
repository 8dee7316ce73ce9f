//! Every stream and size through every policy.

use super::requests::{BUILT_IN, Stream};
use super::staging::events;
use crate::parallel::in_parallel;
use anyhow::{Result, bail};
use forebay_placement::cache::{Event, Policy, optimum_hits};
use std::collections::BTreeMap;

/// Sizes where nothing else is asked for, in percent of the blocks that are read.
const SIZES_PERCENT: [f64; 3] = [0.1, 1.0, 10.0];

/// What is run.
pub struct Plan {
    /// Traces beside the built-in streams.
    pub traces: Vec<String>,
    /// Only the traces.
    pub without_built_in: bool,
    /// Sizes in percent of the blocks that are read; none: the usual ones.
    pub sizes_percent: Vec<f64>,
}

/// A row: a stream through caches of a size.
#[derive(Clone, Debug)]
pub struct Row {
    pub stream: String,
    pub size_percent: f64,
    pub places: u32,
    /// Different blocks that are read.
    pub read_blocks: u64,
    /// Reads of blocks of the capacity tier.
    pub reads: u64,
    pub hits: BTreeMap<Policy, u64>,
    pub optimum_hits: u64,
}

/// Runs all of it, on several threads.
///
/// # Errors
/// A trace that cannot be read; a size that no cache can have.
pub fn run(plan: &Plan, say: impl Fn(&str)) -> Result<Vec<Row>> {
    let sizes = if plan.sizes_percent.is_empty() { &SIZES_PERCENT[..] } else { &plan.sizes_percent };
    if let Some(percent) = sizes.iter().find(|percent| !(0.001..=100.0).contains(*percent)) {
        bail!("--cache-percent {percent}: 0.001 to 100");
    }
    let built_in: &[&str] = if plan.without_built_in { &[] } else { &BUILT_IN };
    let names = built_in.iter().map(|name| (*name).to_owned()).chain(plan.traces.iter().cloned());
    let mut rows = Vec::new();
    for name in names {
        say(&name);
        let stream = Stream::read(&name)?;
        rows.extend(in_parallel(sizes, |&percent| row(&stream, percent)));
    }
    Ok(rows)
}

fn row(stream: &Stream, size_percent: f64) -> Row {
    let places = ((stream.read_blocks as f64 * size_percent / 100.0) as u32).max(1);
    // The fast tier is shared out in halves: as many blocks are staged as may have copies.
    let events = events(&stream.accesses, places);
    Row {
        stream: stream.name.clone(),
        size_percent,
        places,
        read_blocks: stream.read_blocks,
        reads: events.iter().filter(|event| matches!(event, Event::Read(_))).count() as u64,
        hits: Policy::ALL.map(|policy| (policy, hits(policy, &events, places))).into(),
        optimum_hits: optimum_hits(&events, places),
    }
}

fn hits(policy: Policy, events: &[Event], places: u32) -> u64 {
    let mut cache = policy.build(places);
    let mut hits = 0;
    for event in events {
        match *event {
            Event::Read(key) => hits += u64::from(cache.read(key)),
            Event::Gone(key) => cache.remove(key),
        }
    }
    hits
}
