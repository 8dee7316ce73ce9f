//! What the whole machine did while a job was measured. The caller provides the functions that read it; they run at the beginning and the
//! end of the measurement, in a thread that makes no load.

use super::clock::Clock;
use super::tally::{Latencies, PackedTally, Tally};
use super::window::Window;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What the machine did during a period, for all its users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineUse {
    /// Interrupts by source, most frequent first, without sources that had none. `None` where they are not known.
    pub interrupts: Option<Vec<Interrupts>>,
    /// Time of all processors in their idle states. `None` where it is not known.
    pub idle: Option<Vec<IdleUse>>,
    /// The target's requests at the block layer; `None` unless they were asked for and could be seen.
    #[serde(default)]
    pub block: Option<BlockUse>,
    /// What is not known, and why.
    pub unknown: Vec<String>,
}

/// Requests of this process at the block layer of the target's drive. Times are in nanoseconds of the kernel's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockUse {
    /// From the creation of a request to its issue to the driver, for requests where both are known.
    pub queued: PackedTally,
    /// From the issue to the driver to the completion.
    pub device: PackedTally,
    /// Number of requests that the probes could not report.
    pub dropped: u64,
    /// Processor time of the probes themselves over all requests, in nanoseconds.
    pub probes_ns: u64,
}

impl BlockUse {
    /// Latencies before the issue, and after it; `None` where a tally is invalid.
    #[must_use]
    pub fn latencies(&self) -> Option<(Latencies, Latencies)> {
        let of = |packed: &PackedTally| {
            let mut all = Latencies::new();
            all.add(&Tally::unpack(packed)?);
            Some(all)
        };
        Some((of(&self.queued)?, of(&self.device)?))
    }
}

/// Interrupts of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    /// The kernel's name of the source.
    pub source: String,
    /// Number of interrupts on all processors.
    pub count: u64,
    /// Whether the source's name shows that it belongs to the target.
    pub is_targets: bool,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleUse {
    /// Its name.
    pub state: String,
    /// Share of the time of all processors that was spent in this state, 0 to 1.
    pub share: f64,
    /// How often the state was entered.
    pub entered: u64,
}

impl MachineUse {
    /// Interrupts of all sources; `None` where they are not known.
    #[must_use]
    pub fn interrupts(&self) -> Option<u64> {
        self.interrupts
            .as_ref()
            .map(|sources| sources.iter().fold(0, |sum: u64, source| sum.saturating_add(source.count)))
    }

    /// Interrupts of the target; `None` if no source can be assigned to it by name.
    #[must_use]
    pub fn of_target(&self) -> Option<u64> {
        let mut of_target = self.interrupts.as_ref()?.iter().filter(|source| source.is_targets).peekable();
        of_target.peek()?;
        Some(of_target.fold(0, |sum: u64, source| sum.saturating_add(source.count)))
    }
}

/// Called at the end of a period; returns what the machine did in it.
pub type EndWatch = Box<dyn FnOnce() -> MachineUse>;
/// Called at the beginning of a period.
pub type BeginWatch = Box<dyn FnOnce() -> EndWatch>;

/// Reads what the machine does.
#[derive(Clone)]
pub struct MachineWatch(Arc<dyn Fn() -> BeginWatch + Send + Sync>);

impl MachineWatch {
    /// Makes a watch from a function that is called before the load begins. The function that it returns is called when the measurement
    /// begins, and the next one when the measurement ends, all in one thread.
    #[must_use]
    pub fn new(make_ready: impl Fn() -> BeginWatch + Send + Sync + 'static) -> Self {
        Self(Arc::new(make_ready))
    }
}

impl fmt::Debug for MachineWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineWatch")
    }
}

/// Watches the machine while a job is measured. Dropping it ends the watch at once.
pub(super) struct Watcher {
    over: Sender<()>,
    thread: JoinHandle<Option<MachineUse>>,
}

