//! The device as its successive clients see it: their configuration, their requests to the server, and the results.

use super::chain::len_bytes;
use super::device::{EVENT_IDX, FLUSH, PROTOCOL_FEATURES, QUEUES_MAX, features};
use super::inflight::Inflight;
use super::memory::Memory;
use super::request::{Answer, Asked, ID_BYTES, Parsed, Status, parse};
use super::ring::{Next, Ring, RingError};
use super::watchdog::Watchdog;
use crate::frontend::{DoorSide, Event, FrontRequest};
use forebay_volume::{Op, Outcome, RequestError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::os::fd::RawFd;

/// Most requests in flight, and the bytes of their data at which no further request with data is taken.
pub const IN_FLIGHT_MAX: u16 = 256;
const IN_FLIGHT_BYTES_MAX: u64 = 32 << 20;
/// Most requests of one ring in an iteration, and how many of them are taken before the next ring is served.
const TURN_MAX: u16 = 256;
const SHARE: u16 = 8;
/// Interval of a wait for results, after which the server's existence is checked again.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A request in flight.
#[derive(Debug)]
struct Pending {
    /// Ring and head of the request; `None` once its client has gone.
    from: Option<(usize, u16)>,
    answer: Answer,
    held_bytes: u64,
}

/// The state of the thread with its client.
#[derive(Debug)]
pub struct Device {
    side: DoorSide,
    pub size_bytes: u64,
    pub read_only: bool,
    id: [u8; ID_BYTES],
    pub memory: Memory,
    pub rings: Vec<Ring>,
    pub inflight: Option<Inflight>,
    /// Features that the client has accepted.
    pub accepted: u64,
    slots: Vec<Option<Pending>>,
    free: Vec<u16>,
    in_flight_bytes: u64,
    is_stopping: bool,
    /// Ends the connection where a message takes too long.
    pub watchdog: Watchdog,
    /// The ring that is served first.
    first: usize,
    /// Whether anything was done in this iteration.
    has_moved: bool,
}

fn rings() -> Vec<Ring> {
    (0..QUEUES_MAX).map(Ring::new).collect()
}

impl Device {
    /// The device of an export, without a client.
    pub fn new(side: DoorSide, name: &str, size_bytes: u64, read_only: bool) -> Self {
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(name.bytes()).for_each(|(at, byte)| *at = byte);
        Self {
            side,
            size_bytes,
            read_only,
            id,
            memory: Memory::default(),
            rings: rings(),
            inflight: None,
            accepted: 0,
            slots: (0..IN_FLIGHT_MAX).map(|_| None).collect(),
            free: (0..IN_FLIGHT_MAX).rev().collect(),
            in_flight_bytes: 0,
            is_stopping: false,
            watchdog: Watchdog::default(),
            first: 0,
            has_moved: false,
        }
    }

    /// The front end's side of the door, to wait at.
    pub fn side(&self) -> &DoorSide {
        &self.side
    }

    /// Whether the server is stopping or has gone.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping || self.side.is_closed()
    }

    /// Sets the features that the client accepts.
    pub fn accept(&mut self, accepted: u64) -> bool {
        self.accepted = accepted;
        if accepted & PROTOCOL_FEATURES == 0 {
            self.rings.iter_mut().for_each(|ring| ring.set_enabled(true));
        }
        accepted & !features(self.read_only) == 0
    }

    /// Replaces the whole memory. The parts of rings being served must lie in it.
    ///
    /// # Errors
    /// A ring does not lie in the memory.
    pub fn set_memory(&mut self, memory: Memory) -> Result<(), RingError> {
        self.memory = memory;
        let memory = &self.memory;
        self.rings.iter_mut().filter(|ring| ring.is_started()).try_for_each(|ring| ring.find(memory))
    }

    /// Replaces the memory after a region was added or removed. Rings in a removed region are not served until it is
    /// there again.
    pub fn change_memory(&mut self, memory: Memory) {
        self.rings.iter_mut().filter(|ring| ring.is_started()).for_each(|ring| ring.follow(&memory));
        self.memory = memory;
    }

    /// Starts serving a ring.
    pub fn start(&mut self, index: usize) -> Result<(), RingError> {
        self.rings[index].start(&self.memory, self.inflight.as_ref(), self.accepted & EVENT_IDX != 0)
    }

    /// Forgets the client. Its requests in flight end without an answer, so that its next connection submits them
    /// again.
    pub fn forget_client(&mut self) {
        self.memory = Memory::default();
        self.rings = rings();
        self.inflight = None;
        self.accepted = 0;
        self.slots.iter_mut().flatten().for_each(|pending| pending.from = None);
    }

    /// Takes a limited number of requests from the rings, and returns results. Returns whether anything was done.
    ///
    /// # Errors
    /// The client broke a ring.
    pub fn turn(&mut self) -> Result<bool, RingError> {
        self.has_moved = false;
        self.take_events()?;
        self.take_requests()?;
        if self.has_moved {
            self.side.knock();
            for ring in self.rings.iter_mut().filter(|ring| ring.is_started()) {
                ring.notify(self.memory.map())?;
            }
        }
        Ok(self.has_moved)
    }

    /// Waits for the requests in flight of one ring, or of all.
    ///
    /// # Errors
    /// The client broke a ring, or the server has gone or is stopping.
    pub fn drain(&mut self, index: Option<usize>) -> Result<(), DrainError> {
        let _paused = self.watchdog.pause();
        loop {
            self.take_events()?;
            let left = index.map_or(self.side.in_flight(), |index| self.rings[index].in_flight());
            if left == 0 {
                break;
            }
            if self.side.is_closed() {
                return Err(DrainError::ServerGone);
            }
            if self.side.may_sleep() {
                wait(&[(self.side.fd(), PollFlags::IN)], Some(&LOOK))?;
            }
            self.side.awake();
        }
        for ring in self.rings.iter_mut().filter(|ring| ring.is_started()) {
            ring.notify(self.memory.map())?;
        }
        // Requests that a stopping server refused were not carried out, and must not count as completed.
        if self.is_stopping { Err(DrainError::ServerGone) } else { Ok(()) }
    }

    fn take_events(&mut self) -> Result<(), RingError> {
        while let Some(event) = self.side.pop() {
            self.has_moved = true;
            match event {
                Event::Done(token, result) => self.finish(token, result)?,
                Event::Resized(size_bytes) => self.size_bytes = size_bytes,
                Event::Stopping => self.is_stopping = true,
            }
        }
        Ok(())
    }

    /// Takes a few requests of each ring in rotation, beginning with another ring each time, so that no ring has to
    /// wait until another one is empty.
    fn take_requests(&mut self) -> Result<(), RingError> {
        self.first = (self.first + 1) % QUEUES_MAX;
        let mut left = [TURN_MAX; QUEUES_MAX];
        while left.iter().any(|&left| left > 0) {
            for index in (self.first..QUEUES_MAX).chain(0..self.first) {
                for _ in 0..SHARE.min(left[index]) {
                    // A ring without a request, or without one that can be taken now, is examined again in the next
                    // iteration.
                    if !self.take_request(index)? {
                        left[index] = 0;
                        break;
                    }
                    left[index] -= 1;
                }
            }
        }
        Ok(())
    }

    /// Takes one request; returns whether there was one that could be taken.
    fn take_request(&mut self, index: usize) -> Result<bool, RingError> {
        let ring = &mut self.rings[index];
        if !ring.is_pending || !ring.is_served() || self.is_stopping || self.free.is_empty() {
            return Ok(false);
        }
        let may_be_data = self.in_flight_bytes < IN_FLIGHT_BYTES_MAX;
        let Next::Request(head, chain) = ring.next(self.memory.map(), self.inflight.as_ref(), may_be_data)? else {
            return Ok(false);
        };
        self.has_moved = true;
        let Parsed { asked, answer } = parse(self.memory.map(), chain)?;
        match asked {
            Asked::Of { offset_bytes, len_bytes, op } => {
                self.submit(index, head, answer, offset_bytes, len_bytes, op)?
            }
            Asked::Id => {
                let id = self.id;
                self.answer(index, head, &answer, &id, Status::Ok)?;
            }
            Asked::Refused(status) => self.answer(index, head, &answer, &[], status)?,
        }
        Ok(true)
    }

    fn submit(
        &mut self,
        index: usize,
        head: u16,
        answer: Answer,
        offset_bytes: u64,
        len_bytes: u64,
        op: Op,
    ) -> Result<(), RingError> {
        let Some(token) = self.free.pop() else { return self.answer(index, head, &answer, &[], Status::IoError) };
        let held_bytes = if matches!(op, Op::Read | Op::Write(_)) { len_bytes } else { 0 };
        // A driver without flushes expects each completed write to be durable (5.2.6.2).
        let changes = matches!(op, Op::Write(_) | Op::WriteZeroes { .. } | Op::Discard);
        let fua = changes && self.accepted & FLUSH == 0;
        let request = FrontRequest { token, offset_bytes, len_bytes, op, fua, hints: None };
        if self.side.push(request).is_err() {
            // Cannot happen: there are as many tokens as the door allows.
            self.free.push(token);
            return self.answer(index, head, &answer, &[], Status::IoError);
        }
        self.in_flight_bytes += held_bytes;
        self.slots[usize::from(token)] = Some(Pending { from: Some((index, head)), answer, held_bytes });
        Ok(())
    }

    fn finish(&mut self, token: u16, result: Result<Outcome, RequestError>) -> Result<(), RingError> {
        let Some(pending) = self.slots.get_mut(usize::from(token)).and_then(Option::take) else { return Ok(()) };
        self.free.push(token);
        self.in_flight_bytes -= pending.held_bytes;
        let Some((index, head)) = pending.from else { return Ok(()) };
        let answer = &pending.answer;
        match result {
            Ok(Outcome::Data(data)) if data.len() as u64 == len_bytes(&answer.data) => {
                self.answer(index, head, answer, &data, Status::Ok)
            }
            Ok(Outcome::Data(_)) => self.answer(index, head, answer, &[], Status::IoError),
            Ok(_) => self.answer(index, head, answer, &[], Status::Ok),
            // Not answered: the guest submits it again to the next server.
            Err(RequestError::ShuttingDown) => {
                self.is_stopping = true;
                self.rings[index].forget(head);
                Ok(())
            }
            Err(_) => self.answer(index, head, answer, &[], Status::IoError),
        }
    }

    fn answer(
        &mut self,
        index: usize,
        head: u16,
        answer: &Answer,
        data: &[u8],
        status: Status,
    ) -> Result<(), RingError> {
        let written = answer.write(self.memory.map(), data, status)?;
        self.rings[index].complete(self.memory.map(), self.inflight.as_ref(), head, written)
    }
}

/// The reason why requests in flight could not be waited for.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The client broke a ring.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The server has gone or is stopping.
    #[error("the server stops")]
    ServerGone,
    /// The wait itself failed.
    #[error("waiting failed: {0}")]
    Wait(#[from] Errno),
}

/// Waits until one of the descriptors is ready; returns the events of each.
pub fn wait(fds: &[(RawFd, PollFlags)], limit: Option<&Timespec>) -> Result<Vec<PollFlags>, Errno> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|&(fd, flags)| {
            // SAFETY: the caller owns the descriptors, and none is closed before this function returns.
            PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(fd) }, flags)
        })
        .collect();
    match poll(&mut polled, limit) {
        Ok(_) | Err(Errno::INTR) => Ok(polled.iter().map(PollFd::revents).collect()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
pub mod tests;
