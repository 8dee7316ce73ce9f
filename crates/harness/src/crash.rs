//! Rounds of load, `kill -9`, recovery (often killed as well) and a check of every block.

use crate::images::Images;
use crate::liar;
use crate::load::{Connection, Finding, Sent, ask, connect};
use crate::part::{Part, STRIPE_BLOCKS};
use crate::server::Server;
use crate::setting::{KINDS, Setting};
use anyhow::{Context, Result, anyhow, bail};
use forebay_block::{BLOCK_BYTES, Random};
use forebay_device::nbd_client::NbdUri;
use forebay_proof::oracle::{Objection, Oracle};
use forebay_proof::stamp::content_of;
use forebay_proof::tally::Tally;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most objections of one check that are reported.
const COMPLAINTS_MAX: usize = 8;

/// A fault planted to prove that the check finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// A proxy answers flushes itself and removes FUA.
    Liar,
    /// After the kill, both devices are restored to a whole and consistent state from before the load.
    RolledBack,
    /// After the kill, blocks of the capacity device are swapped with each other.
    Swapped,
}

/// The options of `crash`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The program `forebay`.
    #[arg(long)]
    program: PathBuf,
    /// An empty directory for the pools; kept if the test finds a fault.
    #[arg(long)]
    directory: PathBuf,
    /// Number of kills under load.
    #[arg(long, default_value_t = 5)]
    rounds: u64,
    /// Repeats the choices of an earlier run; its timing differs all the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plants a fault that must be found.
    #[arg(long)]
    plant: Option<Plant>,
    /// The capacity target in place of a file; `{pool}` and `{size}` in it are replaced by the pool's name and the
    /// device's size. It must be a bucket, which loses unflushed data by itself.
    #[arg(long, conflicts_with = "plant")]
    capacity: Option<String>,
}

/// Runs all rounds. Returns a [`Finding`] if durability was broken.
pub fn run(options: &Options) -> Result<()> {
    let mut random = Random::new(options.seed);
    let directory = std::fs::canonicalize(&options.directory)?;
    // A full pool flushes by itself all the time, which would hide a server that ignores flush requests.
    let kinds = match options.plant {
        Some(Plant::Liar) => &KINDS[KINDS.len() - 1..],
        _ => &KINDS[..KINDS.len().min(usize::try_from(options.rounds)?.max(1))],
    };
    let mut settings = Vec::new();
    for kind in kinds {
        settings.push(Setting::create(*kind, &options.program, &directory, options.seed, options.capacity.as_deref())?);
    }
    println!(
        "{:>5} {:<6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>7} {:>6} {:>5} {:>9} | {:>8} {:>7} {:>7} {:>7} {:>7}",
        "round",
        "pool",
        "load ms",
        "writes",
        "part.",
        "trims",
        "zeroes",
        "flushes",
        "reads",
        "kills",
        "ready ms",
        "certain",
        "old",
        "new",
        "between",
        "dropped"
    );
    for round in 0..options.rounds {
        // Every second round uses the first pool, where most work is in progress.
        let others = settings.len() - 1;
        let index = if round % 2 == 0 || others == 0 { 0 } else { 1 + usize::try_from(round / 2)? % others };
        let setting = &settings[index];
        let name = setting.kind.name;
        one_round(round, setting, &mut random, options.plant, &directory)
            .with_context(|| format!("round {round}, pool {name}, seed {}", options.seed))
            .map_err(found)?;
    }
    for setting in &settings {
        let name = setting.kind.name;
        end(setting).with_context(|| format!("the clean end of pool {name}")).map_err(found)?;
    }
    Ok(())
}

/// Once the pools exist, every error is a finding: a server that does not start or closes the connection is as bad as
/// lost data.
fn found(error: anyhow::Error) -> anyhow::Error {
    Finding(format!("{error:#}")).into()
}

fn one_round(round: u64, setting: &Setting, random: &mut Random, plant: Option<Plant>, directory: &Path) -> Result<()> {
    let images = Images::of(directory, setting);
    if plant == Some(Plant::RolledBack) {
        images.keep()?;
    }
    let (server, ready) = setting.pool.start()?;
    let uri = match plant {
        Some(Plant::Liar) => liar::before(&ready.uri, directory)?,
        _ => ready.uri.clone(),
    };
    let load_for = Duration::from_millis(300 + random.below(2200));
    let sent = load(setting, server, &uri, load_for, random)?;
    match plant {
        Some(Plant::RolledBack) => images.put_back()?,
        Some(Plant::Swapped) => images.swap_blocks()?,
        _ => {}
    }
    let kills = kill_starts(setting, random)?;
    let (server, ready) = setting.pool.start()?;
    let checked = check(setting, &ready.uri)?;
    let status = setting.pool.status()?;
    println!(
        "{round:>5} {:<6} {:>7} {:>7} {:>6} {:>6} {:>6} {:>7} {:>6} {kills:>5} {:>9} | {:>8} {:>7} {:>7} {:>7} {:>7}",
        setting.kind.name,
        load_for.as_millis(),
        sent.writes,
        sent.unaligned,
        sent.trims,
        sent.zeroes,
        sent.flushes,
        sent.reads,
        ready.after.as_millis(),
        checked.certain,
        checked.old,
        checked.new,
        checked.between,
        status["recovery"]["dropped_blocks"],
    );
    // The result of a recovery is durable: nothing was written since, and nothing may change.
    server.kill()?;
    if random.chance(1, 2) {
        kill_starts(setting, random)?;
        let (server, ready) = setting.pool.start()?;
        check(setting, &ready.uri).context("a second crash without a write between")?;
        server.kill()?;
    }
    Ok(())
}

