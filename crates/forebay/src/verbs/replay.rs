//! `forebay replay`.

use super::bench_result::{Contents, Frame, verdict};
use super::schema;
use crate::measure::TelemetryOptions;
use crate::measure::{self, HintWriter, Session, TraceReader, from_settings, job_table, time_ns};
use crate::output::{self, Format, count, size, time};
use crate::traces::no_such_volume;
use anyhow::{Context, Result, bail};
use clap::Args;
use forebay_bench::job::model::{Arrival, Calls, End, Job, Pattern, Plan};
use forebay_bench::job::size::decimal;
use forebay_bench::job::validate::{MAX_TIME_NS, SPEEDS, validate};
use forebay_bench::output::summary::{self, Reporting};
use forebay_bench::replay::{Counts, Feed, Fit, Requests, Selection, survey};
use forebay_bench::run::{Drift, Latencies};
use forebay_bench::stats::percentile::{Level, PercentileEstimate};
use forebay_block::OpKind;
use forebay_daemon::finding::finding;
use forebay_device::counters::Difference;
use forebay_trace::Faults;
use forebay_trace::format::Format as TraceFormat;
use serde_json::{Value, json};

/// Name of the job in results.
const NAME: &str = "replay";
/// Default depth per thread at recorded times.
const DEPTH_TIMED: u32 = 128;
/// Default depth per thread as fast as possible.
const DEPTH_FAST: u32 = 32;
/// Job keys that a trace does not determine.
const KEYS: [&str; 14] = [
    "wait",
    "calls",
    "single_submission",
    "buffered",
    "dsync",
    "cpus",
    "compressible",
    "duplicates",
    "seed",
    "evidence",
    "steadystate",
    "steadystate_duration",
    "steadystate_ramp_time",
    "steadystate_check_interval",
];

/// Options of `forebay replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayOptions {
    /// The trace: a file, plain or packed by gzip or Zstandard, or a generator such as rocksdb:?scale=0.001
    pub trace: String,
    /// Format of the trace (default: found out from its first bytes)
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
    /// Where to replay it: a path or a URI
    #[arg(long, value_name = "URI")]
    pub target: String,
    /// Replay this many times as fast: divide recorded times by it
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub scale: f64,
    /// Begin at this time of the trace, such as 90s
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// End before this time of the trace
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Replay at most this many requests
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Ignore recorded times: make the next request, in their order, when one has ended
    #[arg(long, conflicts_with = "scale")]
    pub as_fast_as_possible: bool,
    /// I/Os in flight per thread: as fast as possible exactly (default: 32), at recorded times at most (default: 128)
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Number of threads; each takes the next request when it has room
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u32,
    /// Map requests beyond the end of the target to its begin
    #[arg(long)]
    pub wrap: bool,
    /// Replay only this volume of the trace
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Set a key of the job that the trace leaves open, as in a TOML job file; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Allow overwriting data on the target
    #[arg(long)]
    pub destroy_data: bool,
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
    /// Print the JSON schema of results; needs nothing else
    #[arg(long)]
    pub schema: bool,
}

/// What was found out about the trace before anything ran.
struct Known {
    counts: Counts,
    other_volumes: u64,
    faults: Faults,
    /// What the trace's reader had to decide.
    notes: Vec<String>,
}

