//! What keeps others away from a file or block device for as long as a session uses it.
//!
//! A lock of flock(2), and the claim that O_EXCL makes on a block device, belong to one open file description: if the
//! queues' own took them, a second opening of the same session would meet them as another's.

use crate::file::{OpenMode, kernel, open};
use crate::open_error::OpenError;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The lock of a session on a path: none at first, shared while there are only readers, exclusive from the first writer
/// on, and given up when the last owner of this value is gone.
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
    /// Lost while it was to be made exclusive: others were faster.
    Lost,
    Shared,
    Exclusive,
}

impl Hold {
    /// A hold that holds nothing yet.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, holder: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Holds it for `mode` at least, and gives the file by which it is held. Asks again for as long as `timeout`.
    ///
    /// # Errors
    /// [`OpenError::InUse`] where others have it; or what opening it failed with.
    pub(super) fn take(&self, mode: OpenMode, timeout: Duration) -> Result<Arc<File>, OpenError> {
        // A thread that panicked has left a holder that says what it has.
        let mut holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner);
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
        // A description of its own for writing: a block device is claimed by open(2), and NFS takes an exclusive lock
        // only on a file that is open for writing (flock(2), "NFS details").
        let file = open::open_holder(&self.path, mode)?;
        if let Some(held) = holder.as_mut() {
            // No less atomic than a conversion by flock(2), which gives the old lock up first, too.
            kernel::unlock(held.file.as_fd());
            held.lock = Lock::Lost;
        }
        if let Err(refusal) = open::lock(&file, &self.path, lock == Lock::Exclusive) {
            // The readers that there are want theirs back.
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
        // A ring that was torn down keeps what it knows open for a while, and the lock with it.
        kernel::unlock(self.file.as_fd());
    }
}
