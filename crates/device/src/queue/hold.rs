//! Keeps others away from a file or block device as long as a session uses it.
//!
//! A lock of flock(2) and the claim of O_EXCL on a block device belong to one open file description. If the queues'
//! own descriptions took them, a second opening in the same session would conflict with the first. So one description
//! of its own holds them.

use crate::file::{OpenMode, kernel, open};
use crate::open_error::OpenError;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The lock of a session on a path: none at first, shared while there are only readers, exclusive from the first
/// writer on. It is released when the last owner of this value is gone.
#[derive(Debug)]
pub(super) struct Hold {
    path: PathBuf,
    holder: Mutex<Option<Holder>>,
}

#[derive(Debug)]
struct Holder {
    file: Arc<File>,
    lock: Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    /// Lost while it was being made exclusive, because another process was faster.
    Lost,
    Shared,
    Exclusive,
}

impl Hold {
    /// A hold that does not lock yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, holder: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks for at least `mode`, and returns the file that carries the lock. Retries for up to `timeout`.
    ///
    /// # Errors
    /// [`OpenError::InUse`] where others hold the path; or the error of opening it.
    pub(super) fn take(&self, mode: OpenMode, timeout: Duration) -> Result<Arc<File>, OpenError> {
        // A thread that panicked has left a holder that says what it has.
        let mut holder = forebay_block::lock(&self.holder);
        open::retry_while_in_use(timeout, || self.take_once(&mut holder, mode))
    }

    fn take_once(&self, holder: &mut Option<Holder>, mode: OpenMode) -> Result<Arc<File>, OpenError> {
        let lock = if mode == OpenMode::ReadWrite { Lock::Exclusive } else { Lock::Shared };
        if let Some(held) = holder.as_mut() {
            if held.lock == Lock::Lost {
                open::lock(&held.file, &self.path, false)?;
                held.lock = Lock::Shared;
            }
            if held.lock == lock || held.lock == Lock::Exclusive {
                return Ok(Arc::clone(&held.file));
            }
        }
        // A new description for writing: open(2) claims a block device, and NFS takes an exclusive lock only on a
        // file that is open for writing (flock(2), "NFS details").
        let file = open::open_holder(&self.path, mode)?;
        if let Some(held) = holder.as_mut() {
            // Not atomic, but neither is a conversion by flock(2), which releases the old lock first, too.
            kernel::unlock(held.file.as_fd());
            held.lock = Lock::Lost;
        }
        if let Err(refusal) = open::lock(&file, &self.path, lock == Lock::Exclusive) {
            // The existing readers need their shared lock back.
            if let Some(held) = holder.as_mut().filter(|held| open::lock(&held.file, &self.path, false).is_ok()) {
                held.lock = Lock::Shared;
            }
            return Err(refusal);
        }
        let file = Arc::new(file);
        *holder = Some(Holder { file: Arc::clone(&file), lock });
        Ok(file)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A ring that was torn down keeps its files open for a while, and the lock with them, so the lock is released
        // explicitly.
        kernel::unlock(self.file.as_fd());
    }
}
