//! A split virtqueue of the client: takes requests from it, and returns completed requests to it.

use super::chain::{Chain, ChainError, len_bytes, read_chain};
use super::device::QUEUE_SIZE_MAX;
use super::inflight::Inflight;
use super::memory::Memory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, ReadWriteFlags, fcntl_setfd};
use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use thiserror::Error;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestMemoryMmap;

/// Why a ring cannot be used.
#[derive(Debug, Error)]
pub enum RingError {
    /// A chain in the ring is invalid.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A head is offered twice, or lies beyond the ring.
    #[error("head {0} lies beyond the ring, or is in flight already")]
    Head(u16),
    /// The parts of the ring are not in the guest's memory, or moved while in use.
    #[error("its rings are not where they could be: {0}")]
    Place(&'static str),
    /// The ring's memory or its indices are broken.
    #[error("its ring is broken: {0}")]
    Queue(#[from] virtio_queue::Error),
    /// The eventfd does not work.
    #[error("its {0} is no event that works: {1}")]
    Event(&'static str, Errno),
    /// The descriptor is no eventfd; another kind could keep the server waiting.
    #[error("its {0} is no eventfd")]
    NoEvent(&'static str),
    /// The index announced a request, and then no longer did.
    #[error("its index of requests goes back")]
    Back,
}

/// Length of header, range and status of a request, and more: a request of at most this length carries too little
/// data to count against the limit of data in flight.
const SMALL_BYTES: u64 = 64;
/// A timeout of zero.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// The target of an eventfd's link in `/proc/self/fd`.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// What `next` found in the ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A request: its head and its chain.
    Request(u16, Chain),
    /// A request with data, while too much data is in flight. The request stays in the ring.
    NotNow,
    /// No request; the next one causes a kick.
    Nothing,
}

/// The client's addresses of the parts of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The table of descriptors.
    pub table: u64,
    /// The available ring, with the requests that the driver offers.
    pub available: u64,
    /// The used ring, with the requests that the device returns.
    pub used: u64,
}

/// A ring and its state.
#[derive(Debug, Default)]
pub struct Ring {
    index: usize,
    queue: Queue,
    size: u16,
    base: u16,
    addresses: Addresses,
    kick: Option<File>,
    call: Option<File>,
    is_enabled: bool,
    is_started: bool,
    /// Whether its parts are in mapped memory: not so between the removal of a region and its return.
    is_placed: bool,
    /// Whether requests may wait in the ring.
    pub is_pending: bool,
    /// Which heads are in flight; and the heads which the previous server has left, still to be served again.
    taken: Vec<bool>,
    again: VecDeque<u16>,
    counter: u64,
    in_flight: usize,
    has_used: bool,
}

fn event(file: File, what: &'static str) -> Result<File, RingError> {
    let failed = |why| RingError::Event(what, why);
    fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(failed)?;
    let name = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).map_err(failed)?;
    if name.as_bytes() != EVENTFD {
        return Err(RingError::NoEvent(what));
    }
    let flags = fcntl_getfl(&file).map_err(failed)?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(failed)?;
    Ok(file)
}

/// Whether an event can be read, or written, at once.
fn is_ready(event: &File, flags: PollFlags) -> bool {
    let mut polled = [PollFd::new(event, flags)];
    poll(&mut polled, Some(&NOW)).is_ok() && polled[0].revents().contains(flags)
}

/// Reads how often an event was signalled, without waiting, whichever flags the client has set on the open file.
fn take_count(event: &File) -> Result<usize, Errno> {
    let mut count = [0; 8];
    match rustix::io::preadv2(event, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT) {
        // Kernels before 5.8 answer this.
        Err(Errno::OPNOTSUPP) => rustix::io::read(event, &mut count),
        read => read,
    }
}

impl Ring {
    /// The ring with this index, not yet configured.
    pub fn new(index: usize) -> Self {
        Self { index, size: QUEUE_SIZE_MAX, ..Self::default() }
    }

    /// Sets the number of entries.
    pub fn set_size(&mut self, size: u32) -> Result<(), RingError> {
        let fits = u16::try_from(size).ok().filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        match fits {
            Some(size) if !self.is_started => {
                self.size = size;
                Ok(())
            }
            _ => Err(RingError::Place("a size that cannot be")),
        }
    }

    /// Sets the addresses of the ring's parts.
    pub fn set_addresses(&mut self, addresses: Addresses) -> Result<(), RingError> {
        if self.is_started && addresses != self.addresses {
            return Err(RingError::Place("moved while in use"));
        }
        self.addresses = addresses;
        Ok(())
    }

    /// Sets the index of the next request to be taken.
    pub fn set_base(&mut self, base: u32) -> Result<(), RingError> {
        if self.is_started {
            return Err(RingError::Place("moved while in use"));
        }
        // The upper half is for packed rings.
        self.base = base as u16;
        Ok(())
    }

