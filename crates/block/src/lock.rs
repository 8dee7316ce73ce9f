//! Locks after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also one whose last holder panicked: for data that is whole at any time, or of which nobody reads what that holder left.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
