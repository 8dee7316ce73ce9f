//! Jobs whose I/Os come from a generator, and the feed that supplies the I/Os.

use super::hint_book::{HintBook, HintWriter};
use super::trace::TraceReader;
use anyhow::Result;
use forebay_bench::job::model::{Arrival, Job, Mix, Pattern, SizeMix, Sizes};
use forebay_bench::replay::{Counts, Feed, Fit, Requests, Selection};
use std::path::Path;
use std::sync::Arc;

/// Maximum size of an I/O with data, in bytes; about the size that kernels send to a drive at once.
pub const PIECE_BYTES: u32 = 1 << 20;

/// The generators as jobs, with a line of description.
pub const PRESETS: [(&str, &str); 4] = [
    ("rocksdb", "a job: db_bench on XFS in the proportions of the published run, a log, merges and discards"),
    ("mongodb", "a job: WiredTiger's journal, flushed with every commit, and its checkpoints"),
    ("ycsb", "a job: YCSB's core workloads A to F, a record being a range of the target"),
    ("zipf", "a job: writes of blocks by Zipf's law of any skew; who is hot may change"),
];

/// The generator that the first word of `bench` names: `ycsb`, or `ycsb:?workload=b`.
pub fn preset(word: &Path) -> Option<String> {
    let word = word.to_str()?;
    let name = word.split_once(':').map_or(word, |(name, _)| name);
    PRESETS.iter().find(|(known, _)| *known == name)?;
    Some(if word.contains(':') { word.to_owned() } else { format!("{word}:") })
}

/// Sets the job's kinds and sizes to those that the generator produces.
pub fn set(job: &mut Job, counts: &Counts) {
    let longest = SizeMix::fixed(counts.longest_bytes.max(512));
    let percent = |ios: u64| ((ios as f64 * 100.0 / counts.all_ios() as f64).round() as u32).max(1);
    let weights = counts.kinds().map(|kind| (kind, percent(counts.ios[kind as usize]))).collect();
    job.mix = Mix { weights, flush_every: None };
    job.sizes = Sizes { read: longest.clone(), write: longest.clone(), trim: longest };
}

/// The feed of a job with a generator; none for other jobs. `shape` returns size and block of the target. `book` is the hint book of a
/// pool, which receives as much evidence as the job sets.
///
/// # Errors
/// The system gives no more threads.
pub fn feed(job: &Job, shape: impl Fn() -> Result<(u64, u32)>, book: Option<&Arc<HintBook>>) -> Result<Option<Feed>> {
    let Pattern::Generated { name } = &job.pattern else { return Ok(None) };
    let hints = book.and_then(|book| HintWriter::new(job.evidence, book));
    let reader = TraceReader::telling(name, None, None, hints, &Arc::default())?;
    Ok(Some(Feed::new(Requests::new(reader, selection(job), fit(shape()?)))?))
}

/// How requests are fitted to a target with this size and block.
pub(super) fn fit((target_bytes, block_bytes): (u64, u32)) -> Fit {
    Fit { target_bytes, block_bytes, piece_bytes: PIECE_BYTES, wrap: false }
}

/// The requests that a job takes from its generator.
pub(super) fn selection(job: &Job) -> Selection {
    let scale = if let Arrival::Recorded { speed } = job.arrival { speed } else { 1.0 };
    // Every request becomes at least one I/O.
    Selection { limit: job.end.after_ios.unwrap_or(u64::MAX), scale, ..Selection::default() }
}
