//! TLS handshakes on a thread of their own. One costs about a millisecond of arithmetic with the server's key, in which the loop would
//! serve nobody: a client in its handshake lends its TLS to the thread for each step and has it back afterwards. Sockets stay
//! with the loop.

use crate::access::Identity;
use crate::tls::{TlsFailure, TlsStream};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The thread's nice value: where there are fewer cores than work, I/O goes before handshakes.
const NICE: i32 = 10;

/// A connection's TLS with a step of its handshake to do.
pub struct Job {
    /// The connection's place.
    pub index: u16,
    /// The generation of that place.
    pub generation: u32,
    /// Its TLS.
    pub stream: Box<TlsStream>,
}

/// What came of a step: the client's identity where it was the last.
pub type Step = Result<Option<Identity>, TlsFailure>;

#[derive(Default)]
struct Queue {
    /// At most one for each connection in its handshake.
    waiting: VecDeque<Job>,
    done: Vec<(Job, Step)>,
    is_over: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    /// Readable once something is done.
    bell: OwnedFd,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Thread {
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

/// The thread, which begins with the first handshake.
#[derive(Default)]
pub struct Shaker {
    thread: Option<Thread>,
}

impl fmt::Debug for Shaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaker").field("is_running", &self.thread.is_some()).finish_non_exhaustive()
    }
}

impl Shaker {
    /// Has a step done. Returns whether the thread was begun for it, so that [`Shaker::wake_fd`] is new.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn hand_over(&mut self, job: Job) -> Result<bool, std::io::Error> {
        let (thread, is_new) = match &mut self.thread {
            Some(thread) => (thread, false),
            none => (none.insert(Thread::begin()?), true),
        };
        thread.shared.queue().waiting.push_back(job);
        thread.shared.work.notify_one();
        Ok(is_new)
    }

    /// Readable once something is done.
    pub fn wake_fd(&self) -> Option<i32> {
        self.thread.as_ref().map(|thread| thread.shared.bell.as_raw_fd())
    }

    /// The connection is gone: what it had waiting is not done any more.
    pub fn forget(&mut self, index: u16, generation: u32) {
        if let Some(thread) = &self.thread {
            thread.shared.queue().waiting.retain(|job| (job.index, job.generation) != (index, generation));
        }
    }

    /// What is done.
    pub fn take_done(&mut self) -> Vec<(Job, Step)> {
        let Some(thread) = &self.thread else { return Vec::new() };
        let mut count = [0; 8];
        // Nothing there: another descriptor of the same kind was ready.
        match rustix::io::read(&thread.shared.bell, &mut count) {
            Ok(_) => std::mem::take(&mut thread.shared.queue().done),
            Err(_) => Vec::new(),
        }
    }
}

impl Thread {
    fn begin() -> Result<Self, std::io::Error> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { queue: Mutex::default(), work: Condvar::new(), bell });
        let of_thread = Arc::clone(&shared);
        let handle = Builder::new().name("tls".to_owned()).spawn(move || of_thread.work())?;
        Ok(Self { shared, handle: Some(handle) })
    }
}

impl Shared {
    fn work(&self) {
        // Of this thread alone (setpriority(2), "C library/kernel differences"). Without it handshakes are done all the same.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return;
            }
            let Some(mut job) = queue.waiting.pop_front() else {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let step = job.stream.handshake();
            queue = self.queue();
            queue.done.push((job, step));
            // Fails only where the counter is full, and then it is readable.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.queue().is_over = true;
        self.shared.work.notify_one();
        if let Some(handle) = self.handle.take() {
            // It has panicked otherwise, which has been said.
            let _ = handle.join();
        }
    }
}
