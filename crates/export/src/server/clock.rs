//! The clock of the event loop.

use rustix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Time since boot: never negative, and 64 bits last 584 years.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