    /// Sets the eventfd by which the client announces requests.
    pub fn set_kick(&mut self, file: File) -> Result<(), RingError> {
        self.kick = Some(event(file, "kick")?);
        // The previous eventfd may have been signalled.
        self.is_pending = true;
        Ok(())
    }

    /// Sets the eventfd by which the server announces completions. The server signals it at once: the previous server
    /// may have died before it did so.
    pub fn set_call(&mut self, file: Option<File>) -> Result<(), RingError> {
        self.call = file.map(|file| event(file, "call")).transpose()?;
        self.ring();
        Ok(())
    }

    /// Sets whether the client wants the ring served.
    pub fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
        self.is_pending = true;
    }

    /// Whether the ring was started.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Whether the server takes requests from the ring.
    pub fn is_served(&self) -> bool {
        self.is_started && self.is_enabled && self.is_placed
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Descriptor that is readable when the client has announced requests; `None` unless the ring is started and has
    /// a kick.
    pub fn kick_fd(&self) -> Option<RawFd> {
        self.kick.as_ref().filter(|_| self.is_started).map(AsRawFd::as_raw_fd)
    }

    /// Starts the ring.
    pub fn start(&mut self, memory: &Memory, inflight: Option<&Inflight>, event_idx: bool) -> Result<(), RingError> {
        let mut queue = Queue::new(QUEUE_SIZE_MAX)?;
        queue.try_set_size(self.size)?;
        queue.set_event_idx(event_idx);
        queue.set_ready(true);
        self.queue = queue;
        self.find(memory)?;
        let used = self.queue.used_idx(memory.map(), Ordering::Acquire)?.0;
        self.queue.set_next_used(used);
        self.taken = vec![false; usize::from(self.size)];
        self.again.clear();
        self.counter = 0;
        match inflight {
            Some(inflight) => {
                if !inflight.covers(self.index, self.size) {
                    return Err(RingError::Place("not covered by the note of what is in flight"));
                }
                let left = inflight.recover(self.index, self.size, used);
                // The number of requests taken is the number of those returned plus those in flight.
                self.queue.set_next_avail(used.wrapping_add(left.heads.len() as u16));
                self.counter = left.counter;
                self.again = left.heads.into();
            }
            None => self.queue.set_next_avail(self.base),
        }
        self.in_flight = 0;
        self.is_started = true;
        self.is_pending = true;
        Ok(())
    }

    /// Looks for the ring's parts in memory, which may have changed. Until it finds them, the ring is not served.
    ///
    /// # Errors
    /// A part lies outside of the memory.
    pub fn find(&mut self, memory: &Memory) -> Result<(), RingError> {
        self.is_placed = false;
        let outside = || RingError::Place("outside of its memory");
        let at = |address| memory.guest_address(address).ok_or_else(outside);
        self.queue.try_set_desc_table_address(at(self.addresses.table)?)?;
        self.queue.try_set_avail_ring_address(at(self.addresses.available)?)?;
        self.queue.try_set_used_ring_address(at(self.addresses.used)?)?;
        if !self.queue.is_valid(memory.map()) {
            return Err(outside());
        }
        self.is_placed = true;
        self.is_pending = true;
        Ok(())
    }

    /// Reacts to a region of memory that was added or removed, which may contain parts of the ring.
    pub fn follow(&mut self, memory: &Memory) {
        self.is_placed = self.is_placed && self.queue.is_valid(memory.map());
        if !self.is_placed {
            // If this fails, the next added region causes another attempt.
            let _ = self.find(memory);
        }
    }

    /// Stops the ring; returns the index of the next request that would be taken. No request of the ring is in flight
    /// any more.
    pub fn stop(&mut self) -> u16 {
        if self.is_started {
            self.base = self.queue.next_avail();
        }
        self.is_started = false;
        self.kick = None;
        self.call = None;
        self.base
    }

    /// Reads the kick after the client has signalled it.
    pub fn kicked(&mut self) -> Result<(), RingError> {
        let Some(kick) = &self.kick else { return Ok(()) };
        match take_count(kick) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => {
                self.is_pending = true;
                Ok(())
            }
            Ok(_) => Err(RingError::Event("kick", Errno::PIPE)),
            Err(why) => Err(RingError::Event("kick", why)),
        }
    }

