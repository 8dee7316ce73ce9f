//! Watching a job while it runs, to end it once enough is known.

use super::collect::Collector;
use super::facts::TargetFacts;
use super::result::{JobResult, SteadyState};
use super::steady::Seeker;
use crate::job::steady::Steady;
use forebay_block::lock;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Gets the share of the run that is over, and a function that returns the result so far. Returns true once enough is
/// known.
type Asks = dyn FnMut(f64, &dyn Fn() -> JobResult) -> bool + Send;

/// A callback that is called each time an interval of the run is over. The result so far costs a copy of all figures,
/// so ask for it only at planned times.
#[derive(Clone, Default)]
pub struct Watch {
    asks: Option<Arc<Mutex<Asks>>>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("asks", &self.asks.is_some()).finish()
    }
}

impl Watch {
    /// Watches with this callback.
    #[must_use]
    pub fn new(asks: impl FnMut(f64, &dyn Fn() -> JobResult) -> bool + Send + 'static) -> Self {
        Self { asks: Some(Arc::new(Mutex::new(asks))) }
    }

    /// Whether the run may end, given the `share` of it that is over.
    pub fn is_enough(&self, share: f64, so_far: &dyn Fn() -> JobResult) -> bool {
        let Some(asks) = &self.asks else { return false };
        lock(asks)(share, so_far)
    }
}

/// A watched job. It ends early when its watch knows enough, or when it is steady.
pub(super) struct Watched {
    watch: Watch,
    seeker: Option<Seeker>,
    /// Set to end the workers.
    enough: Arc<AtomicBool>,
    /// Number of complete intervals when the watch was last asked.
    asked_at: u64,
}

impl Watched {
    pub fn new(watch: Watch, steady: Option<Steady>) -> Self {
        Self { watch, seeker: steady.map(Seeker::new), enough: Arc::default(), asked_at: 0 }
    }

    /// A job that ends together with this one, and is not watched itself.
    pub fn follower(&self) -> Self {
        Self { watch: Watch::default(), seeker: None, enough: self.enough.clone(), asked_at: 0 }
    }

    /// The flag at which workers see that the run is to end.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.enough.clone()
    }

    /// Checks the run after new figures came in.
    pub fn look(&mut self, collector: &Collector, facts: &TargetFacts) {
        let over = collector.intervals_over();
        if over <= self.asked_at || self.has_ended_it() {
            return;
        }
        self.asked_at = over;
        let rows = collector.rows();
        let is_steady = self.seeker.as_mut().is_some_and(|seeker| seeker.look(rows, over * collector.interval_ns()));
        if is_steady || self.watch.is_enough(collector.share_over(), &|| collector.so_far(facts.clone())) {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the watch or the steady state has ended the run.
    pub fn has_ended_it(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// The steady state that was found, once the job is over.
    pub fn steady_state(self, result: &JobResult) -> Option<SteadyState> {
        let mut seeker = self.seeker?;
        // A window that ends with the run has not been examined before.
        let over_ns = result.job.end.after_ns.map_or(result.duration_ns, |after_ns| after_ns.min(result.duration_ns));
        seeker.look(&result.intervals, over_ns);
        Some(seeker.found())
    }
}
