//! Jobs whose I/Os come from a generator: what they will do, known beforehand, and the feed that gives it.

use super::{Session, TraceReader};
use crate::output::{size, time};
use anyhow::{Context, Result, anyhow, bail};
use forebay_bench::job::model::{Arrival, Job, Mix, Pattern, Plan, SizeMix, Sizes};
use forebay_bench::replay::{Counts, Feed, Fit, Requests, Selection, survey};
use forebay_trace::generate;
use std::path::Path;
use std::sync::Arc;

/// Longest I/O that transfers data, in bytes; what kernels send to a drive at once, about.
pub const PIECE_BYTES: u32 = 1 << 20;

/// The generators as jobs, with what each shows in a line.
pub const PRESETS: [(&str, &str); 3] = [
    ("rocksdb", "a job: db_bench on XFS in the proportions of the published run, a log, merges and discards"),
    ("mongodb", "a job: WiredTiger's journal, flushed with every commit, and its checkpoints"),
    ("ycsb", "a job: YCSB's core workloads A to F, a record being a range of the target"),
];

/// The generator that the first word of `bench` names: `ycsb`, or `ycsb:?workload=b`.
pub fn preset(word: &Path) -> Option<String> {
    let word = word.to_str()?;
    let name = word.split_once(':').map_or(word, |(name, _)| name);
    PRESETS.iter().find(|(known, _)| *known == name)?;
    Some(if word.contains(':') { word.to_owned() } else { format!("{word}:") })
}

/// Reads beforehand what the generators of a plan will give, and fits them to the target: the names of their patterns
/// become whole, kinds and sizes of the jobs are those that occur. A note for each.
///
/// # Errors
/// A generator that is not understood, or more than the target holds.
pub fn prepare(session: &Session, plan: &mut Plan) -> Result<()> {
    for job in plan.groups.iter_mut().flatten() {
        let Pattern::Generated { name } = &job.pattern else { continue };
        let about = || format!("job {:?}: generator {name:?}", job.name);
        let shape = session.shape()?;
        let name = match generate::fitted(name, shape.0, job.seed) {
            Some(fitted) => fitted.with_context(about)?,
            None => {
                let known: Vec<String> = generate::NAMES.iter().map(|(name, _)| format!("{name}:")).collect();
                bail!("{}: there is none; there are {}", about(), known.join(", "));
            }
        };
        let (fit, selection) = (fit(shape), selection(job));
        let mut reader = TraceReader::open(&name, None, None, session.stop()).with_context(about)?;
        let counts = survey(&mut reader, &selection, &fit).map_err(|error| anyhow!(error)).with_context(about)?;
        if counts.beyond > 0 {
            bail!(
                "{}: reaches to byte {} ({}), the target has {} ({}): take a larger target{}",
                about(),
                counts.reach_bytes,
                size(counts.reach_bytes),
                fit.target_bytes,
                size(fit.target_bytes),
                if is_least(&name) { "" } else { ", or leave its scale or records out, which then fit" },
            );
        }
        if counts.all_ios() == 0 {
            bail!("{}: gives no I/Os", about());
        }
        plan.notes.push(note(&job.name, &name, &counts));
        job.pattern = Pattern::Generated { name };
        set(job, &counts);
    }
    Ok(())
}

/// Whether the name has the least scale that there is, so that leaving it out would not help.
fn is_least(name: &str) -> bool {
    generate::fitted(name.split_once('?').map_or(name, |(name, _)| name), 0, 1)
        .is_some_and(|least| least.is_ok_and(|least| scale_of(&least) == scale_of(name)))
}

fn scale_of(name: &str) -> Option<&str> {
    let (_, parameters) = name.split_once('?')?;
    parameters.split('&').find(|parameter| parameter.starts_with("scale=") || parameter.starts_with("records="))
}

/// Kinds and sizes as they occur.
pub fn set(job: &mut Job, counts: &Counts) {
    let longest = SizeMix::fixed(counts.longest_bytes.max(512));
    let percent = |ios: u64| ((ios as f64 * 100.0 / counts.all_ios() as f64).round() as u32).max(1);
    let weights = counts.kinds().map(|kind| (kind, percent(counts.ios[kind as usize]))).collect();
    job.mix = Mix { weights, flush_every: None };
    job.sizes = Sizes { read: longest.clone(), write: longest.clone(), trim: longest };
}

fn note(job: &str, name: &str, counts: &Counts) -> String {
    format!(
        "job {job:?}: {name} gives {} requests over {}, up to byte {} ({}); {} were split and {} widened to blocks of the \
         target",
        counts.requests,
        time(counts.span_ns()),
        counts.reach_bytes,
        size(counts.reach_bytes),
        counts.split,
        counts.rounded,
    )
}

/// The feed of a job whose I/Os a generator gives; none for other jobs. `shape` is the target's size and block.
///
/// # Errors
/// The system gives no more threads.
pub fn feed(job: &Job, shape: impl Fn() -> Result<(u64, u32)>) -> Result<Option<Feed>> {
    let Pattern::Generated { name } = &job.pattern else { return Ok(None) };
    let reader = TraceReader::open(name, None, None, &Arc::default())?;
    Ok(Some(Feed::new(Requests::new(reader, selection(job), fit(shape()?)))?))
}

fn fit((target_bytes, block_bytes): (u64, u32)) -> Fit {
    Fit { target_bytes, block_bytes, piece_bytes: PIECE_BYTES, wrap: false }
}

fn selection(job: &Job) -> Selection {
    let scale = if let Arrival::Recorded { speed } = job.arrival { speed } else { 1.0 };
    // A request is one I/O at least.
    Selection { limit: job.end.after_ios.unwrap_or(u64::MAX), scale, ..Selection::default() }
}
