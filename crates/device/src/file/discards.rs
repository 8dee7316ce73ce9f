//! Discards on kernels whose rings do not know them (before Linux 6.12): calls that wait for the device, on a thread, as whoever polls a device may not wait.

use super::kernel;
use crate::bell::Bell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A range of the device, and what it is known by.
struct Asked {
    slot: usize,
    offset_bytes: u64,
    len_bytes: u64,
}

/// The thread. It ends with this value, and with what it is at then.
pub(super) struct Discards {
    asked: Option<Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<(usize, i32)>,
    bell: Arc<Bell>,
    is_given_up: Arc<AtomicBool>,
    /// Asked, and not taken back.
    pub in_flight: usize,
    /// The ring waits for the bell.
    pub is_awaited: bool,
}

impl Discards {
    /// Without anything to do.
    ///
    /// # Errors
    /// Where the system gives no descriptor, or no thread.
    pub fn begin(fd: &OwnedFd) -> io::Result<Self> {
        Self::begin_with(fd.try_clone()?, |fd, offset_bytes, len_bytes| {
            kernel::discard(fd.as_fd(), offset_bytes, len_bytes)
        })
    }

    pub(super) fn begin_with(
        fd: OwnedFd,
        discard: impl Fn(&OwnedFd, u64, u64) -> i32 + Send + 'static,
    ) -> io::Result<Self> {
        let bell = Arc::new(Bell::new()?);
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (asked, to_do) = channel::<Asked>();
        let (end, ended) = channel();
        let (rung, given_up) = (Arc::clone(&bell), Arc::clone(&is_given_up));
        let work = move || {
            for Asked { slot, offset_bytes, len_bytes } in to_do {
                let is_over = given_up.load(Ordering::Relaxed);
                if is_over || end.send((slot, discard(&fd, offset_bytes, len_bytes))).is_err() {
                    return;
                }
                rung.ring();
            }
        };
        let thread = Some(std::thread::Builder::new().name("discard".to_owned()).spawn(work)?);
        Ok(Self { asked: Some(asked), thread, ended, bell, is_given_up, in_flight: 0, is_awaited: false })
    }

    /// Asks for one; false where the thread has gone.
    pub fn ask(&mut self, slot: usize, offset_bytes: u64, len_bytes: u64) -> bool {
        let asked = Asked { slot, offset_bytes, len_bytes };
        let is_asked = self.asked.as_ref().is_some_and(|to| to.send(asked).is_ok());
        self.in_flight += usize::from(is_asked);
        is_asked
    }

    /// One that has ended: what it is known by, and its result.
    pub fn take(&mut self) -> Option<(usize, i32)> {
        let ended = self.ended.try_recv().ok()?;
        self.in_flight -= 1;
        Some(ended)
    }

    /// The bell was heard.
    pub fn heard(&mut self) {
        self.bell.clear();
        self.is_awaited = false;
    }

    /// Readable once one has ended.
    pub fn fd(&self) -> i32 {
        self.bell.fd()
    }
}

impl Drop for Discards {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.asked = None;
        // Its descriptor keeps others from a block device. One that the device keeps is not waited for.
        if self.in_flight == 0
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
