//! Watches a block device that had no volatile write cache when it was opened. Somebody may switch the cache on
//! (`hdparm -W1`, sysfs), or a replaced drive below md or dm may have one. The user of the device believes that no
//! flush is needed, and sends none.

use super::kernel;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use tracing::{error, info, warn};

/// Interval of the checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether the content of sysfs's `write_cache` means that flushes are needed. Without an answer they are: that is
/// the safe assumption.
pub(super) fn is_volatile(says: Option<&str>) -> bool {
    says.is_none_or(|text| text.trim() != "write through")
}

/// A thread that checks the cache each second, until this is dropped.
pub(super) struct CacheWatch {
    writes_through: &'static AtomicBool,
    /// Dropping this sender ends the thread.
    _ends: Sender<()>,
}

impl CacheWatch {
    /// Starts to watch the sysfs file `says`. When the cache is found to be on, the device `file` is flushed, so that
    /// writes which completed before are durable. `None` where the system gives no thread or descriptor; this is
    /// logged.
    pub(super) fn begin(name: &Path, says: PathBuf, file: &File) -> Option<Self> {
        Self::try_begin(name, says, file)
            .inspect_err(|error| {
                warn!("{}: nobody looks whether its volatile write cache is switched on ({error}): restart the server where you do that", name.display());
            })
            .ok()
    }

    fn try_begin(name: &Path, says: PathBuf, file: &File) -> std::io::Result<Self> {
        // Opened again, for reading: a duplicate of the descriptor would keep the exclusive claim on the device as
        // long as the thread lives.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        // Leaks one byte per opening. Requests in flight can then hold a plain reference, which takes no more space
        // than none.
        let writes_through: &AtomicBool = Box::leak(Box::default());
        let (ends, ended) = mpsc::channel();
        let mut watched =
            Watched { name: name.to_owned(), says, file, writes_through, is_unflushed: false, has_failed: false };
        std::thread::Builder::new().name("write-cache".to_owned()).spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watched.look();
            }
        })?;
        Ok(Self { writes_through, _ends: ends })
    }

    /// Whether each write must be made durable before it completes, because nobody flushes the device.
    pub(super) fn writes_through(&self) -> &'static AtomicBool {
        self.writes_through
    }
}

struct Watched {
    name: PathBuf,
    says: PathBuf,
    file: File,
    writes_through: &'static AtomicBool,
    /// Writes that completed before the cache was noticed still need a flush.
    is_unflushed: bool,
    /// The flush of these writes failed, and the failure was logged.
    has_failed: bool,
}

impl Watched {
    fn look(&mut self) {
        // Where the file cannot be read, the device is gone, and its requests report that.
        let Ok(says) = std::fs::read_to_string(&self.says) else { return };
        let is_on = is_volatile(Some(&says));
        let was_on = self.writes_through.swap(is_on, Ordering::AcqRel);
        let name = self.name.display();
        match (was_on, is_on) {
            (false, true) => {
                warn!(
                    "{name}: its volatile write cache was switched on. Each write is made durable by itself from now on, which is slow, and what \
                     was written within the last second before this was not. Switch the cache off again, or restart the server, which then flushes it"
                );
                (self.is_unflushed, self.has_failed) = (true, false);
            }
            (true, false) => info!("{name}: its volatile write cache is off again"),
            _ => {}
        }
        if self.is_unflushed {
            self.flush();
        }
    }

    /// Writes that complete from now on are flushed by themselves. Those that completed before are flushed here; a
    /// failed flush is repeated.
    fn flush(&mut self) {
        let result = kernel::sync_data(self.file.as_fd());
        self.is_unflushed = result < 0;
        if result < 0 && !std::mem::replace(&mut self.has_failed, true) {
            let (name, reason) = (self.name.display(), std::io::Error::from_raw_os_error(-result));
            error!(
                "{name}: what came into its write cache could not be flushed ({reason}): a power cut loses it. It is tried again each second; look after \
                 the device"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_off_only_where_that_is_said() {
        assert!(!is_volatile(Some("write through")) && !is_volatile(Some("write through\n")));
        assert!(is_volatile(Some("write back")) && is_volatile(Some("write around")) && is_volatile(None));
    }

    /// Uses ordinary files, so that it runs without a block device to switch.
    #[test]
    fn what_is_said_of_the_cache_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("says"), "write through\n").unwrap();
        let file = File::create(path("device")).unwrap();
        let watch = CacheWatch::begin(&path("device"), path("says"), &file).unwrap();
        let until = |is_on: bool| {
            let begun = std::time::Instant::now();
            while watch.writes_through().load(Ordering::Acquire) != is_on {
                assert!(begun.elapsed().as_secs() < 20, "not seen");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        until(false);
        std::fs::write(path("says"), "write back\n").unwrap();
        until(true);
        std::fs::write(path("says"), "write through\n").unwrap();
        until(false);
    }
}