/// Replays a trace.
///
/// # Errors
/// What could not be done; a finding where I/Os failed.
pub fn run(options: &ReplayOptions, format: Format) -> Result<()> {
    if options.schema {
        return schema::print("replay");
    }
    let selection = selection(options)?;
    let trace_format = crate::traces::format_named(options.format.as_deref())?;
    let reporting = options.telemetry.reporting()?;
    options.telemetry.check_new_files(None)?;
    let settings = options.telemetry.session(options.destroy_data)?;
    // A trace that is played over itself is neither.
    if let (Ok(trace), Ok(target)) = (std::fs::canonicalize(&options.trace), std::fs::canonicalize(&options.target))
        && trace == target
    {
        bail!("--target {}: is the trace itself, which would be overwritten", options.target);
    }
    let base = base(options)?;
    let is_interval_given = settings.interval_ns.is_some();
    let mut session = Session::new(&options.target, settings)?;
    let (target_bytes, block_bytes) = session.shape()?;
    let fit = Fit { target_bytes, block_bytes, piece_bytes: measure::PIECE_BYTES, wrap: options.wrap };
    let known = look_at(&session, options, trace_format, &selection, &fit)?;
    let job = job(base, options, &known.counts);
    // The parts of a window that must be steady have intervals of their own.
    if !is_interval_given && !options.as_fast_as_possible && job.steady.is_none() {
        let lasts_ns = known.counts.span_since_ns(selection.from_ns) as f64 / options.scale;
        session.set_interval(measure::interval_of_trace(lasts_ns as u64));
    }
    let notes = known.notes.iter().cloned().chain(session.idle_settings(&job)).collect();
    let hints = session.hint_book().and_then(|book| HintWriter::new(job.evidence, book));
    let plan = Plan { groups: vec![vec![job]], notes };
    for note in &plan.notes {
        output::complain(format!("note: {note}"));
    }
    validate(&plan)?;
    session.check(&plan)?;
    let reader = TraceReader::telling(
        &options.trace,
        trace_format,
        options.volume.as_deref(),
        hints,
        &std::sync::Arc::default(),
    )?;
    let feed = Feed::new(Requests::new(reader, selection, fit))?;
    output::complain(intention(options, &known.counts));
    let (before, wear_before) = (session.counters(), session.wear());
    let results = session.replay(&plan, &feed);
    let read = feed.close();
    let results = results?;
    session.measured();
    let counters = before.map(|before| Difference::between(&before, &before.read_again()));
    let wear = wear_before.zip(session.wear()).map(|(before, after)| after.since(&before));
    let drift = results.first().and_then(|result| result.drift.as_ref());
    let frame = Frame {
        target: session.name().to_owned(),
        notes: &plan.notes,
        not_started: if results.is_empty() { vec![NAME] } else { Vec::new() },
        counters: counters.as_ref(),
        wear: wear.as_ref(),
    };
    let show = || match format {
        Format::Json => output::json(frame.json(Contents {
            jobs: results.iter().map(|result| summary::job(result, None, &reporting)).collect(),
            replay: Some(replay_json(options, &known, drift, &reporting)),
            ..Contents::default()
        })),
        Format::Table => {
            for result in &results {
                output::text(&job_table(session.name(), result, None, &reporting))?;
            }
            output::text(&replay_table(&known, drift))?;
            frame.show_counted()
        }
    };
    // What goes wrong after the result was shown does not cost it; and where nobody reads it the records are converted all
    // the same.
    let shown = show();
    options.telemetry.write_series(results.iter().map(|result| (session.name(), result)))?;
    options.telemetry.write_parquet()?;
    shown?;
    session.close()?;
    read.with_context(|| format!("{}: only a part was replayed", options.trace))?;
    verdict(&results)?;
    let unreadable = known.faults.unreadable_note(known.counts.read + known.other_volumes);
    unreadable.map_or(Ok(()), |note| Err(finding(format!("{}: {note}", options.trace))))
}

/// Which requests are taken.
fn selection(options: &ReplayOptions) -> Result<Selection> {
    let at = |option: &str, text: &Option<String>| text.as_deref().map(|text| trace_time(option, text)).transpose();
    let (from_ns, to_ns) = (at("--from", &options.from)?, at("--to", &options.to)?);
    if let (Some(from), Some(to)) = (&options.from, &options.to)
        && from_ns >= to_ns
    {
        bail!("--from {from} --to {to}: nothing lies between; --to is a time of the trace, not a length");
    }
    if options.limit == Some(0) {
        bail!("--limit 0: at least 1");
    }
    let scale = options.scale;
    if !SPEEDS.contains(&scale) {
        bail!("--scale {scale:?}: from a millionth to a million");
    }
    Ok(Selection { from_ns, to_ns, limit: options.limit.unwrap_or(u64::MAX), scale })
}

/// A time of the trace; without a unit in seconds.
fn trace_time(option: &str, text: &str) -> Result<u64> {
    match decimal(text) {
        // Beyond 64 bits it stays the latest time there is.
        Some(seconds) => Ok((seconds * 1e9) as u64),
        None => time_ns(option, text),
    }
}

/// What the user says of how I/O is made.
fn base(options: &ReplayOptions) -> Result<Job> {
    for setting in &options.set {
        let key = setting.split_once('=').map_or(setting.as_str(), |(key, _)| key).trim();
        if !KEYS.contains(&key) {
            bail!(
                "--set {key}: a trace leaves open only {}; the rest it says itself, or an option does",
                KEYS.join(", ")
            );
        }
    }
    // The trace ends the job, and not the time that a job has where it says none.
    let settings: Vec<String> = options.set.iter().cloned().chain(["ios=1".to_owned()]).collect();
    let plan = from_settings(&settings)?;
    Ok(plan.groups.into_iter().flatten().next().unwrap_or_default())
}

