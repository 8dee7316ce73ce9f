//! State shared by the thread and its owner: waiting changes, and the watch's state. The lock is held only for copying, never during I/O.

use super::{Change, WatchState};
use forebay_block::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Most changes that wait.
pub const CHANGES_MAX: usize = 1 << 16;
/// Most extents that wait in changes; one file's may exceed it.
pub const EXTENTS_MAX: usize = 1 << 18;

#[derive(Debug, Default)]
struct Held {
    changes: VecDeque<Change>,
    extents: usize,
    state: WatchState,
}

/// The shared state.
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
        lock(&self.held)
    }

    /// Adds changes; returns the number of changes and extents that are then waiting.
    pub fn put(&self, changes: &mut Vec<Change>) -> (usize, usize) {
        let mut held = self.held();
        held.extents += changes.iter().map(extents).sum::<usize>();
        held.changes.extend(changes.drain(..));
        (held.changes.len(), held.extents)
    }

    /// Takes at most `limit` changes; none if the thread is adding some at this moment.
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

    /// Publishes the watch's state.
    pub fn publish(&self, state: &WatchState) {
        self.held().state.clone_from(state);
    }

    /// The last published state, with the present number of waiting changes.
    pub fn state(&self) -> WatchState {
        let held = self.held();
        WatchState { waiting: held.changes.len(), ..held.state.clone() }
    }

    /// Asks the thread to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the thread was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
