//! Virtual time: it moves when somebody waits, and at no other time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds that all parts of a world share.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Now.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        // One thread moves a world: the atomic is there only because devices must be `Send`.
        self.0.load(Ordering::Relaxed)
    }

    /// Goes on to a time; one that has passed changes nothing.
    pub fn advance_to(&self, time_ns: u64) {
        self.0.fetch_max(time_ns, Ordering::Relaxed);
    }
}
