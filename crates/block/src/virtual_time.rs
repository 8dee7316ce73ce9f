//! Time that somebody moves by hand: what models and simulations run in.

use crate::queue::Queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds that all who hold a clone share.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Now.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        // One thread moves a world: the atomic is there only because devices and queues must be `Send`.
        self.0.load(Ordering::Relaxed)
    }

    /// Goes on to a time; one that has passed changes nothing.
    pub fn advance_to(&self, time_ns: u64) {
        self.0.fetch_max(time_ns, Ordering::Relaxed);
    }

    /// Shows the time of another who lives in the same world: threads of a simulated machine are moved in turns, each
    /// at a time of its own.
    pub fn show(&self, time_ns: u64) {
        self.0.store(time_ns, Ordering::Relaxed);
    }
}

/// A queue of a target in virtual time. What it does with the thread's time it adds to the clock it was made with.
///
/// Several queues may lead to one device. The device must not be moved beyond the time at which another queue may still
/// hand something over: that is for the one who moves the clock to know.
pub trait VirtualQueue: Queue {
    /// When the thread could next see an I/O finished that the device has finished already; `u64::MAX` where none.
    fn next_seen_ns(&self) -> u64;

    /// When something happens next in the device below, for whichever queue; `u64::MAX` where it is idle.
    fn next_event_ns(&self) -> u64;

    /// Lets everything happen in the device up to and including a time, but no further than to the first at which a
    /// queue of it could see something finished.
    fn advance(&mut self, to_ns: u64);
}
