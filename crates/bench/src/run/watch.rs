//! Looking at a job while it goes on, to end it where enough is known.

use super::collect::Collector;
use super::facts::TargetFacts;
use super::result::{JobResult, SteadyState};
use super::steady::Seeker;
use crate::job::steady::Steady;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is asked: the share of the run that is over, and how its result so far is had. True: enough is known.
type Asks = dyn FnMut(f64, &dyn Fn() -> JobResult) -> bool + Send;

/// Asked each time an interval of the run is over. Who asks for the result so far pays for a copy of all figures: look at
/// times that were planned.
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
    /// By this.
    #[must_use]
    pub fn new(asks: impl FnMut(f64, &dyn Fn() -> JobResult) -> bool + Send + 'static) -> Self {
        Self { asks: Some(Arc::new(Mutex::new(asks))) }
    }

    /// Whether the run of a job of which `share` is over may end.
    pub fn is_enough(&self, share: f64, so_far: &dyn Fn() -> JobResult) -> bool {
        let Some(asks) = &self.asks else { return false };
        asks.lock().unwrap_or_else(PoisonError::into_inner)(share, so_far)
    }
}

/// A watched job: it ends before its time where who watches knows enough, or where it is steady.
pub(super) struct Watched {
    watch: Watch,
    seeker: Option<Seeker>,
    /// Ends the workers.
    enough: Arc<AtomicBool>,
    /// Intervals that were over when it was last asked.
    asked_at: u64,
}

impl Watched {
    pub fn new(watch: Watch, steady: Option<Steady>) -> Self {
        Self { watch, seeker: steady.map(Seeker::new), enough: Arc::default(), asked_at: 0 }
    }

    /// A job that ends with this one.
    pub fn follower(&self) -> Self {
        Self { watch: Watch::default(), seeker: None, enough: self.enough.clone(), asked_at: 0 }
    }

    /// What workers look at.
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.enough.clone()
    }

    /// Some figures came in.
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

    /// Whether the run was ended by it.
    pub fn has_ended_it(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// What became of the steady state, now that the job is over.
    pub fn steady_state(self, result: &JobResult) -> Option<SteadyState> {
        let mut seeker = self.seeker?;
        // A window that ends with the run was not looked at before.
        let over_ns = result.job.end.after_ns.map_or(result.duration_ns, |after_ns| after_ns.min(result.duration_ns));
        seeker.look(&result.intervals, over_ns);
        Some(seeker.found())
    }
}
