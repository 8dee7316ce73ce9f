//! A clock that is moved by hand, for models and simulations.

use crate::queue::Queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A time in nanoseconds, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// The present time, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        // Only one thread moves the clock. It is atomic because devices and queues must be `Send`.
        self.0.load(Ordering::Relaxed)
    }

    /// Advances to a time; does nothing where that time has passed.
    pub fn advance_to(&self, time_ns: u64) {
        self.0.fetch_max(time_ns, Ordering::Relaxed);
    }

    /// Sets the time of another participant, which may be earlier: threads of a simulated machine run in turns, each
    /// at a time of its own.
    pub fn show(&self, time_ns: u64) {
        self.0.store(time_ns, Ordering::Relaxed);
    }
}

/// The queue of a target in virtual time. It adds the thread's CPU time to the clock that it was made with.
///
/// Several queues may lead to one device. The device must not be advanced beyond the time at which another queue may
/// still submit something. The owner of the clock must ensure this.
pub trait VirtualQueue: Queue {
    /// When the thread could next see an I/O that the device has completed already; `u64::MAX` where there is none.
    fn next_seen_ns(&self) -> u64;

    /// When the next event happens in the device below, for any queue; `u64::MAX` where it is idle.
    fn next_event_ns(&self) -> u64;

    /// Processes events in the device up to and including `to_ns`, but stops at the first time at which one of its
    /// queues could see a completion.
    fn advance(&mut self, to_ns: u64);
}

impl<Q: VirtualQueue + ?Sized> VirtualQueue for Box<Q> {
    fn next_seen_ns(&self) -> u64 {
        (**self).next_seen_ns()
    }

    fn next_event_ns(&self) -> u64 {
        (**self).next_event_ns()
    }

    fn advance(&mut self, to_ns: u64) {
        (**self).advance(to_ns);
    }
}
