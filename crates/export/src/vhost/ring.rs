//! A split virtqueue of the client: which requests wait there, and where their ends go.

use super::chain::{Chain, ChainError, read_chain};
use super::device::QUEUE_SIZE_MAX;
use super::inflight::Inflight;
use super::memory::Memory;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
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
    let flags = fcntl_getfl(&file).map_err(failed)?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(failed)?;
    Ok(file)
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
        self.is_started && self.is_enabled
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
        let at = |address| memory.guest_address(address).ok_or(RingError::Place("outside of its memory"));
        let mut queue = Queue::new(QUEUE_SIZE_MAX)?;
        queue.try_set_size(self.size)?;
        queue.try_set_desc_table_address(at(self.addresses.table)?)?;
        queue.try_set_avail_ring_address(at(self.addresses.available)?)?;
        queue.try_set_used_ring_address(at(self.addresses.used)?)?;
        queue.set_event_idx(event_idx);
        queue.set_ready(true);
        self.queue = queue;
        self.check_place(memory)?;
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

    /// Whether its parts are in memory, which may have changed.
    pub fn check_place(&self, memory: &Memory) -> Result<(), RingError> {
        if self.queue.is_valid(memory.map()) { Ok(()) } else { Err(RingError::Place("outside of its memory")) }
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
        let mut count = [0; 8];
        match rustix::io::read(kick, &mut count) {
            Ok(1..) | Err(Errno::AGAIN | Errno::INTR) => {
                self.is_pending = true;
                Ok(())
            }
            Ok(_) => Err(RingError::Event("kick", Errno::PIPE)),
            Err(why) => Err(RingError::Event("kick", why)),
        }
    }

    /// The next request: its head and its chain. `None` where none waits, of which a kick tells from then on.
    pub fn next(
        &mut self,
        memory: &GuestMemoryMmap,
        inflight: Option<&Inflight>,
    ) -> Result<Option<(u16, Chain)>, RingError> {
        let head = match self.again.pop_front() {
            Some(head) => head,
            None => match self.next_available(memory)? {
                Some(head) => head,
                None => return Ok(None),
            },
        };
        match self.taken.get_mut(usize::from(head)) {
            Some(taken) if !*taken => *taken = true,
            _ => return Err(RingError::Head(head)),
        }
        self.in_flight += 1;
        if let Some(inflight) = inflight {
            inflight.begin(self.index, head, self.counter);
            self.counter = self.counter.wrapping_add(1);
        }
        Ok(Some((head, read_chain(memory, self.queue.desc_table(), self.size, head)?)))
    }

    fn next_available(&mut self, memory: &GuestMemoryMmap) -> Result<Option<u16>, RingError> {
        self.queue.disable_notification(memory)?;
        loop {
            if let Some(chain) = self.queue.iter(memory)?.next() {
                return Ok(Some(chain.head_index()));
            }
            if !self.queue.enable_notification(memory)? {
                self.is_pending = false;
                return Ok(None);
            }
        }
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
        if std::mem::take(&mut self.has_used) && self.queue.needs_notification(memory)? {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        if let Some(call) = &self.call {
            // Full, it tells all the same.
            let _ = rustix::io::write(call, &1u64.to_ne_bytes());
        }
    }
}