    /// Takes the next request; a request with data only if `may_be_data`.
    pub fn next(
        &mut self,
        memory: &GuestMemoryMmap,
        inflight: Option<&Inflight>,
        may_be_data: bool,
    ) -> Result<Next, RingError> {
        let again = self.again.front().copied();
        let Some(head) = again.map_or_else(|| self.next_available(memory), |head| Ok(Some(head)))? else {
            return Ok(Next::Nothing);
        };
        if self.taken.get(usize::from(head)) != Some(&false) {
            return Err(RingError::Head(head));
        }
        let chain = read_chain(memory, self.queue.desc_table(), self.size, head)?;
        if !may_be_data && len_bytes(&chain.readable) + len_bytes(&chain.writable) > SMALL_BYTES {
            if again.is_none() {
                self.queue.set_next_avail(self.queue.next_avail().wrapping_sub(1));
            }
            return Ok(Next::NotNow);
        }
        self.taken[usize::from(head)] = true;
        self.in_flight += 1;
        if again.is_some() {
            // The record already contains the request, with its place in the order.
            self.again.pop_front();
        } else if let Some(inflight) = inflight {
            inflight.begin(self.index, head, self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(Next::Request(head, chain))
    }

    fn next_available(&mut self, memory: &GuestMemoryMmap) -> Result<Option<u16>, RingError> {
        self.queue.disable_notification(memory)?;
        // A second attempt, since a request may arrive just before kicks are enabled again.
        for _ in 0..2 {
            if let Some(chain) = self.queue.iter(memory)?.next() {
                return Ok(Some(chain.head_index()));
            }
            if !self.queue.enable_notification(memory)? {
                self.is_pending = false;
                return Ok(None);
            }
        }
        Err(RingError::Back)
    }

    /// Returns a completed request to the driver.
    pub fn complete(
        &mut self,
        memory: &GuestMemoryMmap,
        inflight: Option<&Inflight>,
        head: u16,
        written: u32,
    ) -> Result<(), RingError> {
        self.forget(head);
        if let Some(inflight) = inflight {
            inflight.before_used(self.index, head);
        }
        self.queue.add_used(memory, head, written)?;
        if let Some(inflight) = inflight {
            inflight.after_used(self.index, head, self.queue.next_used());
        }
        self.has_used = true;
        Ok(())
    }

    /// Ends a request without an answer: the client submits it to the next server again.
    pub fn forget(&mut self, head: u16) {
        if let Some(taken) = self.taken.get_mut(usize::from(head)) {
            *taken = false;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Signals the client about returned requests, if the client wants that.
    pub fn notify(&mut self, memory: &GuestMemoryMmap) -> Result<(), RingError> {
        if self.is_placed && std::mem::take(&mut self.has_used) && self.queue.needs_notification(memory)? {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        if let Some(call) = &self.call {
            // A full eventfd is readable all the same, so that nothing is lost if this write does not happen. Whether
            // a write blocks is a flag of the open file, which the client also holds and may change: writing to a
            // full eventfd could then block for ever. A client that fills it between these two calls still achieves
            // that (docs/operating.md).
            if is_ready(call, PollFlags::OUT) {
                let _ = rustix::io::write(call, &1u64.to_ne_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn only_events_wake() {
        let mut ring = Ring::new(0);
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = |stream| File::from(std::os::fd::OwnedFd::from(stream));
        assert!(matches!(ring.set_kick(file(one)), Err(RingError::NoEvent("kick"))));
        assert!(matches!(ring.set_call(Some(file(other))), Err(RingError::NoEvent("call"))));
        let event = File::from(eventfd(0, EventfdFlags::empty()).unwrap());
        ring.set_kick(event.try_clone().unwrap()).unwrap();
        assert!(fcntl_getfl(&event).unwrap().contains(OFlags::NONBLOCK), "a kick that was taken back does not hang");
    }

    #[test]
    fn a_kick_that_replaces_another_may_have_been_needed() {
        let mut ring = Ring::new(0);
        ring.is_pending = false;
        ring.set_kick(File::from(eventfd(0, EventfdFlags::empty()).unwrap())).unwrap();
        assert!(ring.is_pending);
    }

    /// A client that made its eventfds blocking, and one full or empty, blocked the export's thread for good.
    #[test]
    fn regression_an_event_that_was_made_to_block_does_not() {
        let (send, done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let blocking = |event: &File| fcntl_setfl(event, OFlags::empty()).unwrap();
            let mut ring = Ring::new(0);
            let full = File::from(eventfd(0, EventfdFlags::empty()).unwrap());
            rustix::io::write(&full, &(u64::MAX - 2).to_ne_bytes()).unwrap();
            ring.set_call(Some(full.try_clone().unwrap())).unwrap();
            blocking(&full);
            ring.ring();
            let empty = File::from(eventfd(0, EventfdFlags::empty()).unwrap());
            ring.set_kick(empty.try_clone().unwrap()).unwrap();
            blocking(&empty);
            ring.kicked().unwrap();
            rustix::io::write(&empty, &1u64.to_ne_bytes()).unwrap();
            ring.kicked().unwrap();
            let is_taken = !is_ready(&empty, PollFlags::IN);
            send.send(is_taken).unwrap();
        });
        assert!(done.recv_timeout(std::time::Duration::from_secs(10)).unwrap(), "what was rung is read");
    }
}
