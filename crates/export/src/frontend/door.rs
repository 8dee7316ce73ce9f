//! A door between the server and a front end on its own thread: a ring in each direction, and a bell in each
//! direction to wake a sleeper.
//!
//! Neither side waits for the other. After a push into a ring, a side rings the other's bell only if the other has
//! declared that it sleeps. Each side stores first and then looks, with a full fence between (Dekker's algorithm). So
//! at least one of the two sees the other: the sleeper finds the new entry, or the pusher finds the sleeper.

use super::{FrontRequest, Frontend, FrontendError};
use crate::server::Peer;
use forebay_block::lock;
use forebay_volume::{Outcome, RequestError};
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

/// Most requests taken in one iteration, so that one door does not hold up the others.
const RECEIVE_MAX: usize = 256;
/// No new size is to be reported. Real sizes are multiples of 512.
const NO_SIZE: u64 = u64::MAX;

/// An eventfd that is rung only while its owner sleeps.
#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    fn new() -> Result<Self, FrontendError> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|source| FrontendError::System { operation: "eventfd", source })?;
        Ok(Self { fd, asleep: AtomicBool::new(false) })
    }

    /// Rings the bell if the owner sleeps. To be called after an entry was pushed.
    fn ring_if_asleep(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            self.ring();
        }
    }

    fn ring(&self) {
        // Fails only where the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Declares that the owner is about to sleep. The owner must look for entries once more after this.
    fn sleeps(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        let mut count = [0; 8];
        // Fails where the bell was not rung.
        let _ = rustix::io::read(&self.fd, &mut count);
    }
}

/// A request's token and its result.
type End = (u16, Result<Outcome, RequestError>);

/// An event from the server for the front end's thread.
#[derive(Debug)]
pub enum Event {
    /// The request with this token has completed.
    Done(u16, Result<Outcome, RequestError>),
    /// The export has this new size, in bytes.
    Resized(u64),
    /// The server is stopping; requests submitted from now on are refused.
    Stopping,
}

/// A request that was not accepted, because as many are in flight as the door allows.
#[derive(Debug)]
pub struct Refused(pub FrontRequest);

#[derive(Debug)]
struct Shared {
    server: Bell,
    front: Bell,
    /// Whether the server, or the thread, has dropped its side. Stored beside the rings, so that it is set before the
    /// bell rings.
    server_gone: AtomicBool,
    front_gone: AtomicBool,
    /// The new size to be reported, or [`NO_SIZE`].
    size_bytes: AtomicU64,
    stopping: AtomicBool,
    peer: Mutex<Option<Peer>>,
    clients: AtomicU64,
}

/// The server's side of the door.
#[derive(Debug)]
pub struct Door {
    requests: Consumer<FrontRequest>,
    ends: Producer<End>,
    shared: Arc<Shared>,
    has_sent: bool,
    was_asleep: bool,
}

/// The front end's side of the door.
#[derive(Debug)]
pub struct DoorSide {
    requests: Producer<FrontRequest>,
    ends: Consumer<End>,
    shared: Arc<Shared>,
    in_flight: usize,
    in_flight_max: usize,
}

/// Opens a door for at most `in_flight_max` requests in flight (1 to 65,535).
///
/// # Errors
/// The system gives no descriptors.
pub fn open_door(in_flight_max: u16) -> Result<(Door, DoorSide), FrontendError> {
    let in_flight_max = usize::from(in_flight_max.max(1));
    let shared = Arc::new(Shared {
        server: Bell::new()?,
        front: Bell::new()?,
        server_gone: AtomicBool::new(false),
        front_gone: AtomicBool::new(false),
        size_bytes: AtomicU64::new(NO_SIZE),
        stopping: AtomicBool::new(false),
        peer: Mutex::new(None),
        clients: AtomicU64::new(0),
    });
    let (to_server, requests) = RingBuffer::new(in_flight_max);
    let (to_front, ends) = RingBuffer::new(in_flight_max);
    let door = Door { requests, ends: to_front, shared: Arc::clone(&shared), has_sent: false, was_asleep: false };
    Ok((door, DoorSide { requests: to_server, ends, shared, in_flight: 0, in_flight_max }))
}

impl Frontend for Door {
    fn wake_fds(&self, out: &mut Vec<i32>) {
        out.push(self.shared.server.fd.as_raw_fd());
    }

