//! Running jobs: workers make the load, and a coordinator adds up their figures. Nothing is allocated per I/O.

mod burst_rows;
mod clock;
mod clock_offset;
mod collect;
mod content;
mod drift;
mod facts;
mod failures;
mod figures;
mod jobs;
mod ledger;
mod load;
mod machine;
mod pace;
mod progress;
mod remote;
mod result;
mod share;
mod slot;
mod steady;
mod tally;
mod thread_use;
mod together;
mod virtual_run;
mod warnings;
mod watch;
mod window;
mod worker;

pub use clock::{Clock, TscClock};
pub use clock_offset::{Offset, OffsetMeter, RoundTrip};
pub use drift::Drift;
pub use facts::TargetFacts;
pub use failures::{Failure, Failures};
pub use figures::Figures;
pub use machine::{BlockUse, IdleUse, Interrupts, MachineUse, MachineWatch};
pub use progress::Progress;
pub use remote::{Refused, RemoteRun};
pub use result::{
    AllRan, Backlog, BurstRow, Direction, IntervalRow, JobResult, KindResult, OfDirection, OpenLoop, Part, Partial,
    SteadyState, SteadyWindow, per_second,
};
pub use tally::{Latencies, Tally};
pub use thread_use::ThreadUse;
pub use virtual_run::run_virtual;
pub use watch::Watch;

use crate::job::model::{Arrival, Job, Pattern};
use crate::job::walks;
use crate::pattern::{Generator, PatternError, share_of_region};
use crate::replay::{Feed, Player};
use crate::telemetry::Recorder;
pub use content::{ContentError, Maps};

use content::JobContent;
use forebay_block::Queue;
use jobs::Jobs;
use ledger::{Ledger, Message};
use load::Load;
use machine::Watcher;
use pace::{Bursts, Pace};
use share::Share;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use window::Window;
use worker::{Worker, WorkerParts};

/// Time from the creation of threads to the beginning of the load, in nanoseconds, and the addition for each thread.
const LEAD_NS: u64 = 20_000_000;
const LEAD_PER_THREAD_NS: u64 = 200_000;
/// Empty shares that a worker has in reserve.
const SHARES: usize = 3;
/// Longest time between two calls of the observer.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A target opened for a job.
#[derive(Debug)]
pub struct Opened<Q> {
    /// One queue for each thread.
    pub queues: Vec<Q>,
    /// Facts about the target.
    pub facts: TargetFacts,
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Length of an interval in nanoseconds, at least a millisecond.
    pub interval_ns: u64,
    /// What was written before, for jobs that verify.
    pub maps: Maps,
    /// May end the run early, if the run has only one job.
    pub watch: Watch,
    /// How many consecutive assignments are one job, each on another target. If more than one, the joint result follows those of the
    /// targets.
    pub targets: usize,
    /// Reads what the machine does while jobs are measured in real time.
    pub machine: Option<MachineWatch>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval_ns: 1_000_000_000, maps: Maps::new(0), watch: Watch::default(), targets: 1, machine: None }
    }
}

/// A job with its target and the recorders of its records.
pub struct Assignment<Q> {
    /// The job, already validated.
    pub job: Job,
    /// The job's target.
    pub opened: Opened<Q>,
    /// A recorder for each thread; empty if no records are kept.
    pub recorders: Vec<Recorder>,
    /// The I/Os of a job that replays a trace ([`crate::job::model::Pattern::is_fed`]).
    pub replay: Option<Feed>,
}

/// Why a run could not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The job does not fit the target.
    #[error("job {job:?}: {what}")]
    Job {
        /// Name of the job.
        job: String,
        /// What does not fit, and what to change.
        what: String,
    },
    /// The pattern cannot make any I/O.
    #[error("job {job:?}: {source}")]
    Pattern {
        /// Name of the job.
        job: String,
        /// The cause.
        source: PatternError,
    },
    /// Content cannot be made or checked.
    #[error("job {job:?}: {source}")]
    Content {
        /// Name of the job.
        job: String,
        /// The cause.
        source: ContentError,
    },
    /// The times of a schedule cannot be read from their file.
    #[error("job {job:?}: cannot read the times in {}: {what}", path.display())]
    Times {
        /// Name of the job.
        job: String,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The system provides no more threads.
    #[error("cannot start a thread: {source}; use fewer threads and more depth")]
    Thread {
        /// The cause.
        source: std::io::Error,
    },
}

