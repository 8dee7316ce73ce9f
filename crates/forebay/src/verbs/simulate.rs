//! `forebay simulate`: lives of pools in virtual time, until one breaks a promise.

use super::schema;
use crate::cli::SimulateOptions;
use crate::measure::Live;
use crate::output::{self, Format};
use anyhow::{Context, Result, bail};
use forebay_daemon::finding::finding;
use forebay_sim::fault::FaultKind;
use forebay_sim::{Coverage, Failure, MARKS, Scenario, live, shrink};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of log lines shown of a failing life.
const LOG_LINES: usize = 200;
/// Maximum length of a campaign: a year.
const MINUTES_MAX: f64 = 366.0 * 24.0 * 60.0;
/// Interval of progress reports on a terminal.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Runs the lives and reports what they met.
///
/// # Errors
/// A finding where a promise was broken.
pub fn run(options: &SimulateOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("simulate");
    }
    if options.threads == Some(0) {
        bail!("--threads 0: at least 1");
    }
    if options.seed.is_none() {
        refuse_no_lives(options)?;
    }
    // A panic of the engine is a finding and is reported with the life's seed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = match options.seed {
        Some(seed) => replay(seed, format),
        None => campaign(options, format),
    };
    std::panic::set_hook(hook);
    outcome
}

/// Refuses options under which no life would run: without a life, no promise is tested.
fn refuse_no_lives(options: &SimulateOptions) -> Result<()> {
    if let Some(minutes) = options.minutes {
        if !(minutes > 0.0 && minutes <= MINUTES_MAX) {
            bail!("--minutes {minutes}: above 0, and at most {MINUTES_MAX:.0}");
        }
        return Ok(());
    }
    if options.count == 0 {
        bail!("--count 0: at least 1, no promise is kept in no life");
    }
    if options.from.checked_add(options.count - 1).is_none() {
        bail!("--from {} --count {}: numbers end with {}", options.from, options.count, u64::MAX);
    }
    Ok(())
}

/// State that the threads of a campaign share.
#[derive(Default)]
struct Found {
    coverage: Coverage,
    lives: u64,
    /// The failing life with the lowest number: number, seed, and failure.
    failure: Option<(u64, u64, Failure)>,
}

fn campaign(options: &SimulateOptions, format: Format) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores);
    let begin = Instant::now();
    let limit = options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let count = if limit.is_some() { u64::MAX } else { options.count };
    let (next, stop, found) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Found::default()));
    let bar = Live::new();
    let lock = || forebay_block::lock(&found);
    let work = || {
        // At least one life runs, however short the time: a campaign without lives would count as good.
        let is_time = || next.load(Ordering::Relaxed) == 0 || limit.is_none_or(|limit| begin.elapsed() < limit);
        while !stop.load(Ordering::Relaxed) && is_time() {
            let begun = next.fetch_add(1, Ordering::Relaxed);
            // The greatest number is valid too; no number follows it.
            let Some(number) = options.from.checked_add(begun).filter(|_| begun < count) else { return };
            let scenario = Scenario::numbered(number);
            let seed = scenario.seed;
            let lived = std::panic::catch_unwind(|| live(&scenario, false)).unwrap_or_else(|_| forebay_sim::Lived {
                failure: shrink::fails(&scenario),
                ..forebay_sim::Lived::default()
            });
            let mut found = lock();
            found.lives += 1;
            found.coverage.add(&lived.coverage);
            if let Some(failure) = lived.failure
                && found.failure.as_ref().is_none_or(|(known, _, _)| number < *known)
            {
                found.failure = Some((number, seed, failure));
                stop.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let mut handles = Vec::new();
        for number in 0..threads {
            let thread = std::thread::Builder::new().name(format!("lives-{number}")).spawn_scoped(scope, work);
            handles.push(thread.context("cannot start a thread: use fewer --threads")?);
        }
        let mut shown_at = Instant::now();
        while handles.iter().any(|handle| !handle.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if shown_at.elapsed() >= TELL_EVERY {
                shown_at = Instant::now();
                let found = lock();
                bar.step(&format!(
                    "{}, {}",
                    output::count(found.lives, "life"),
                    output::count(cuts(&found.coverage), "power cut")
                ));
            }
        }
        Ok(())
    })?;
    drop(bar);
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(options, &found, begin.elapsed(), format)
}

