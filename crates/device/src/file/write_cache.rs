//! Whether a block device that had no volatile write cache when it was opened has one now: somebody may switch it on (`hdparm -W1`, sysfs),
//! and a drive that was replaced below md or dm may have one. Who opened the device takes it for one that needs no flush, and sends none.

use super::kernel;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
    writes_through: Arc<AtomicBool>,
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
        let writes_through = Arc::new(AtomicBool::new(false));
        let (ends, ended) = mpsc::channel();
        let watched = Watched { name: name.to_owned(), says, file, writes_through: writes_through.clone() };
        std::thread::Builder::new().name("write-cache".to_owned()).spawn(move || {
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watched.look();
            }
        })?;
        Ok(Self { writes_through, _ends: ends })
    }

    /// Whether each change is to be made durable by itself, as nobody will flush it.
    pub(super) fn writes_through(&self) -> bool {
        self.writes_through.load(Ordering::Acquire)
    }
}

struct Watched {
    name: PathBuf,
    says: PathBuf,
    file: File,
    writes_through: Arc<AtomicBool>,
}

impl Watched {
    fn look(&self) {
        // Where nothing can be read the device is gone, and its requests tell that.
        let Ok(says) = std::fs::read_to_string(&self.says) else { return };
        let (name, is_on) = (self.name.display(), is_volatile(Some(&says)));
        if self.writes_through.swap(is_on, Ordering::AcqRel) == is_on {
            return;
        }
        if !is_on {
            info!("{name}: its volatile write cache is off again");
            return;
        }
        warn!(
            "{name}: its volatile write cache was switched on. Each write is made durable by itself from now on, which is slow, and what was \
             written within the last second before this was not. Switch the cache off again, or restart the server, which then flushes it"
        );
        let result = kernel::sync_data(self.file.as_fd());
        if result < 0 {
            let reason = std::io::Error::from_raw_os_error(-result);
            error!(
                "{name}: what came into its write cache could not be flushed ({reason}): a power cut loses it. Restart the server, and look after the device"
            );
        }
    }
}
