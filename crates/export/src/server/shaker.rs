//! Computes TLS handshakes on a thread of its own. A handshake with an RSA key takes about a millisecond of CPU time,
//! during which the event loop would serve nobody. A connection lends its TLS layer to the thread for each step and
//! gets it back afterwards. Sockets stay with the event loop. A ring in each direction connects the two, so that the
//! event loop never waits for a lock held by the thread.

use crate::access::Identity;
use crate::tls::{TlsFailure, TlsStream};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use std::fmt;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Niceness of the thread by setpriority(2), which on Linux applies to a single thread.
const NICE: i32 = 10;
/// Most steps that wait. This is more than the handshakes in progress, because steps of ended connections may still
/// wait.
const WAITING_MAX: usize = 1024;

/// The TLS layer of a connection, with a step of its handshake to compute.
pub struct Job {
    /// Place of the connection.
    pub index: u16,
    /// Generation of the place.
    pub generation: u32,
    /// The TLS layer.
    pub stream: Box<TlsStream>,
    /// Whether the connection still exists.
    pub is_wanted: Arc<AtomicBool>,
}

/// Result of a step: after the last step the client's identity, otherwise `None`.
pub type Step = Result<Option<Identity>, TlsFailure>;

struct Thread {
    jobs: Producer<Job>,
    done: Consumer<(Job, Step)>,
    /// Readable once a step is done.
    bell: Arc<OwnedFd>,
    is_over: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

/// The thread, which is started with the first handshake.
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
    /// Passes a step to the thread. Returns whether the thread was started for it, so that [`Shaker::wake_fd`] is
    /// new.
    ///
    /// # Errors
    /// The system gives no thread, or too many steps wait.
    pub fn pass_on(&mut self, job: Job) -> Result<bool, Error> {
        let is_new = self.thread.as_ref().is_none_or(Thread::has_ended);
        if is_new {
            self.thread = Some(Thread::begin()?);
        }
        let Some(thread) = &mut self.thread else { return Err(ErrorKind::NotFound.into()) };
        match thread.jobs.push(job) {
            Ok(()) => {
                thread.wake();
                Ok(is_new)
            }
            Err(PushError::Full(_)) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// A descriptor that becomes readable once a step is done; `None` where there is no thread.
    pub fn wake_fd(&self) -> Option<i32> {
        self.thread.as_ref().map(|thread| thread.bell.as_raw_fd())
    }

    /// Appends the steps that are done.
    pub fn take_done(&mut self, done: &mut Vec<(Job, Step)>) {
        let Some(thread) = &mut self.thread else { return };
        let mut count = [0; 8];
        // The read fails where nothing is done: another descriptor of the same kind was ready.
        if rustix::io::read(&*thread.bell, &mut count).is_ok() {
            done.extend(std::iter::from_fn(|| thread.done.pop().ok()));
        }
    }
}

impl Thread {
    fn begin() -> Result<Self, Error> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let is_over = Arc::new(AtomicBool::new(false));
        let (jobs, mut waiting) = RingBuffer::new(WAITING_MAX);
        // Room for all waiting steps and the one being computed.
        let (mut ended, done) = RingBuffer::new(WAITING_MAX + 1);
        let (to_ring, asked_to_end) = (Arc::clone(&bell), Arc::clone(&is_over));
        let work = move || {
            // Where there are too few processors for both, the event loop comes first. If the system refuses, the
            // priority stays as it is.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
            while !asked_to_end.load(Ordering::Acquire) {
                match waiting.pop() {
                    Ok(job) => work_on(job, &mut ended, &to_ring),
                    Err(_) => std::thread::park(),
                }
            }
        };
        let handle = Builder::new().name("tls".to_owned()).spawn(work)?;
        Ok(Self { jobs, done, bell, is_over, handle: Some(handle) })
    }

    /// Whether the thread has panicked. Its steps are then left to the time limit of their connections.
    fn has_ended(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn wake(&self) {
        if let Some(handle) = &self.handle {
            handle.thread().unpark();
        }
    }
}

fn work_on(mut job: Job, ended: &mut Producer<(Job, Step)>, bell: &OwnedFd) {
    if !job.is_wanted.load(Ordering::Relaxed) {
        return;
    }
    let step = job.stream.handshake();
    // The ring is full only where the event loop has taken nothing for as long as a whole ring of steps takes. That
    // connection then ends by its time limit.
    let _ = ended.push((job, step));
    // Fails only where the counter is full, and then the descriptor is readable already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // A panic of the thread was printed already.
            let _ = handle.join();
        }
    }
}
