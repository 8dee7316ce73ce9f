//! Discards on kernels whose rings do not support them (before Linux 6.12). The blocking calls run on a thread,
//! because a caller that polls the device must not block.

use super::kernel;
use crate::bell::Bell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A range to discard, with the slot of its request.
struct Asked {
    slot: usize,
    offset_bytes: u64,
    len_bytes: u64,
}

/// The thread. It ends when this is dropped, after the call that it is in.
pub(super) struct Discards {
    asked: Option<Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    ended: Receiver<(usize, i32)>,
    bell: Arc<Bell>,
    is_given_up: Arc<AtomicBool>,
    /// Discards passed to the thread whose results were not taken.
    pub in_flight: usize,
    /// Whether the ring polls the bell's descriptor.
    pub is_awaited: bool,
}

impl Discards {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no descriptor, or no thread.
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

    /// Passes a discard to the thread; false where the thread has ended.
    pub fn ask(&mut self, slot: usize, offset_bytes: u64, len_bytes: u64) -> bool {
        let asked = Asked { slot, offset_bytes, len_bytes };
        let is_asked = self.asked.as_ref().is_some_and(|to| to.send(asked).is_ok());
        self.in_flight += usize::from(is_asked);
        is_asked
    }

    /// Slot and result of a discard that has ended.
    pub fn take(&mut self) -> Option<(usize, i32)> {
        let ended = self.ended.try_recv().ok()?;
        self.in_flight -= 1;
        Some(ended)
    }

    /// Clears the bell after the ring has reported it.
    pub fn heard(&mut self) {
        self.bell.clear();
        self.is_awaited = false;
    }

    /// A descriptor that becomes readable when a discard has ended.
    pub fn fd(&self) -> i32 {
        self.bell.fd()
    }
}

impl Drop for Discards {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.asked = None;
        // The thread's descriptor keeps others from opening a block device exclusively, so its end is awaited, unless
        // the device holds it up.
        if self.in_flight == 0
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}