    fn receive(&mut self, requests: &mut Vec<FrontRequest>) -> Result<(), FrontendError> {
        for _ in 0..RECEIVE_MAX {
            match self.requests.pop() {
                Ok(request) => requests.push(request),
                // Looks once more, for requests that were submitted just before the thread ended.
                Err(_) if self.shared.front_gone.load(Ordering::Acquire) && self.requests.is_empty() => {
                    return Err(FrontendError::Gone);
                }
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn complete(&mut self, token: u16, result: Result<Outcome, RequestError>) {
        self.has_sent = true;
        // The ring has room for all requests in flight. It can be full only where the thread has exceeded the limit.
        let _ = self.ends.push((token, result));
    }

    fn send(&mut self) -> Result<(), FrontendError> {
        if std::mem::take(&mut self.has_sent) {
            self.shared.front.ring_if_asleep();
        }
        Ok(())
    }

    fn may_sleep(&mut self) -> bool {
        self.was_asleep = true;
        self.shared.server.sleeps();
        self.requests.is_empty() && !self.shared.front_gone.load(Ordering::Acquire)
    }

    fn awake(&mut self) {
        // Saves a system call in each iteration of a busy server.
        if std::mem::take(&mut self.was_asleep) {
            self.shared.server.awake();
        }
    }

    fn resized(&mut self, size_bytes: u64) {
        self.shared.size_bytes.store(size_bytes, Ordering::Release);
        self.shared.front.ring_if_asleep();
    }

    fn begin_shutdown(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.shared.front.ring_if_asleep();
    }

    fn peer(&self) -> Option<Peer> {
        *lock(&self.shared.peer)
    }

    fn clients(&self) -> u64 {
        self.shared.clients.load(Ordering::Acquire)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shared.server_gone.store(true, Ordering::Release);
        self.shared.front.ring();
    }
}

impl DoorSide {
    /// Submits a request. Call [`DoorSide::knock`] after the last of several.
    ///
    /// # Errors
    /// Returns the request where as many are in flight as the door allows.
    pub fn push(&mut self, request: FrontRequest) -> Result<(), Refused> {
        if self.in_flight >= self.in_flight_max {
            return Err(Refused(request));
        }
        match self.requests.push(request) {
            Ok(()) => {
                self.in_flight += 1;
                Ok(())
            }
            Err(PushError::Full(request)) => Err(Refused(request)),
        }
    }

    /// Wakes the server, if it sleeps.
    pub fn knock(&self) {
        self.shared.server.ring_if_asleep();
    }

    /// The next event from the server; `None` where there is none.
    pub fn pop(&mut self) -> Option<Event> {
        if self.shared.size_bytes.load(Ordering::Relaxed) != NO_SIZE {
            return Some(Event::Resized(self.shared.size_bytes.swap(NO_SIZE, Ordering::Acquire)));
        }
        if self.shared.stopping.load(Ordering::Relaxed) && self.shared.stopping.swap(false, Ordering::Acquire) {
            return Some(Event::Stopping);
        }
        let (token, result) = self.ends.pop().ok()?;
        self.in_flight -= 1;
        Some(Event::Done(token, result))
    }

    /// Whether the server has dropped its side, and no event is left.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.server_gone.load(Ordering::Acquire) && self.ends.is_empty()
    }

    /// Requests submitted and not completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A descriptor that becomes readable with an event, after [`DoorSide::may_sleep`] was called.
    #[must_use]
    pub fn fd(&self) -> i32 {
        self.shared.front.fd.as_raw_fd()
    }

    /// Whether no event waits. If so, the descriptor signals events from now on. Call [`DoorSide::awake`] afterwards
    /// in any case.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.shared.front.sleeps();
        let is_quiet =
            self.shared.size_bytes.load(Ordering::Relaxed) == NO_SIZE && !self.shared.stopping.load(Ordering::Relaxed);
        is_quiet && self.ends.is_empty() && !self.shared.server_gone.load(Ordering::Acquire)
    }

    /// Must be called after the sleep, or instead of it.
    pub fn awake(&self) {
        self.shared.front.awake();
    }

    /// Names the client that uses the export now; `None`: no client. No request of the former client may be in
    /// flight.
    pub fn set_peer(&self, peer: Option<Peer>) {
        self.shared.clients.fetch_add(u64::from(peer.is_some()), Ordering::Release);
        *lock(&self.shared.peer) = peer;
    }
}

impl Drop for DoorSide {
    fn drop(&mut self) {
        self.shared.front_gone.store(true, Ordering::Release);
        self.shared.server.ring();
    }
}