/// Reads the trace as it will be replayed, and refuses what cannot be.
fn look_at(
    session: &Session,
    options: &ReplayOptions,
    trace_format: Option<TraceFormat>,
    selection: &Selection,
    fit: &Fit,
) -> Result<Known> {
    let trace = &options.trace;
    let mut reader = TraceReader::open(&options.trace, trace_format, options.volume.as_deref(), session.stop())?;
    let counts = survey(&mut reader, selection, fit);
    let counts = counts.map_err(|error| anyhow::anyhow!(error)).with_context(|| format!("cannot read {trace}"))?;
    let volumes: Vec<String> = reader.volumes().map(|volume| format!("{volume:?}")).collect();
    if options.volume.is_none() && volumes.len() > 1 {
        bail!(
            "{trace} has several volumes, which would lie on top of each other: name one with --volume (the first are {})",
            volumes.join(", ")
        );
    }
    let known =
        Known { counts, other_volumes: reader.other_volumes(), faults: reader.faults().clone(), notes: reader.notes() };
    let counts = &known.counts;
    if counts.requests == 0 {
        bail!("{trace} has no request to replay: {}", why_none(options, &known, &volumes));
    }
    if counts.beyond > 0 && !options.wrap {
        bail!(
            "{} of the {} requests do not fit the target: the trace reaches to byte {} ({}), the target has {} ({}); take a \
             larger target, or --wrap: what lies beyond the end then begins again at the begin",
            counts.beyond,
            counts.requests,
            counts.reach_bytes,
            size(counts.reach_bytes),
            fit.target_bytes,
            size(fit.target_bytes)
        );
    }
    // A replay of a part begins where that is to.
    let span_ns = counts.span_since_ns(selection.from_ns);
    let lasts_ns = span_ns as f64 / options.scale;
    if !options.as_fast_as_possible && lasts_ns > MAX_TIME_NS as f64 {
        bail!(
            "--scale {:?}: the {} of the trace would take {:.0} days, and a replay takes at most a year of 366: choose a larger \
             --scale, --from and --to, or --as-fast-as-possible",
            options.scale,
            time(span_ns),
            lasts_ns / 86_400e9
        );
    }
    if counts.all_ios() == 0 {
        bail!("the target {} has no whole block of {} bytes", options.target, fit.block_bytes);
    }
    Ok(known)
}

/// Why nothing is left of a trace.
fn why_none(options: &ReplayOptions, known: &Known, volumes: &[String]) -> String {
    let Known { counts, other_volumes, faults, .. } = known;
    let damage = match faults.first.first() {
        Some(first) => {
            format!(
                "; {} could not be read, the first {}: {}",
                count(faults.count, "part"),
                place(faults, first),
                first.what
            )
        }
        None => String::new(),
    };
    if *other_volumes > 0 && counts.read == 0 {
        let wanted = options.volume.as_deref().unwrap_or_default();
        let named: Vec<&String> = volumes.iter().filter(|name| *name != "\"\"").collect();
        return format!("{}{damage}", no_such_volume(wanted, &named));
    }
    match counts.read_span {
        Some(span) if options.from.is_some() || options.to.is_some() => format!(
            "its times that were read go from {} to {}, and none is in the window{damage}",
            time(span.first_ns),
            time(span.last_ns)
        ),
        Some(_) => format!("none has a length that can be replayed{damage}"),
        None => format!("it holds none; or none that this format has{damage}"),
    }
}

/// The job that makes the I/Os of a trace.
fn job(base: Job, options: &ReplayOptions, counts: &Counts) -> Job {
    let default_depth = match (base.access.calls, options.as_fast_as_possible) {
        (Calls::Sync { .. }, _) => 1,
        (_, true) => DEPTH_FAST,
        (_, false) => DEPTH_TIMED,
    };
    let arrival =
        if options.as_fast_as_possible { Arrival::Closed } else { Arrival::Recorded { speed: options.scale } };
    let mut job = Job {
        name: NAME.to_owned(),
        threads: options.threads,
        depth: options.depth.unwrap_or(default_depth),
        pattern: Pattern::Replayed,
        arrival,
        end: End::default(),
        warmup_ns: 0,
        ..base
    };
    measure::set_counted(&mut job, counts);
    job
}

/// What will be done, in one line.
fn intention(options: &ReplayOptions, counts: &Counts) -> String {
    let how = if options.as_fast_as_possible {
        "as fast as possible".to_owned()
    } else {
        format!("in {}", time((counts.span_ns() as f64 / options.scale) as u64))
    };
    format!("replaying {}, recorded over {}, {how}", count(counts.requests, "request"), time(counts.span_ns()))
}

