//! A pool of 4 TiB whose map is far larger than the permitted memory: random writes all over it, then a kill while
//! the journal is at its largest; measures memory, the time of recovery and the bytes that it reads, and checks all
//! data.

mod case;
mod writer;

use crate::load::Finding;
use crate::server::{Pool, Server};
use anyhow::{Context, Result, anyhow, bail};
use case::{CASES, Case, LEAF_BYTES, READ_MAX_BYTES, Runs};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use writer::{Progress, Written};

const MIB: u64 = 1 << 20;
/// Interval between two measurements of the server.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// The largest journal seen counts as the peak once none was larger by more than 5 percent for this long.
const PEAK_SETTLED: Duration = Duration::from_secs(3);
/// Percentage of the peak at which to kill, and by how much this is lowered in each second after it: the peak was one
/// sample of a ring that may wrap around between two samples, so that it may not be seen again. The size at the kill
/// is printed.
const PEAK_PERCENT: (u64, u64) = (95, 3);

/// The options of `scale`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The program `forebay`.
    #[arg(long)]
    program: PathBuf,
    /// An empty directory for the pools.
    #[arg(long)]
    directory: PathBuf,
    /// Whether to run the long cases.
    #[arg(long)]
    long: bool,
    /// Runs only the case of this name.
    #[arg(long)]
    case: Option<String>,
    /// Repeats the addresses of an earlier run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest load of one case, in seconds.
    #[arg(long, default_value_t = 300)]
    load_seconds: u64,
}

/// Measurements of the server until it was killed.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    resident_max: u64,
    journal_max: u64,
    journal_at_kill: u64,
    load: Duration,
}

/// Runs the cases. Returns a [`Finding`] if a bound was exceeded.
pub fn run(options: &Options) -> Result<()> {
    let directory = std::fs::canonicalize(&options.directory)?;
    let mut wrong = Vec::new();
    let runs = if options.long { Runs::Long } else { Runs::Short };
    for case in CASES {
        let wanted = options.case.as_ref().map_or(case.runs == runs, |name| name == case.name);
        if wanted {
            let outcome = one(&case, options, &directory).with_context(|| format!("case {}", case.name));
            wrong.extend(outcome.map_err(|error| Finding(format!("{error:#}")))?);
            std::fs::remove_dir_all(directory.join(case.name))?;
        }
    }
    if !wrong.is_empty() {
        bail!(Finding(wrong.join("\n  ")));
    }
    Ok(())
}

fn line(what: &str, value: &str) {
    println!("  {what:<44} {value}");
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / MIB as f64)
}

