//! A host's side: executes the coordinator's messages from standard input and ends with it. Standard output carries only messages.

use super::clocks::unix_ns;
use super::line;
use super::message::{Done, DriveCounters, Facts, FromHost, Group, Hello, PROTOCOL, Pong, ToHost, VERSION, Work};
use crate::measure::{Session, SessionOptions};
use crate::output;
use anyhow::{Context, Result, bail};
use forebay_bench::job::model::Plan;
use forebay_bench::run::{Clock, Coordinator, Figures, JobResult, TargetFacts, TscClock};
use forebay_daemon::text::SCHEMA_VERSION;
use forebay_device::counters::Difference;
use std::io::{BufReader, stdin, stdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum number of queued messages: the coordinator sends one and waits for its result.
const WAITING_MAX: usize = 16;
/// The coordinator pings every second; after this silence it counts as gone, even where the connection is open.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a run may take to end after the coordinator is gone: I/Os in flight are waited for up to five seconds.
const GONE: Duration = Duration::from_secs(15);
/// Exit code of a failure.
const FAILED: i32 = 2;

/// State that the listening and the working thread share.
struct Shared {
    clock: TscClock,
    /// The session's stop flag, once there is a session; it ends a run with the results so far.
    stop: OnceLock<Arc<AtomicBool>>,
    is_stopped: AtomicBool,
    heard_ns: AtomicU64,
}

impl Shared {
    fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(stop) = self.stop.get() {
            stop.store(true, Ordering::SeqCst);
        }
    }

    /// Sets the session's stop flag, and raises it where a stop was requested before.
    fn stop_by(&self, stop: &Arc<AtomicBool>) {
        let _ = self.stop.set(stop.clone());
        if self.is_stopped.load(Ordering::SeqCst) {
            stop.store(true, Ordering::SeqCst);
        }
    }
}

/// Sends a message to the coordinator.
///
/// # Errors
/// The coordinator does not read any more.
fn say(message: &FromHost) -> Result<()> {
    line::write(&mut stdout().lock(), message).context("the coordinator is gone")
}

/// Follows a coordinator until it sends no more work.
///
/// # Errors
/// A failure cannot be reported to the coordinator.
pub fn follow() -> Result<()> {
    // Times of I/Os and lengths of runs in results both come from this clock.
    let clock = TscClock::new();
    let heard_ns = AtomicU64::new(clock.now_ns());
    let shared = Arc::new(Shared { clock, stop: OnceLock::new(), is_stopped: AtomicBool::new(false), heard_ns });
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hello = Hello { protocol: PROTOCOL, version: VERSION.to_owned(), schema_version: SCHEMA_VERSION, node };
    say(&FromHost::Hello(hello))?;
    let (to, messages) = sync_channel(WAITING_MAX);
    let of_listener = shared.clone();
    let thread = |role: &str| std::thread::Builder::new().name(role.to_owned());
    thread("coordinator").spawn(move || listen(&of_listener, to)).context("no more threads")?;
    let of_watch = shared.clone();
    thread("watch").spawn(move || watch(&of_watch)).context("no more threads")?;
    // The coordinator reports failures together with the host, so nothing is printed here.
    work(&shared, &messages).or_else(|error| say(&FromHost::Failed(output::chain(&error))))
}

/// Receives the coordinator's messages. Pings are answered here, whatever the other threads do.
fn listen(shared: &Shared, to: SyncSender<ToHost>) {
    let mut input = BufReader::new(stdin());
    while let Ok(Some(line)) = line::read(&mut input) {
        let run_ns = shared.clock.now_ns();
        shared.heard_ns.store(run_ns, Ordering::Relaxed);
        let message = match line::parse(&line) {
            Ok(message) => message,
            Err(error) => {
                let _ = say(&FromHost::Failed(output::chain(&error)));
                break;
            }
        };
        let is_taken = match message {
            ToHost::Ping(number) => say(&FromHost::Pong(Pong { number, run_ns, unix_ns: unix_ns() })).is_ok(),
            ToHost::Stop => {
                shared.stop();
                true
            }
            message => to.try_send(message).is_ok(),
        };
        if !is_taken {
            break;
        }
    }
    // The working thread stops waiting for messages.
    drop(to);
    leave(shared);
}

