//! A modelled SSD with contents, in virtual time: a tier of a pool that is measured on models.
//!
//! The model says when a command ends; its bytes move at that moment, so that whoever reads what was not yet
//! acknowledged gets what was there before. Contents lie in sparse memory: only what was written takes any, and a
//! discard gives it back.

use crate::instant::Store;
use crate::modelled::{ModelError, ModelUri};
use crate::ram::SparseMemory;
use crate::request::{finish, validate};
use forebay_block::{Completion, Device, Geometry, Op, Request, VirtualClock};
use forebay_model::endurance::Life;
use forebay_model::ssd::{Command, Counters, Done, Op as Asked, Ssd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that may be in flight: the longest queue of an NVMe drive is longer than any model works at once.
const QUEUE_LIMIT: usize = 1024;
/// Longest discard in one command of the model, in bytes.
const DISCARD_MAX_BYTES: u64 = 1 << 30;

/// Why there is no such device.
#[derive(Debug, thiserror::Error)]
pub enum VirtualDeviceError {
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No address space for its contents.
    #[error("no address space of {size_bytes} bytes for the contents: {source}; give the model a smaller size=")]
    Memory {
        /// Size of the drive in bytes.
        size_bytes: u64,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// A request that the model works on.
struct Flight {
    request: Request,
    /// Commands of it that have not ended.
    left: u32,
    /// It must be durable when complete, and the drive has a volatile cache: a flush follows.
    flush_after: bool,
}

struct Core {
    ssd: Box<dyn Ssd>,
    contents: SparseMemory,
    /// By the model's tag.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    ended: Vec<Done>,
    ready: Vec<Completion>,
}

/// The device. Who holds its clock moves it by [`Device::advance`]; what finished then is found by [`Device::poll`].
pub struct VirtualDevice {
    core: Arc<Mutex<Core>>,
    clock: VirtualClock,
    name: String,
    geometry: Geometry,
    in_flight: usize,
}

/// What is known of the drive below a device that somebody else owns.
#[derive(Clone)]
pub struct Drive {
    core: Arc<Mutex<Core>>,
    /// Its name as the user wrote it.
    pub name: String,
    /// In words, for results.
    pub description: String,
    /// What its media takes, where its preset rates that.
    pub life: Option<Life>,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("name", &self.name).finish_non_exhaustive()
    }
}

fn lock(core: &Mutex<Core>) -> MutexGuard<'_, Core> {
    // Plain data, whole also where its last user died.
    core.lock().unwrap_or_else(PoisonError::into_inner)
}

impl VirtualDevice {
    /// Makes the drive, with its past behind it, and a handle to what it counts. Devices of one world share a clock.
    ///
    /// # Errors
    /// [`VirtualDeviceError`].
    pub fn new(uri: &ModelUri, seed: u64, clock: &VirtualClock) -> Result<(Self, Drive), VirtualDeviceError> {
        let parts = uri.drive()?;
        let ssd = uri.build(seed)?;
        let size_bytes = ssd.capacity_bytes();
        let contents =
            SparseMemory::new(size_bytes).map_err(|source| VirtualDeviceError::Memory { size_bytes, source })?;
        let geometry = Geometry {
            size_bytes,
            logical_block_bytes: 512,
            optimal_band_bytes: parts.band_bytes(),
            volatile_cache: parts.has_volatile_cache(),
            durable_writes: true,
            discards: true,
        };
        let core = Arc::new(Mutex::new(Core {
            ssd,
            contents,
            flights: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            ready: Vec::new(),
        }));
        let name = uri.to_string();
        let (description, life) = (uri.description(size_bytes), parts.life());
        let drive = Drive { core: core.clone(), name: name.clone(), description, life };
        Ok((Self { core, clock: clock.clone(), name, geometry, in_flight: 0 }, drive))
    }
}

impl Drive {
    /// What the drive has counted since it was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        lock(&self.core).ssd.counters()
    }
}

