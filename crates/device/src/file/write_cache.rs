//! Whether a block device that had no volatile write cache when it was opened has one now: somebody may switch it on (`hdparm -W1`, sysfs),
//! and a drive that was replaced below md or dm may have one. Who opened the device takes it for one that needs no flush, and sends none.

use super::kernel;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use tracing::{error, info, warn};

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// Whether what sysfs says of a cache means that flushes are needed. Without an answer the worse one is the safe one.
pub(super) fn is_volatile(says: Option<&str>) -> bool {
    says.is_none_or(|text| text.trim() != "write through")
}

/// A look at the cache each second, as long as this lives.
pub(super) struct CacheWatch {
    writes_through: &'static AtomicBool,
    /// The thread ends when this is dropped.
    _ends: Sender<()>,
}

impl CacheWatch {
    /// Looks at what `says` names from now on. What `file`, the device, was given before the cache was found to be on is flushed then.
    /// `None`: the system refuses what that takes, and the log says so.
    pub(super) fn begin(name: &Path, says: PathBuf, file: &File) -> Option<Self> {
        Self::try_begin(name, says, file)
            .inspect_err(|error| {
                warn!("{}: nobody looks whether its volatile write cache is switched on ({error}): restart the server where you do that", name.display());
            })
            .ok()
    }

    fn try_begin(name: &Path, says: PathBuf, file: &File) -> std::io::Result<Self> {
        // Opened anew, for reading: a copy of the descriptor would keep others from the device as long as the thread has it.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        // A byte for each opening, for ever: requests in flight have it, which are as small as without.
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

    /// Whether each change is to be made durable by itself, as nobody will flush it.
    pub(super) fn writes_through(&self) -> &'static AtomicBool {
        self.writes_through
    }
}

struct Watched {
    name: PathBuf,
    says: PathBuf,
    file: File,
    writes_through: &'static AtomicBool,
    /// What came into the cache before it was seen is to be flushed.
    is_unflushed: bool,
    /// That failed, and was said.
    has_failed: bool,
}

impl Watched {
    fn look(&mut self) {
        // Where nothing can be read the device is gone, and its requests tell that.
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

    /// What ends from now on is flushed by itself; what had ended before is flushed here, and again where that fails.
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

    /// Also where there are no block devices to switch.
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