/// Where a part of a trace could not be read.
fn place(faults: &Faults, fault: &forebay_trace::Fault) -> String {
    format!("at {} {}", if faults.by_line { "line" } else { "byte" }, fault.place)
}

fn replay_json(options: &ReplayOptions, known: &Known, drift: Option<&Drift>, reporting: &Reporting) -> Value {
    let Known { counts, other_volumes, faults, .. } = known;
    json!({
        "trace": options.trace,
        "volume": options.volume,
        "timed": !options.as_fast_as_possible,
        "scale": (!options.as_fast_as_possible).then_some(options.scale),
        "requests": counts.requests,
        "ios": counts.all_ios(),
        "skipped": {
            "before_window": counts.before_window,
            "without_length": counts.without_length,
            "too_long": counts.too_long,
            "other_volumes": other_volumes,
        },
        "wrapped": counts.wrapped,
        "rounded": counts.rounded,
        "split": counts.split,
        "flushes_added": counts.flushes_added,
        "write_zeroes_as_trims": counts.stand_ins[OpKind::Trim as usize],
        "accesses_as_reads": counts.stand_ins[OpKind::Read as usize],
        "out_of_order": counts.out_of_order,
        "unsorted": counts.unsorted,
        "footprint": { "first_byte": counts.lowest_bytes, "end_byte": counts.reach_bytes },
        "span": counts.span.map(|span| json!({
            "first_ns": span.first_ns,
            "last_ns": span.last_ns,
            "length_ns": counts.span_ns(),
        })),
        "drift_ns": drift.map(|drift| json!({
            "late": summary::latency(&drift.late, None, reporting),
            "inter_arrival": summary::latency(&drift.gap, None, reporting),
        })),
        "faults": {
            "count": faults.count,
            "missing": faults.missing,
            "places_are": if faults.by_line { "lines" } else { "bytes" },
            "first": faults.first.iter().map(|fault| json!({ "place": fault.place, "what": fault.what })).collect::<Vec<_>>(),
        },
    })
}

fn replay_table(known: &Known, drift: Option<&Drift>) -> String {
    let Known { counts, other_volumes, faults, .. } = known;
    let mut lines = vec![format!(
        "\n  replay: {} as {}, recorded over {}, bytes {} to {}",
        count(counts.requests, "request"),
        count(counts.all_ios(), "I/O"),
        time(counts.span_ns()),
        counts.lowest_bytes,
        counts.reach_bytes
    )];
    let changed = [
        (counts.wrapped, "wrapped around the target's end"),
        (counts.rounded, "widened to the target's blocks"),
        (counts.split, "split"),
        (counts.flushes_added, "with a flush before them"),
        (counts.stand_ins[OpKind::Trim as usize], "writes of zeros as trims"),
        (counts.stand_ins[OpKind::Read as usize], "of unknown operation as reads"),
        (counts.unsorted, "too far out of order to be sorted, and so issued late"),
        (counts.without_length, "left out: no length"),
        (counts.too_long, "left out: longer than any request"),
        (counts.before_window, "left out: before the window"),
        (*other_volumes, "left out: of other volumes"),
    ];
    let changed: Vec<String> =
        changed.into_iter().filter(|&(count, _)| count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !changed.is_empty() {
        lines.push(format!("    {}", changed.join("; ")));
    }
    if let Some(drift) = drift {
        lines.push(format!("    drift: issued late by {}", quantiles(&drift.late)));
        lines.push(format!("    distances of I/Os off the recorded ones by {}", quantiles(&drift.gap)));
    }
    if faults.count > 0 {
        lines.push(format!("    {} of the trace could not be read:", count(faults.count, "part")));
        lines.extend(faults.first.iter().map(|fault| format!("      {}: {}", place(faults, fault), fault.what)));
    }
    lines.extend(faults.missing_note().map(|note| format!("    {note}")));
    lines.join("\n")
}

/// Median, p99 and greatest.
fn quantiles(latencies: &Latencies) -> String {
    let levels = Level::parse_list("50,99").unwrap_or_default();
    let reporting = Reporting { levels, ..Reporting::default() };
    let value = |estimate: &PercentileEstimate| estimate.value.value().map_or_else(|| "withheld".to_owned(), time);
    let found = summary::percentiles(latencies, None, &reporting);
    let found: Vec<String> =
        ["p50", "p99"].iter().zip(&found).map(|(name, found)| format!("{name} {}", value(found))).collect();
    format!("{}, at most {}", found.join(", "), time(latencies.max_ns()))
}
