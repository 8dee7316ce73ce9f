//! A split virtqueue of the client: which requests wait there, and where their ends go.

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
    /// A chain in it.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The same request twice, or one that is none.
    #[error("head {0} lies beyond the ring, or is in flight already")]
    Head(u16),
    /// Its parts.
    #[error("its rings are not where they could be: {0}")]
    Place(&'static str),
    /// Its memory, or its indices.
    #[error("its ring is broken: {0}")]
    Queue(#[from] virtio_queue::Error),
    /// What wakes.
    #[error("its {0} is no event that works: {1}")]
    Event(&'static str, Errno),
    /// What wakes is something else, which could keep the server waiting.
    #[error("its {0} is no eventfd")]
    NoEvent(&'static str),
    /// Its index says that there is a request, and then again that there is none.
    #[error("its index of requests goes back")]
    Back,
}

/// Header, range and status of a request, and more: one that is no longer has no data of which there could be too much.
const SMALL_BYTES: u64 = 64;
/// Not waiting.
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// What `/proc/self/fd` calls an event.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// What there was in a ring.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A request: its head and its chain.
    Request(u16, Chain),
    /// One with data, of which there is too much in flight now. It stays where it is.
    NotNow,
    /// Nothing, of which a kick tells from then on.
    Nothing,
}

/// The client's addresses of a ring's parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Table of descriptors.
    pub table: u64,
    /// What the driver offers.
    pub available: u64,
    /// What the device returns.
    pub used: u64,
}

/// A ring.
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
    /// Its parts are in memory: not so between the removal of a region and its return.
    is_placed: bool,
    /// Something may wait there.
    pub is_pending: bool,
    /// Heads in flight; and those which the server before has left, still to be done again.
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

/// Reads how often an event was rung, without waiting, whatever the client has made of the open file.
fn take_count(event: &File) -> Result<usize, Errno> {
    let mut count = [0; 8];
    match rustix::io::preadv2(event, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT) {
        // Kernels before 5.8.
        Err(Errno::OPNOTSUPP) => rustix::io::read(event, &mut count),
        read => read,
    }
}

impl Ring {
    /// The ring of a number, not yet configured.
    pub fn new(index: usize) -> Self {
        Self { index, size: QUEUE_SIZE_MAX, ..Self::default() }
    }

    /// Entries.
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

    /// Where its parts are.
    pub fn set_addresses(&mut self, addresses: Addresses) -> Result<(), RingError> {
        if self.is_started && addresses != self.addresses {
            return Err(RingError::Place("moved while in use"));
        }
        self.addresses = addresses;
        Ok(())
    }

    /// The next request to be looked at.
    pub fn set_base(&mut self, base: u32) -> Result<(), RingError> {
        if self.is_started {
            return Err(RingError::Place("moved while in use"));
        }
        // The upper half is for packed rings.
        self.base = base as u16;
        Ok(())
    }

    /// What tells of requests.
    pub fn set_kick(&mut self, file: File) -> Result<(), RingError> {
        self.kick = Some(event(file, "kick")?);
        // The one before may have rung.
        self.is_pending = true;
        Ok(())
    }

    /// What tells the client of ends. It is rung at once: the server before may not have come to that.
    pub fn set_call(&mut self, file: Option<File>) -> Result<(), RingError> {
        self.call = file.map(|file| event(file, "call")).transpose()?;
        self.ring();
        Ok(())
    }

    /// Whether it is to be served.
    pub fn set_enabled(&mut self, is_enabled: bool) {
        self.is_enabled = is_enabled;
        self.is_pending = true;
    }

    /// Whether it was started.
    pub fn is_started(&self) -> bool {
        self.is_started
    }

    /// Whether it is served.
    pub fn is_served(&self) -> bool {
        self.is_started && self.is_enabled && self.is_placed
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Readable when the client has something.
    pub fn kick_fd(&self) -> Option<RawFd> {
        self.kick.as_ref().filter(|_| self.is_started).map(AsRawFd::as_raw_fd)
    }

    /// Begins to serve it.
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
                // What was taken is what was returned, and what is in flight.
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

    /// Looks for its parts in memory, which may have changed. Until it has them it is not served.
    ///
    /// # Errors
    /// Where they are not there.
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

    /// A region of memory has come or gone, and perhaps its parts with it.
    pub fn follow(&mut self, memory: &Memory) {
        self.is_placed = self.is_placed && self.queue.is_valid(memory.map());
        if !self.is_placed {
            // It is looked for again with the next region.
            let _ = self.find(memory);
        }
    }

    /// Ends serving it; gives the next request that would be looked at. Nothing of it is in flight any more.
    pub fn stop(&mut self) -> u16 {
        if self.is_started {
            self.base = self.queue.next_avail();
        }
        self.is_started = false;
        self.kick = None;
        self.call = None;
        self.base
    }

    /// The client has rung.
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

    /// The next request. One with data only where there may be data.
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
            // It is noted already, and keeps its place among the others.
            self.again.pop_front();
        } else if let Some(inflight) = inflight {
            inflight.begin(self.index, head, self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(Next::Request(head, chain))
    }

    fn next_available(&mut self, memory: &GuestMemoryMmap) -> Result<Option<u16>, RingError> {
        self.queue.disable_notification(memory)?;
        // Once more where a request came just before kicks were asked for again.
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

    /// Returns a request to the driver.
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

    /// A request ends without an answer: the next server is asked for it again.
    pub fn forget(&mut self, head: u16) {
        if let Some(taken) = self.taken.get_mut(usize::from(head)) {
            *taken = false;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Tells the client of what was returned, where it wants to know.
    pub fn notify(&mut self, memory: &GuestMemoryMmap) -> Result<(), RingError> {
        if self.is_placed && std::mem::take(&mut self.has_used) && self.queue.needs_notification(memory)? {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        if let Some(call) = &self.call {
            // Full, it tells all the same. That it does not block belongs to the open file, which the client has too and may change: a full one
            // would keep us for ever then. One that fills it between these two calls still does so (docs/operating.md).
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

    /// A client that made its event one that blocks, and full or empty, kept the export's thread for good.
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