/// Power cuts of all kinds.
fn cuts(coverage: &Coverage) -> u64 {
    coverage.of("power cuts") + coverage.of("power cuts in recovery")
}

fn report(options: &SimulateOptions, found: &Found, elapsed: Duration, format: Format) -> Result<()> {
    let coverage = &found.coverage;
    let counts: Vec<(&str, u64)> = coverage.iter().collect();
    match format {
        Format::Json => output::json(json!({
            "from": options.from,
            "lives": found.lives,
            "power_cuts": cuts(coverage),
            "recoveries": coverage.of("recoveries"),
            "seconds": elapsed.as_secs_f64(),
            "met": counts.iter().map(|(what, count)| ((*what).to_owned(), json!(count))).collect::<serde_json::Map<_, _>>(),
            "never_met": coverage.missing(),
            "failure": found.failure.as_ref().map_or(Value::Null, |(number, seed, failure)| {
                json!({ "number": number, "seed": seed, "round": failure.round, "doing": failure.doing, "what": failure.what })
            }),
        }))?,
        Format::Table => {
            for (what, count) in &counts {
                output::text(&format!("{count:>12}  {what}"))?;
            }
            let missing = coverage.missing();
            if !missing.is_empty() {
                output::text(&format!(
                    "never met, of {} marks and faults: {}",
                    MARKS.len() + FaultKind::ALL.len(),
                    missing.join(", ")
                ))?;
            }
            output::text(&format!(
                "{} from number {}, {}, {} in {:.1} s: {}",
                output::count(found.lives, "life"),
                options.from,
                output::count(cuts(coverage), "power cut"),
                output::count(coverage.of("recoveries"), "recovery"),
                elapsed.as_secs_f64(),
                match found.failure {
                    Some(_) => "a promise was BROKEN",
                    None if found.lives == 0 => "no promise was tried",
                    None => "every promise was kept",
                },
            ))?;
        }
    }
    match &found.failure {
        None => Ok(()),
        Some((_, seed, failure)) => {
            Err(finding(format!("seed {seed}, {failure}; see all of it, shrunk: forebay simulate --seed {seed}")))
        }
    }
}

/// Runs a single life with its log; a failing one is shrunk first.
fn replay(seed: u64, format: Format) -> Result<()> {
    let scenario = Scenario::random(seed);
    let Some(failure) = shrink::fails(&scenario) else {
        let lived = live(&scenario, false);
        let met: Vec<String> = lived.coverage.iter().map(|(what, count)| format!("{count} {what}")).collect();
        return match format {
            Format::Json => output::json(json!({ "seed": seed, "failure": Value::Null, "met": met })),
            Format::Table => output::text(&format!("seed {seed}: every promise was kept; {}", met.join(", "))),
        };
    };
    let whole = scenario.steps();
    let (small, last) = shrink::shrink(&scenario, failure, &mut shrink::fails);
    let log = std::panic::catch_unwind(|| live(&small, true)).map(|lived| lived.log).unwrap_or_default();
    let tail = &log[log.len().saturating_sub(LOG_LINES)..];
    match format {
        Format::Json => output::json(json!({
            "seed": seed,
            "failure": { "round": last.round, "doing": last.doing, "what": last.what },
            "steps": whole,
            "steps_shrunk": small.steps(),
            "scenario": format!("{small:?}"),
            "log": tail,
        }))?,
        Format::Table => {
            output::text(&format!("shrunk from {whole} steps to {}", small.steps()))?;
            output::text(&format!("{:?}", small.shape))?;
            for round in &small.rounds {
                output::text(&format!("{round:?}"))?;
            }
            for line in tail {
                output::text(line)?;
            }
        }
    }
    Err(finding(format!("seed {seed}, {last}")))
}
