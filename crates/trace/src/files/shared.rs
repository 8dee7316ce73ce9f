//! What the thread and its taker share: the changes that wait, and the state. Held for as long as it takes to copy, never
//! during I/O.

use super::{Change, WatchState};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Most changes that wait; and most extents in them, but for one file's.
pub const CHANGES_MAX: usize = 1 << 16;
/// Most extents that wait in changes.
pub const EXTENTS_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
struct Held {
    changes: VecDeque<Change>,
    extents: usize,
    state: WatchState,
}

/// The shared part.
#[derive(Debug, Default)]
pub struct Shared {
    held: Mutex<Held>,
    stop: AtomicBool,
}

fn extents(change: &Change) -> usize {
    match change {
        Change::File { extents: Some(extents), .. } => extents.len(),
        _ => 0,
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing that can panic is done while it is held.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands changes over; how many changes and extents wait then.
    pub fn put(&self, changes: &mut Vec<Change>) -> (usize, usize) {
        let mut held = self.held();
        held.extents += changes.iter().map(extents).sum::<usize>();
        held.changes.extend(changes.drain(..));
        (held.changes.len(), held.extents)
    }

    /// Takes changes, at most `limit`; none where the thread is just handing some over.
    pub fn take(&self, limit: usize, out: &mut Vec<Change>) {
        let mut held = match self.held.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let count = limit.min(held.changes.len());
        let before = out.len();
        out.extend(held.changes.drain(..count));
        held.extents -= out[before..].iter().map(extents).sum::<usize>();
    }

    /// Tells the state.
    pub fn publish(&self, state: &WatchState) {
        self.held().state.clone_from(state);
    }

    /// The state as it was reported last, with what waits now.
    pub fn state(&self) -> WatchState {
        let held = self.held();
        WatchState { waiting: held.changes.len(), ..held.state.clone() }
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