/// The coordinator that begins a run on several hosts at the same time, as seen from one of these hosts.
pub trait Coordinator {
    /// Called when everything is ready, with facts about the targets. Returns when the load begins, in nanoseconds of this host's clock, or
    /// `None` if it does not begin.
    fn start_ns(&mut self, facts: &[&TargetFacts]) -> Option<u64>;

    /// Receives the figures of a worker.
    fn take(&mut self, figures: Figures);
}

/// Runs jobs at the same time, until all are over or `stop` is set. `observer` is called about once an interval.
///
/// # Errors
/// [`RunError`]; no I/O was made then.
pub fn run<Q: Queue + 'static, C: Clock>(
    assignments: Vec<Assignment<Q>>,
    clock: &C,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
    observer: &mut dyn FnMut(&Progress),
) -> Result<Vec<JobResult>, RunError> {
    let (mut group, workers, messages) = Group::prepare(assignments, clock, settings, stop)?;
    // Only now, because reading the times of a schedule or allocating a map of writes takes time, which must not be taken from a schedule.
    let start_ns = clock.now_ns() + lead_ns(workers.len() as u64);
    let threads = group.start(start_ns, workers, settings, stop)?;
    group.collect(&messages, clock, start_ns, observer, None);
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(group.jobs.results())
}

/// Like [`run`], but begins at the instant that `coordinator` gives, and passes all figures to it. There are no results if it gives none.
///
/// # Errors
/// As for [`run`].
pub fn run_coordinated<Q: Queue + 'static, C: Clock>(
    assignments: Vec<Assignment<Q>>,
    clock: &C,
    settings: &Settings,
    stop: &Arc<AtomicBool>,
    coordinator: &mut dyn Coordinator,
) -> Result<Vec<JobResult>, RunError> {
    let (mut group, workers, messages) = Group::prepare(assignments, clock, settings, stop)?;
    let Some(start_ns) = coordinator.start_ns(&group.jobs.facts()) else { return Ok(Vec::new()) };
    let threads = group.start(start_ns, workers, settings, stop)?;
    group.collect(&messages, clock, start_ns, &mut |_| {}, Some(coordinator));
    threads.into_iter().for_each(|thread| drop(thread.join()));
    Ok(group.jobs.results())
}

/// Time between the message that begins a run and its load, in nanoseconds; more threads need more time.
#[must_use]
pub fn lead_ns(threads: u64) -> u64 {
    LEAD_NS + threads * LEAD_PER_THREAD_NS
}

/// The workers of this process, and the jobs to which their figures are added.
struct Group {
    jobs: Jobs,
    /// For each worker, the channel that returns empty shares.
    empties: Vec<Sender<Box<Share>>>,
    /// For each job, the watcher of the machine.
    watchers: Vec<Option<Watcher>>,
}

type Ready<Q, C> = (WorkerParts<Q, C>, Option<u32>);

/// A group, its workers, and the receiver of their messages.
type Prepared<Q, C> = (Group, Vec<Ready<Q, C>>, Receiver<Message>);