impl Core {
    fn start(&mut self, now_ns: u64, request: Request, flush_after: bool) {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            (self.flights.len() - 1) as u32
        });
        let op = match &request.op {
            Op::Read { .. } => Asked::Read,
            Op::Write { .. } => Asked::Write,
            Op::Flush => Asked::Flush,
            // Drives that write zeroes deallocate: no data crosses the link, and none is programmed.
            Op::Discard { .. } | Op::WriteZeroes { .. } => Asked::Trim,
        };
        let (mut offset_bytes, mut rest_bytes, mut left) = (request.offset_bytes, request.op.len_bytes(), 0);
        loop {
            let len_bytes = rest_bytes.min(DISCARD_MAX_BYTES) as u32;
            self.ssd.submit(now_ns, Command { tag: tag.into(), op, offset_bytes, len_bytes, stream: request.stream });
            offset_bytes += u64::from(len_bytes);
            rest_bytes -= u64::from(len_bytes);
            left += 1;
            if rest_bytes == 0 {
                break;
            }
        }
        self.flights[tag as usize] = Some(Flight { request, left, flush_after });
    }

    /// Everything up to a time; true where requests have ended.
    fn happen(&mut self, to_ns: u64) -> bool {
        self.ssd.advance(to_ns, &mut self.ended);
        if self.ended.is_empty() {
            return !self.ready.is_empty();
        }
        let mut ended = std::mem::take(&mut self.ended);
        for Done { tag, at_ns } in ended.drain(..) {
            self.end(tag as u32, at_ns, to_ns);
        }
        self.ended = ended;
        !self.ready.is_empty()
    }

    /// A command has ended.
    fn end(&mut self, tag: u32, at_ns: u64, now_ns: u64) {
        let Some(place) = self.flights.get_mut(tag as usize) else { return };
        let Some(flight) = place else { return };
        flight.left -= 1;
        if flight.left > 0 {
            return;
        }
        if std::mem::take(&mut flight.flush_after) {
            flight.left = 1;
            let flush = Command { tag: tag.into(), op: Asked::Flush, offset_bytes: 0, len_bytes: 0, stream: 0 };
            // What the drive was moved to is past for it.
            return self.ssd.submit(at_ns.max(now_ns), flush);
        }
        let Some(Flight { mut request, .. }) = place.take() else { return };
        self.free.push(tag);
        self.contents.carry_out(&mut request);
        self.ready.push(finish(request, Ok(())));
    }
}

impl Device for VirtualDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        let core = &mut *lock(&self.core);
        self.in_flight += 1;
        match validate(&self.geometry, &request) {
            Ok(_) => {
                let flush_after = self.geometry.volatile_cache && matches!(request.op, Op::Write { fua: true, .. });
                core.start(self.clock.now_ns(), request, flush_after);
            }
            Err(error) => core.ready.push(finish(request, Err(error))),
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let core = &mut *lock(&self.core);
        core.happen(self.clock.now_ns());
        self.in_flight -= core.ready.len();
        done.append(&mut core.ready);
    }

    /// Moves the clock to what happens next: for opening and closing, where nobody else moves it.
    fn wait(&mut self, timeout_ns: u64) {
        let core = lock(&self.core);
        if core.ready.is_empty() && self.in_flight > 0 {
            let latest_ns = self.clock.now_ns().saturating_add(timeout_ns);
            self.clock.advance_to(core.ssd.next_event_ns().min(latest_ns));
        }
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn next_event_ns(&self) -> u64 {
        lock(&self.core).ssd.next_event_ns()
    }

    fn advance(&mut self, to_ns: u64) -> Option<u64> {
        let core = &mut *lock(&self.core);
        loop {
            // One time after the other: most events are steps inside the drive, and end nothing.
            let next_ns = core.ssd.next_event_ns();
            if next_ns > to_ns {
                return None;
            }
            if core.happen(next_ns) {
                return Some(next_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests;
