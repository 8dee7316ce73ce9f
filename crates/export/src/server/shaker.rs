//! TLS handshakes on a thread of their own. One costs about a millisecond of arithmetic with a key of RSA, in which the loop would
//! serve nobody: a client in its handshake lends its TLS to the thread for each step and has it back afterwards. Sockets stay
//! with the loop. Between the two is a ring each way, so that the loop never waits for a lock that the thread holds.

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

/// How much less of a processor the thread gets than others, by setpriority(2), which on Linux is of a thread.
const NICE: i32 = 10;
/// Steps that may wait: more than connections that may be in their handshake, since some of those that wait have gone.
const WAITING_MAX: usize = 1024;

/// A connection's TLS with a step of its handshake to do.
pub struct Job {
    /// The connection's place.
    pub index: u16,
    /// The generation of that place.
    pub generation: u32,
    /// Its TLS.
    pub stream: Box<TlsStream>,
    /// Whether the connection is still there.
    pub is_wanted: Arc<AtomicBool>,
}

/// What came of a step: the client's identity where it was the last.
pub type Step = Result<Option<Identity>, TlsFailure>;

struct Thread {
    jobs: Producer<Job>,
    done: Consumer<(Job, Step)>,
    /// Readable once something is done.
    bell: Arc<OwnedFd>,
    is_over: Arc<AtomicBool>,
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
    /// Where the system gives no thread, or too much waits.
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

    /// Readable once something is done.
    pub fn wake_fd(&self) -> Option<i32> {
        self.thread.as_ref().map(|thread| thread.bell.as_raw_fd())
    }

    /// Appends what is done.
    pub fn take_done(&mut self, done: &mut Vec<(Job, Step)>) {
        let Some(thread) = &mut self.thread else { return };
        let mut count = [0; 8];
        // Nothing there: another descriptor of the same kind was ready.
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
        // As many as can wait, and the one that is being done.
        let (mut ended, done) = RingBuffer::new(WAITING_MAX + 1);
        let (to_ring, asked_to_end) = (Arc::clone(&bell), Arc::clone(&is_over));
        let work = move || {
            // Behind the loop where there are too few processors for both; where the system does not let us it is as it was.
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

    /// Whether it has panicked. What it had to do then waits for the time limit of the connections.
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
    // Full it can only be where the loop has taken nothing for as long as a ring of steps takes; that connection ends by its time limit.
    let _ = ended.push((job, step));
    // Fails only where the counter is full, and then it is readable.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.wake();
        if let Some(handle) = self.handle.take() {
            // It has panicked otherwise, which has been said.
            let _ = handle.join();
        }
    }
}