fn one(case: &Case, options: &Options, directory: &std::path::Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut bound = |what: &str, measured: f64, limit: f64, unit: &str| {
        if measured > limit {
            wrong.push(format!("case {}: {what} is {measured:.3} {unit}, at most {limit:.3} allowed", case.name));
        }
    };
    let limit = case.limit_mib * MIB;
    println!("case {}: disk of {} GiB, memory limit {} MiB", case.name, case.disk_gib, case.limit_mib);
    let pool = case.create(&options.program, directory)?;
    let (server, ready) = pool.start()?;
    let (progress, mut written) = (Progress::default(), Written::new(options.seed));
    let seen = std::thread::scope(|scope| -> Result<Seen> {
        let load = scope.spawn(|| written.write(case, &ready.uri, &progress));
        let seen = watch(case, options, &pool, server, &progress, || load.is_finished());
        let outcome = load.join().map_err(|_| anyhow!("the writer died"))?;
        outcome.with_context(|| format!("the server's last words: {}", pool.last_words()))?;
        seen
    })?;
    let leaves = progress.leaves.load(Ordering::Relaxed);
    let map = leaves * LEAF_BYTES;
    line("4 KiB writes sent, at queue depth 128", &format!("{} in {:.1} s", written.len(), seen.load.as_secs_f64()));
    line("map leaves touched", &format!("{leaves}: {}, {:.1} x the limit", mib(map), map as f64 / limit as f64));
    line("VmHWM until the kill", &mib(seen.resident_max));
    let kib = |bytes| bytes / 1024;
    let journal = format!("{} KiB, {} KiB", kib(seen.journal_at_kill), kib(seen.journal_max));
    line("journal at the kill, largest seen", &journal);
    bound("VmHWM until the kill", seen.resident_max as f64, limit as f64, "bytes");

    let (server, ready) = pool.start()?;
    let cpu_seconds = server.cpu_seconds()?;
    // On a busy machine the bounds on time mean little: its load is printed beside them.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let status = pool.status()?;
    let (recovery, io) = (&status["recovery"], server.read_by_device()?);
    let read = recovery["read_bytes"].as_u64().context("status has no recovery.read_bytes")?;
    let seconds = recovery["seconds"].as_f64().context("status has no recovery.seconds")?;
    line("start of the process to ready", &format!("{:.3} s (recovery {seconds:.3} s)", ready.after.as_secs_f64()));
    line("its processor time; load of the machine", &format!("{cpu_seconds:.2} s; {load}"));
    line("read by recovery; by the process, /proc/PID/io", &format!("{}; {}", mib(read), mib(io)));
    line(
        "records, leaves, blocks dropped",
        &format!("{}, {}, {}", recovery["records"], recovery["leaves"], recovery["dropped_blocks"]),
    );
    line("VmHWM of recovery", &mib(server.resident_bytes()?.1));
    bound("ready after the kill", ready.after.as_secs_f64(), case.ready_max.as_secs_f64(), "s");
    bound("read by recovery", read.max(io) as f64, READ_MAX_BYTES as f64, "bytes");

    let checking = Instant::now();
    let (checked, open) = written.check(case, &ready.uri)?;
    let resident = server.resident_bytes()?.1;
    line(
        "blocks read back right; never flushed",
        &format!("{checked} in {:.1} s; {open}", checking.elapsed().as_secs_f64()),
    );
    line("VmHWM of recovery and reads", &mib(resident));
    bound("VmHWM of recovery and reads", resident as f64, limit as f64, "bytes");
    let stopped = server.stop()?;
    finish(&pool, stopped)?;
    Ok(wrong)
}

/// Stops the server cleanly, and starts it again.
fn finish(pool: &Pool, stopped: Duration) -> Result<()> {
    let (server, ready) = pool.start()?;
    let clean = pool.status()?["recovery"]["clean"] == true;
    if !clean {
        bail!("the pool was stopped by SIGTERM, and the next start did not find it clean");
    }
    line(
        "clean stop; start to ready after it",
        &format!("{:.3} s; {:.3} s", stopped.as_secs_f64(), ready.after.as_secs_f64()),
    );
    server.stop()?;
    Ok(())
}

/// Watches the server under load, and kills it once all leaves exist and the journal is as full as it gets.
fn watch(
    case: &Case,
    options: &Options,
    pool: &Pool,
    server: Server,
    progress: &Progress,
    ended: impl Fn() -> bool,
) -> Result<Seen> {
    let started = Instant::now();
    let mut seen = Seen::default();
    let (mut settled_bytes, mut grew_at) = (0, started);
    let timeout = Duration::from_secs(options.load_seconds);
    let outcome = loop {
        if ended() {
            break Ok(());
        }
        let leaves = progress.leaves.load(Ordering::Relaxed);
        let used = match pool.status() {
            Ok(status) => status["journal"]["used_bytes"].as_u64().unwrap_or_default(),
            Err(error) => break Err(error),
        };
        seen.journal_at_kill = used;
        if used * 100 > settled_bytes * 105 {
            (settled_bytes, grew_at) = (used, Instant::now());
        }
        if leaves >= case.leaves {
            let (highest, step) = PEAK_PERCENT;
            let peak = highest.saturating_sub(step * grew_at.elapsed().as_secs());
            if grew_at.elapsed() > PEAK_SETTLED && used * 100 >= seen.journal_max * peak {
                break Ok(());
            }
        } else if started.elapsed() > timeout {
            break Err(anyhow!(
                "only {leaves} of {} leaves were touched by {} writes in {} s",
                case.leaves,
                progress.writes.load(Ordering::Relaxed),
                timeout.as_secs()
            ));
        }
        seen.journal_max = seen.journal_max.max(used);
        std::thread::sleep(LOOK_EVERY);
    };
    seen.journal_max = seen.journal_max.max(seen.journal_at_kill);
    seen.load = started.elapsed();
    let resident = server.resident_bytes();
    progress.dying.store(true, Ordering::SeqCst);
    server.kill()?;
    outcome?;
    seen.resident_max = resident?.1;
    Ok(seen)
}
