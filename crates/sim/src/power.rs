//! The power supply of all devices of a world, counted in requests carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The power supply.
#[derive(Clone, Debug)]
pub struct Power(Arc<[AtomicU64; 2]>);

impl Default for Power {
    fn default() -> Self {
        Self(Arc::new([AtomicU64::new(0), AtomicU64::new(u64::MAX)]))
    }
}

impl Power {
    /// Number of requests that devices have carried out.
    #[must_use]
    pub fn effects(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    /// Fails after `effects` more requests.
    pub fn fail_after(&self, effects: u64) {
        self.0[1].store(self.effects().saturating_add(effects), Ordering::Relaxed);
    }

    /// Whether it has failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.effects() >= self.0[1].load(Ordering::Relaxed)
    }

    /// Switches it on again, without a planned failure.
    pub fn restore(&self) {
        self.0[1].store(u64::MAX, Ordering::Relaxed);
    }

    /// Counts a request; false where there is no power for it.
    pub(crate) fn carry_out(&self) -> bool {
        let is_on = !self.is_off();
        if is_on {
            self.0[0].fetch_add(1, Ordering::Relaxed);
        }
        is_on
    }
}
