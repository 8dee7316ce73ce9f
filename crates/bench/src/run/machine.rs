//! What the whole machine did while a job was measured. Who knows how reads it, at the begin and the end of the measured time,
//! in a thread that makes no load.

use super::clock::Clock;
use super::tally::{Latencies, PackedTally, Tally};
use super::window::Window;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What all users of the machine made it do in a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineUse {
    /// Interrupts by their source, most first; those that did not come are left out. None where it is not known.
    pub interrupts: Option<Vec<Interrupts>>,
    /// Time of all processors in their idle states. None where it is not known.
    pub idle: Option<Vec<IdleUse>>,
    /// The target's requests at the block layer, where that was asked for and could be seen.
    #[serde(default)]
    pub block: Option<BlockUse>,
    /// What is not known, and why.
    pub unknown: Vec<String>,
}

/// Requests of this process at the block layer of the target's drive, in nanoseconds by the kernel's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockUse {
    /// From being made to being issued to the driver; of those of which that is known.
    pub queued: PackedTally,
    /// From being issued to the driver to being complete.
    pub device: PackedTally,
    /// Requests that the probes could not report.
    pub dropped: u64,
    /// What the probes themselves took, in nanoseconds of processor time over all requests.
    pub probes_ns: u64,
}

impl BlockUse {
    /// Times before the issue, and behind it.
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

/// Interrupts of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupts {
    /// What the kernel calls it.
    pub source: String,
    /// How many came, on all processors.
    pub count: u64,
    /// Whether the name says that it is the target's.
    pub is_targets: bool,
}

/// An idle state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleUse {
    /// Its name.
    pub state: String,
    /// Share of the time of all processors that was spent in it, 0 to 1.
    pub share: f64,
    /// How often it was entered.
    pub entered: u64,
}

impl MachineUse {
    /// Interrupts of all sources.
    #[must_use]
    pub fn interrupts(&self) -> Option<u64> {
        self.interrupts
            .as_ref()
            .map(|sources| sources.iter().fold(0, |sum: u64, source| sum.saturating_add(source.count)))
    }

    /// Of these the target's; none where no name says that it is its.
    #[must_use]
    pub fn of_target(&self) -> Option<u64> {
        let mut of_target = self.interrupts.as_ref()?.iter().filter(|source| source.is_targets).peekable();
        of_target.peek()?;
        Some(of_target.fold(0, |sum: u64, source| sum.saturating_add(source.count)))
    }
}

/// The end of a time: what the machine did in it.
pub type EndWatch = Box<dyn FnOnce() -> MachineUse>;
/// The begin of a time.
pub type BeginWatch = Box<dyn FnOnce() -> EndWatch>;

/// Reads what the machine does.
#[derive(Clone)]
pub struct MachineWatch(Arc<dyn Fn() -> BeginWatch + Send + Sync>);

impl MachineWatch {
    /// By this: called before the load begins, what it returns when the measurement does, and what that returns at its end, all in
    /// one thread.
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

/// Watches the machine while a job is measured. Dropped before that is over it ends at once.
pub(super) struct Watcher {
    over: Sender<()>,
    thread: JoinHandle<Option<MachineUse>>,
}

impl Watcher {
    /// Of a job that is measured then; none where the system gives no more threads.
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

    /// The job is over, whatever its window says.
    pub fn finish(self) -> Option<MachineUse> {
        drop(self.over);
        self.thread.join().ok().flatten()
    }
}

/// Waits until a time; false where the job was over before.
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

    /// Watches nothing, and notes when it looked.
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
        // Before it was measured at all.
        let never = Window::new(clock.now_ns(), 1 << 60, None, 0);
        assert_eq!(Watcher::start(&watch, never, &clock).unwrap().finish(), None);
        assert!(looks.lock().unwrap().is_empty());
        // By a count of I/Os.
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