/// Loads all connections until the server is killed.
fn load(setting: &Setting, server: Server, uri: &NbdUri, load_for: Duration, random: &mut Random) -> Result<Sent> {
    let dying = AtomicBool::new(false);
    let mut sent = Sent::default();
    let outcomes: Vec<Result<Sent>> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for part in &setting.parts {
            let (seed, depth) = (random.next_u64(), 1 << random.below(7));
            let (oracle, dying) = (&setting.oracle, &dying);
            threads.push(scope.spawn(move || -> Result<Sent> {
                let mut connection = Connection::open(uri, part, oracle, seed)?;
                connection.run(depth, dying)?;
                Ok(connection.sent)
            }));
        }
        let started = Instant::now();
        // A thread that ends before the kill has found a fault.
        while started.elapsed() < load_for && threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(2));
        }
        dying.store(true, Ordering::SeqCst);
        let killed = server.kill();
        let mut outcomes: Vec<Result<Sent>> =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread died")))).collect();
        if let Err(error) = killed {
            outcomes.push(Err(error));
        }
        outcomes
    });
    let words = setting.pool.last_words();
    for outcome in outcomes {
        sent.add(&outcome.with_context(|| format!("under load; the server's last words: {words}"))?);
    }
    Ok(sent)
}

/// Kills the server up to three times while it recovers; mostly early, because small pools recover quickly.
fn kill_starts(setting: &Setting, random: &mut Random) -> Result<u64> {
    let kills = random.below(4);
    for _ in 0..kills {
        let server = setting.pool.spawn()?;
        let wait_ms = if random.chance(2, 3) { random.below(40) } else { random.below(300) };
        std::thread::sleep(Duration::from_millis(wait_ms));
        server.kill().with_context(|| format!("while it recovers: {}", setting.pool.last_words()))?;
    }
    Ok(kills)
}

/// Reads the whole disk and judges every block.
fn check(setting: &Setting, uri: &NbdUri) -> Result<Tally> {
    let oracle = &setting.oracle;
    let outcomes: Vec<Result<(Tally, Vec<Objection>)>> = std::thread::scope(|scope| {
        let check_one = |part| scope.spawn(move || check_part(part, oracle, uri));
        let threads: Vec<_> = setting.parts.iter().map(check_one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a thread died")))).collect()
    });
    let (mut sum, mut wrong) = (Tally::default(), Vec::new());
    for outcome in outcomes {
        let (tally, objections) = outcome?;
        sum += tally;
        wrong.extend(objections);
    }
    if sum.wrong > 0 {
        wrong.truncate(COMPLAINTS_MAX);
        bail!(Finding(format!("{} blocks are wrong after recovery:\n  {}", sum.wrong, wrong.join("\n  "))));
    }
    ask(oracle).restarted();
    Ok(sum)
}

fn check_part(part: &Part, oracle: &Mutex<Oracle>, uri: &NbdUri) -> Result<(Tally, Vec<Objection>)> {
    let mut client = connect(uri)?;
    let (mut tally, mut objections) = (Tally::default(), Vec::new());
    for stripe in 0..part.stripes() {
        let first = part.disk_block(stripe * STRIPE_BLOCKS);
        let offset_bytes = first * BLOCK_BYTES as u64;
        let cookie = client.submit_read(offset_bytes, STRIPE_BLOCKS as u32 * BLOCK_BYTES as u32)?;
        let reply = client.wait_for(cookie)?;
        if let Err(error) = reply.result {
            bail!(Finding(format!("after recovery, a read at byte {offset_bytes} failed: {error}")));
        }
        let mut oracle = ask(oracle);
        for (block, bytes) in (first..).zip(reply.data.chunks_exact(BLOCK_BYTES)) {
            let objection = tally.count(oracle.survived((0, block), content_of(bytes)));
            objections.extend(objection.filter(|_| objections.len() < COMPLAINTS_MAX));
        }
    }
    client.disconnect()?;
    Ok((tally, objections))
}

/// Stops the server cleanly, checks every structure offline, and starts the server again.
fn end(setting: &Setting) -> Result<()> {
    let (server, ready) = setting.pool.start()?;
    check(setting, &ready.uri)?;
    let status = setting.pool.status()?;
    let sum = |field: &str| -> u64 {
        let classes = status["classes"].as_array().map(Vec::as_slice).unwrap_or_default();
        classes.iter().filter_map(|class| class[field].as_u64()).sum()
    };
    let (destaged, collected) = (sum("destaged_bytes"), sum("collected_bytes"));
    let stopped = server.stop()?;
    setting.pool.run("verify", &[])?;
    let (server, ready) = setting.pool.start()?;
    check(setting, &ready.uri).context("after a clean stop")?;
    let status = setting.pool.status()?;
    if status["recovery"]["clean"] != true {
        bail!(Finding("the pool was stopped by SIGTERM, and the next start did not find it clean".to_owned()));
    }
    server.stop()?;
    println!(
        "      {:<6} stopped in {} ms, verify good, start from it good; {} MiB destaged, {} MiB collected over all rounds",
        setting.kind.name,
        stopped.as_millis(),
        destaged >> 20,
        collected >> 20,
    );
    if setting.kind.must_move && (destaged == 0 || collected == 0) {
        bail!("pool {} was to destage and collect while it is killed, and did not", setting.kind.name);
    }
    Ok(())
}