/// Ends the process where the coordinator is silent.
fn watch(shared: &Shared) {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let silence_ns = shared.clock.now_ns().saturating_sub(shared.heard_ns.load(Ordering::Relaxed));
        if Duration::from_nanos(silence_ns) > SILENCE {
            leave(shared);
        }
    }
}

/// The coordinator is gone: ends the run, and then this process, even where a thread hangs.
fn leave(shared: &Shared) {
    shared.stop();
    std::thread::sleep(GONE);
    std::process::exit(FAILED);
}

/// Does the work that the messages ask for.
fn work(shared: &Arc<Shared>, messages: &Receiver<ToHost>) -> Result<()> {
    // The listener has ended: there is nothing to do.
    let Ok(first) = messages.recv() else { return Ok(()) };
    let ToHost::Work(work) = first else { bail!("the coordinator begins with something else than work") };
    let (mut session, plan) = accept(&work)?;
    shared.stop_by(session.stop());
    say(&FromHost::Accepted)?;
    let (before, mut results) = (session.counters(), Vec::new());
    loop {
        match messages.recv() {
            Ok(ToHost::Prepare(group)) => results.extend(run_group(shared, &mut session, &plan, group, messages)?),
            Ok(ToHost::Finish) => break,
            Ok(_) => bail!("the coordinator says what has no place here"),
            Err(_) => return Ok(()),
        }
    }
    let own_costs_ns = session.own_costs_ns(&results);
    let drive_counters = before.map(|before| DriveCounters::of(&Difference::between(&before, &before.read_again())));
    session.close()?;
    let machines = results.into_iter().map(|result| result.machine).collect();
    say(&FromHost::Done(Done { own_costs_ns, machines, drive_counters }))
}

/// Opens the target and checks that all jobs can run on it.
fn accept(work: &Work) -> Result<(Session, Plan)> {
    let plan = work.source.plan(false, std::slice::from_ref(&work.target))?;
    let options =
        SessionOptions { destroy_data: work.destroy_data, interval_ns: None, records: None, block_layer: false };
    let session = Session::new(&work.target, options)?;
    if session.is_virtual() {
        bail!(
            "{} is measured in virtual time, which has no second in common with other hosts; emulated: is a model in real time",
            work.target
        );
    }
    session.check(&plan)?;
    Ok((session, plan))
}

fn run_group(
    shared: &Shared,
    session: &mut Session,
    plan: &Plan,
    group: Group,
    messages: &Receiver<ToHost>,
) -> Result<Vec<JobResult>> {
    let jobs = plan.groups.get(group.number).context("the coordinator has a group more than we")?;
    session.set_interval(group.interval_ns);
    let mut coordinated = Coordinated { shared, messages, failure: None };
    let results = session.run_coordinated(jobs, &shared.clock, &mut coordinated)?;
    if let Some(failure) = coordinated.failure {
        return Err(failure);
    }
    say(&FromHost::Over)?;
    Ok(results)
}

/// A group whose start the coordinator decides.
struct Coordinated<'a> {
    shared: &'a Shared,
    messages: &'a Receiver<ToHost>,
    failure: Option<anyhow::Error>,
}

impl Coordinated<'_> {
    fn start(&self, facts: &[&TargetFacts]) -> Result<Option<u64>> {
        say(&FromHost::Ready(facts.iter().map(|facts| Facts::of(facts)).collect()))?;
        let at_ns = match self.messages.recv() {
            Ok(ToHost::Start(Some(at_ns))) => at_ns,
            Ok(ToHost::Start(None)) => return Ok(None),
            Ok(_) => bail!("the coordinator does not begin what is ready"),
            Err(_) => return Ok(None),
        };
        let now_ns = self.shared.clock.now_ns();
        if at_ns <= now_ns {
            let late_ms = (now_ns - at_ns) as f64 / 1e6;
            bail!(
                "the word to begin came {late_ms:.1} ms after the time to begin: the connection is too slow, or the host too busy"
            );
        }
        Ok(Some(at_ns))
    }
}

impl Coordinator for Coordinated<'_> {
    fn start_ns(&mut self, facts: &[&TargetFacts]) -> Option<u64> {
        match self.start(facts) {
            Ok(start_ns) => start_ns,
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    fn take(&mut self, figures: Figures) {
        if say(&FromHost::Figures(figures)).is_err() {
            self.shared.stop();
        }
    }
}