impl Watcher {
    /// Watches a job with this window; `None` if the system provides no more threads.
    pub fn start(watch: &MachineWatch, window: Window, clock: &impl Clock) -> Option<Self> {
        let (over, ended) = channel();
        let (watch, clock) = (watch.clone(), clock.clone());
        let body = move || {
            let begin = (watch.0)();
            if !waited(&ended, window.begin_ns, &clock) {
                return None;
            }
            let end = begin();
            waited(&ended, window.end_ns, &clock);
            Some(end())
        };
        let thread = Builder::new().name("machine".to_owned()).spawn(body).ok()?;
        Some(Self { over, thread })
    }

    /// Ends the watch because the job is over, whatever its window says.
    pub fn finish(self) -> Option<MachineUse> {
        drop(self.over);
        self.thread.join().ok().flatten()
    }
}

/// Waits until a time; false if the job ended before.
fn waited(ended: &Receiver<()>, until_ns: u64, clock: &impl Clock) -> bool {
    loop {
        let left_ns = until_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            return true;
        }
        match ended.recv_timeout(Duration::from_nanos(left_ns.min(3_600_000_000_000))) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::TscClock;
    use super::*;
    use std::sync::Mutex;

    /// A watch that records only when it was called.
    fn noting(clock: &TscClock) -> (MachineWatch, Arc<Mutex<Vec<u64>>>) {
        let looks = Arc::new(Mutex::new(Vec::new()));
        let (clock, noted) = (clock.clone(), looks.clone());
        let watch = MachineWatch::new(move || {
            let (clock, noted) = (clock.clone(), noted.clone());
            Box::new(move || {
                noted.lock().unwrap().push(clock.now_ns());
                Box::new(move || {
                    noted.lock().unwrap().push(clock.now_ns());
                    MachineUse::default()
                })
            })
        });
        (watch, looks)
    }

    #[test]
    fn the_machine_is_watched_within_the_window() {
        let clock = TscClock::new();
        let (watch, looks) = noting(&clock);
        let window = Window::new(clock.now_ns(), 20_000_000, Some(30_000_000), 0);
        let watcher = Watcher::start(&watch, window, &clock).unwrap();
        while looks.lock().unwrap().len() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(watcher.finish(), Some(MachineUse::default()));
        let looks = looks.lock().unwrap().clone();
        assert!(looks[0] >= window.begin_ns && looks[1] >= window.end_ns && looks.len() == 2, "{looks:?} {window:?}");
    }

    #[test]
    fn a_job_that_ends_early_ends_the_watch() {
        let clock = TscClock::new();
        let (watch, looks) = noting(&clock);
        // The job ends before it is measured.
        let never = Window::new(clock.now_ns(), 1 << 60, None, 0);
        assert_eq!(Watcher::start(&watch, never, &clock).unwrap().finish(), None);
        assert!(looks.lock().unwrap().is_empty());
        // The job ends by a number of I/Os.
        let endless = Window::new(clock.now_ns(), 0, None, 0);
        let watcher = Watcher::start(&watch, endless, &clock).unwrap();
        while looks.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(watcher.finish().is_some());
        assert_eq!(looks.lock().unwrap().len(), 2);
    }

    #[test]
    fn of_the_target_nothing_is_known_where_no_name_is_its() {
        let source = |source: &str, count, is_targets| Interrupts { source: source.to_owned(), count, is_targets };
        let of = |sources: &[Interrupts]| {
            let machine = MachineUse { interrupts: Some(sources.to_vec()), ..MachineUse::default() };
            (machine.interrupts(), machine.of_target())
        };
        assert_eq!(of(&[source("timer", 5, false)]), (Some(5), None));
        assert_eq!(
            of(&[source("timer", 5, false), source("nvme0q1", 7, true), source("nvme0q2", 1, true)]),
            (Some(13), Some(8))
        );
        assert_eq!((MachineUse::default().interrupts(), MachineUse::default().of_target()), (None, None));
    }
}