impl Group {
    /// Makes everything that the jobs need, with times as if the run began at 0.
    fn prepare<Q: Queue + 'static, C: Clock>(
        assignments: Vec<Assignment<Q>>,
        clock: &C,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
    ) -> Result<Prepared<Q, C>, RunError> {
        let (to, messages) = channel();
        // A watch is defined for a single job only.
        let watch = if assignments.len() == 1 { settings.watch.clone() } else { Watch::default() };
        let settings = Settings { watch, ..settings.clone() };
        let mut group =
            Self { jobs: Jobs::new(settings.targets, settings.interval_ns), empties: Vec::new(), watchers: Vec::new() };
        let mut workers = Vec::new();
        for assignment in assignments {
            group.add(assignment, clock, &settings, stop, &to, &mut workers)?;
        }
        Ok((group, workers, messages))
    }

    /// Shifts all times to a run that begins at `start_ns`.
    fn begin_at<Q, C>(&mut self, start_ns: u64, workers: &mut [Ready<Q, C>]) {
        self.jobs.begin_at(start_ns);
        for (parts, _) in workers {
            parts.window = parts.window.later(start_ns);
            parts.load.begin_at(parts.window.start_ns);
        }
    }

    /// Starts the threads; their load begins at `start_ns`.
    fn start<Q: Queue + 'static, C: Clock>(
        &mut self,
        start_ns: u64,
        mut workers: Vec<Ready<Q, C>>,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<JoinHandle<()>>, RunError> {
        self.begin_at(start_ns, &mut workers);
        if let (Some(watch), Some((parts, _))) = (&settings.machine, workers.first()) {
            let clock = &parts.clock;
            self.watchers =
                self.jobs.windows().into_iter().map(|window| Watcher::start(watch, window, clock)).collect();
        }
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for (number, (parts, cpu)) in workers.into_iter().enumerate() {
            let body = move || start(parts, cpu);
            match std::thread::Builder::new().name(format!("load-{number}")).spawn(body) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    // Threads that already run end at once, and their figures are dropped.
                    stop.store(true, Ordering::Relaxed);
                    threads.into_iter().for_each(|thread| drop(thread.join()));
                    return Err(RunError::Thread { source });
                }
            }
        }
        Ok(threads)
    }

    /// Handles a message of a worker; true if it was the worker's last.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Share(mut share) => {
                self.jobs.add(&share);
                let worker = share.worker;
                share.clear();
                // Fails only if the worker has ended and takes no more shares.
                let _ = self.empties[worker].send(share);
                false
            }
            Message::End(end) => {
                if let Some(job) = self.jobs.end(*end)
                    && let Some(watcher) = self.watchers.get_mut(job).and_then(Option::take)
                    && let Some(machine) = watcher.finish()
                {
                    self.jobs.add_machine(job, machine);
                }
                true
            }
        }
    }

    /// Makes the workers of a job, with times as if the run began at 0.
    fn add<Q: Queue + 'static, C: Clock>(
        &mut self,
        assignment: Assignment<Q>,
        clock: &C,
        settings: &Settings,
        stop: &Arc<AtomicBool>,
        to: &Sender<Message>,
        workers: &mut Vec<Ready<Q, C>>,
    ) -> Result<(), RunError> {
        let Assignment { job, opened, recorders, replay } = assignment;
        let Opened { queues, mut facts } = opened;
        facts.notes.extend(warnings::beforehand(&job));
        let target_bytes = facts.size_bytes;
        let named = |what: String| RunError::Job { job: job.name.clone(), what };
        let region = job
            .region
            .resolve(facts.size_bytes, facts.logical_block_bytes)
            .map_err(|error| named(error.to_string()))?;
        if let Some(cpu) = forbidden_cpu(&job.cpus) {
            return Err(named(format!("this process may not run on CPU {cpu}: name others, or none")));
        }
        if queues.len() != job.threads as usize {
            return Err(named(format!("{} queues for {} threads", queues.len(), job.threads)));
        }
        let writes = job.mix.kinds().any(|kind| kind.is_destructive() && kind.has_data());
        let content = (writes || job.verify)
            .then(|| JobContent::new(&job, region, &settings.maps.of_target(self.jobs.next_target())))
            .transpose()
            .map_err(|source| RunError::Content { job: job.name.clone(), source })?;
        let Times { times, disordered } = times(&job)?;
        if disordered > 0 {
            facts.notes.push(format!(
                "{disordered} of the trace's {} times are smaller than one before them: they were sorted",
                times.len()
            ));
        }
        let window = Window::new(job.start_delay_ns, job.warmup_ns, job.end.after_ns, job.cooldown_ns);
        let kinds: Vec<_> = job.mix.kinds().collect();
        let has_drift = replay.is_some() && job.arrival.is_open();
        if let Some(feed) = &replay {
            feed.prime();
        }
        let mut recorders = recorders.into_iter();
        let enough = self.jobs.join(&job, facts, window, &settings.watch);
        for (thread, queue) in (0..job.threads).zip(queues) {
            let number = self.empties.len();
            let (give, from) = channel();
            for _ in 0..SHARES - 1 {
                // Cannot fail: the receiver is used just below.
                let _ = give.send(Box::new(Share::new(number, &kinds, settings.interval_ns).with_drift(has_drift)));
            }
            self.empties.push(give);
            let load = match replay.clone().filter(|_| job.pattern.is_fed()) {
                Some(feed) => Load::Replayed(Player::new(feed, job.arrival.is_open(), clock.is_virtual())),
                None => made(&job, region, thread, &times)?,
            };
            let cpu = job.cpus.get(thread as usize % job.cpus.len().max(1)).copied();
            let parts = WorkerParts {
                worker: number,
                queue,
                depth: job.depth,
                clock: clock.clone(),
                load,
                bursts: Bursts::new(job.burst),
                think: job.think,
                content: content.as_ref().map(|content| content.worker(thread, job.depth)),
                window,
                budget: budget(&job, region, target_bytes, thread),
                added_flush: job.mix.added_flush(),
                wait: job.wait,
                single_submission: job.single_submission,
                stop: stop.clone(),
                enough: enough.clone(),
                ledger: Ledger::new(
                    Box::new(Share::new(number, &kinds, settings.interval_ns).with_drift(has_drift)),
                    settings.interval_ns,
                    recorders.next(),
                    (to.clone(), from),
                ),
            };
            workers.push((parts, cpu));
        }
        Ok(())
    }

    fn collect(
        &mut self,
        messages: &Receiver<Message>,
        clock: &impl Clock,
        start_ns: u64,
        observer: &mut dyn FnMut(&Progress),
        mut coordinator: Option<&mut dyn Coordinator>,
    ) {
        let mut observed_ns = 0;
        let mut left = self.empties.len();
        while left > 0 {
            match messages.recv_timeout(LOOK_EVERY) {
                Ok(message) => {
                    if let Some(coordinator) = &mut coordinator {
                        coordinator.take(Figures::of(&message, start_ns));
                    }
                    left -= usize::from(self.take(message));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // All senders are gone; a worker that died sent no end, but the figures of the others are known.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = clock.now_ns();
            if now.saturating_sub(observed_ns) >= 500_000_000 {
                observed_ns = now;
                observer(&self.jobs.progress(start_ns, now));
            }
        }
    }
}

/// The load of a thread, from the job's pattern and schedule.
fn made(job: &Job, region: (u64, u64), thread: u32, times: &[u64]) -> Result<Load, RunError> {
    let generator =
        Generator::new(job, region, thread).map_err(|source| RunError::Pattern { job: job.name.clone(), source })?;
    let seed = job.seed ^ (u64::from(thread) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let pace = Pace::new(&job.arrival, thread, job.threads, seed, times);
    Ok(Load::Made { generator: Box::new(generator), pace })
}

/// Most I/Os and bytes of a thread: its part of what the job may make on `region` (offset and length in bytes) of the target. Where all I/Os have one size,
/// bytes are shared out in whole I/Os, or each thread would make one more.
fn budget(job: &Job, region: (u64, u64), target_bytes: u64, thread: u32) -> (u64, u64) {
    let share = |all: u64| {
        let threads = u64::from(job.threads);
        all / threads + u64::from(u64::from(thread) < all % threads)
    };
    let pass_bytes = region.1 - region.1 % u64::from(job.end.pass_unit_bytes.max(1));
    let passes = job.end.after_passes.map(|passes| (passes * pass_bytes as f64) as u64);
    let bytes = [job.end.after_bytes, passes].into_iter().flatten().min();
    let walked = walks::ios_of_walks(job, region, target_bytes);
    let ios = [job.end.after_ios, walked].into_iter().flatten().min();
    let unit = u64::from(job.one_size().unwrap_or(1).max(1));
    // A thread that walks through a share of its own makes the passes of that share, whatever is left over for others.
    if let (Pattern::Sequential { per_thread: true }, Some(passes)) = (&job.pattern, job.end.after_passes)
        && job.end.after_bytes.is_none()
    {
        let (begin, end) = share_of_region(region.1, job.threads, unit, thread);
        let own = passes * ((end - begin) / unit) as f64;
        return (ios.map_or(u64::MAX, share), (own.round() as u64).saturating_mul(unit));
    }
    (ios.map_or(u64::MAX, share), bytes.map_or(u64::MAX, |bytes| share(bytes.div_ceil(unit)).saturating_mul(unit)))
}

/// The times of a schedule that is read from a file.
#[derive(Debug, Default)]
struct Times {
    /// Nanoseconds since the first, ascending.
    times: Vec<u64>,
    /// Number of times that stood behind a later one.
    disordered: usize,
}

/// The times of the job's schedule; empty if it has another kind of schedule.
fn times(job: &Job) -> Result<Times, RunError> {
    use std::io::BufRead;
    use std::os::unix::fs::FileTypeExt;
    /// Most times of one job: 128 MiB of memory.
    const TIMES_MAX: usize = 16 << 20;
    let Arrival::Times { path, .. } = &job.arrival else { return Ok(Times::default()) };
    let fail = |what: String| RunError::Times { job: job.name.clone(), path: path.clone(), what };
    // The file's type is checked before it is opened: opening a pipe would wait for its other end.
    if std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Err(fail("it is a named pipe, which may wait for ever: name a file".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    let (mut times, mut latest, mut disordered) = (Vec::new(), 0, 0);
    for (number, line) in std::io::BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| fail(format!("line {}: {error}", number + 1)))?;
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let seconds: f64 = text
            .parse()
            .ok()
            .filter(|seconds: &f64| seconds.is_finite() && (0.0..1e9).contains(seconds))
            .ok_or_else(|| fail(format!("line {}: {text:?} is not a time in seconds", number + 1)))?;
        if times.len() == TIMES_MAX {
            return Err(fail(format!("more than {TIMES_MAX} times")));
        }
        let time = (seconds * 1e9) as u64;
        disordered += usize::from(time < latest);
        latest = latest.max(time);
        times.push(time);
    }
    times.sort_unstable();
    let first = times.first().copied().ok_or_else(|| fail("it has no times".to_owned()))?;
    times.iter_mut().for_each(|time| *time -= first);
    Ok(Times { times, disordered })
}

fn start<Q: Queue, C: Clock>(parts: WorkerParts<Q, C>, cpu: Option<u32>) {
    if let Some(cpu) = cpu {
        pin(cpu);
    }
    let (clock, start_ns) = (parts.clock.clone(), parts.window.start_ns);
    let mut worker = Worker::new(parts);
    worker.make_ready();
    while clock.now_ns() < start_ns && !worker.is_stopped() {
        let left = start_ns - clock.now_ns().min(start_ns);
        if left > 200_000 { clock.sleep_ns((left - 100_000).min(50_000_000)) } else { std::hint::spin_loop() }
    }
    worker.run();
}

/// The first CPU of `cpus` that this process may not use; `None` if there is none, or the system does not say.
fn forbidden_cpu(cpus: &[u32]) -> Option<u32> {
    let allowed = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok()?;
    cpus.iter().copied().find(|&cpu| !allowed.is_set(cpu as usize).unwrap_or(false))
}

/// The CPUs that this process may use.
#[must_use]
pub fn allowed_cpus() -> Vec<u32> {
    let Ok(allowed) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return Vec::new() };
    (0..nix::sched::CpuSet::count() as u32).filter(|&cpu| allowed.is_set(cpu as usize).unwrap_or(false)).collect()
}

/// Pins this thread to a CPU. CPUs that the process may not use were refused before; one that disappeared meanwhile is no reason to fail.
fn pin(cpu: u32) {
    let mut set = nix::sched::CpuSet::new();
    if set.set(cpu as usize).is_ok() {
        let _ = nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set);
    }
}

#[cfg(test)]
mod tests;
