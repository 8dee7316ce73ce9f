//! `forebay demo`: a pool over two files, a database-shaped load through NBD, a power cut during the load, recovery, the proof that all
//! flushed data is there, and the distribution of the data over the tiers.

mod line;
mod load;
mod progress;
mod report;
mod server;
mod setting;

use crate::cli::DemoOptions;
use crate::output::{self, Format};
use anyhow::{Context, Result, bail};
use forebay_block::Random;
use forebay_daemon::control::{Question, ask};
use forebay_daemon::finding::finding;
use forebay_device::nbd_client::NbdUri;
use forebay_proof::tally::Tally;
use line::Line;
use load::{Phase, Position};
use progress::Progress;
use report::Report;
use server::Server;
use setting::Setting;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs the demo.
///
/// # Errors
/// A finding where flushed data is missing.
pub fn run(options: &DemoOptions, format: Format) -> Result<()> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot watch for signals")?;
    }
    let started = Instant::now();
    let progress = Progress::new();
    progress.step("making a pool over two files");
    let setting = Setting::prepare(options)?;
    let mut lines = setting.lines();
    let mut random = Random::new(options.seed);
    let mut positions = vec![Position::default(); lines.len()];

    let server = Server::start(&setting.config_file, &setting.log)?;
    progress.step("first load: log, metadata, temporary files, cold data");
    let mut work =
        Work { lines: &mut lines, positions: &mut positions, random: &mut random, interrupted: &interrupted };
    drop(work.phase(server, setting.phase, true, &progress)?);
    let written_before = work.written_bytes();
    progress.keep(&format!(
        "power cut in the middle of the load, after {} written; unflushed writes are lost, torn, or reordered",
        crate::output::size(written_before)
    ));

    progress.step("recovering");
    let restart = Instant::now();
    let server = Server::start(&setting.config_file, &setting.log)?;
    let restart = restart.elapsed();
    let recovered = ask(&setting.config, &setting.config_file, &Question::Status)?;
    progress.step("checking every block");
    let mut wrong = Vec::new();
    let after_cut = work.check(&server, &mut wrong)?;
    progress.keep(&format!(
        "back after {:.2} s; {} checked: {} wrong",
        restart.as_secs_f64(),
        output::count(after_cut.blocks(), "block"),
        after_cut.wrong
    ));

    let (mut at_end, mut status) = (Tally::default(), recovered.clone());
    if wrong.is_empty() {
        progress.step("second load");
        let server = work.phase(server, setting.phase, false, &progress)?;
        progress.step("checking every block again");
        at_end = work.check(&server, &mut wrong)?;
        status = ask(&setting.config, &setting.config_file, &Question::Status)?;
        progress.step("stopping");
        for line in work.lines.iter_mut() {
            line.disconnect();
        }
        server.stop()?;
    }
    drop(progress);
    let report = Report {
        status: &status,
        recovery: &recovered["recovery"],
        restart,
        after_cut,
        at_end,
        wrong: &wrong,
        elapsed: started.elapsed(),
    };
    report.print(&mut lines, format)?;
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(finding(format!(
            "{} without what was flushed; the server's log and the pool are kept in {}",
            output::count(after_cut.wrong + at_end.wrong, "block"),
            setting.keep().display()
        )))
    }
}

/// The load and its threads.
struct Work<'a> {
    lines: &'a mut Vec<Line>,
    positions: &'a mut Vec<Position>,
    random: &'a mut Random,
    interrupted: &'a AtomicBool,
}

impl Work<'_> {
    fn written_bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.written_bytes).sum()
    }

    /// Runs all loads at once for `time`. With `cut` the server is killed while they run; it restarts under load, and connection errors
    /// from then on are expected.
    fn phase(&mut self, server: Server, time: Duration, cut: bool, progress: &Progress) -> Result<Server> {
        let uri: NbdUri = server.uri.parse()?;
        for line in self.lines.iter_mut() {
            line.connect(&uri)?;
        }
        let phase = Phase { stop: AtomicBool::new(false), written_bytes: AtomicU64::new(0) };
        let mut server = Some(server);
        let mut errors = Vec::new();
        let mut dead = false;
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (line, position) in self.lines.iter_mut().zip(self.positions.iter_mut()) {
                let mut random = Random::new(self.random.next_u64());
                let phase = &phase;
                threads.push(scope.spawn(move || load::run(line, position, &mut random, phase)));
            }
            let started = Instant::now();
            while started.elapsed() < time && !self.interrupted.load(Ordering::Relaxed) {
                if threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    // A load that ended before its time has failed.
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
                progress.detail(&format!(
                    "{} load: {:.0} of {:.0} s, {} written",
                    if cut { "first" } else { "second" },
                    started.elapsed().as_secs_f64(),
                    time.as_secs_f64(),
                    crate::output::size(phase.written_bytes.load(Ordering::Relaxed))
                ));
            }
            let early = threads.iter().any(std::thread::ScopedJoinHandle::is_finished);
            if cut
                && !early
                && let Some(server) = &mut server
            {
                dead = server.cut_power().is_ok();
            }
            phase.stop.store(true, Ordering::Relaxed);
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => errors.push(error),
                    Err(_) => errors.push(anyhow::anyhow!("a thread of the load panicked")),
                }
            }
        });
        let Some(server) = server else { bail!("the server is gone") };
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if !dead {
            if let Some(error) = errors.into_iter().next() {
                return Err(error.context(format!("the load met an error; the server says: {}", server.last_words())));
            }
            for line in self.lines.iter_mut() {
                line.flush()?;
            }
        }
        Ok(server)
    }

    /// Reads everything back.
    fn check(&mut self, server: &Server, wrong: &mut Vec<String>) -> Result<Tally> {
        let uri: NbdUri = server.uri.parse()?;
        let mut sum = Tally::default();
        for line in self.lines.iter_mut() {
            line.connect(&uri)?;
            sum += line.check(wrong)?;
            if self.interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
        }
        Ok(sum)
    }
}
