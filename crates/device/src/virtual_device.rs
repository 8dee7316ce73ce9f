//! A modelled SSD with contents, in virtual time: a tier of a pool that is measured on models.
//!
//! The model decides when a command ends. Its bytes move at that moment, so a read before the acknowledgement returns
//! the former content. Contents lie in sparse memory: only written data takes memory, and a discard frees it.

use crate::instant::Store;
use crate::modelled::{ModelError, ModelUri};
use crate::ram::SparseMemory;
use crate::request::{finish, validate};
use forebay_block::{Completion, Device, Geometry, Op, Request, VirtualClock, lock};
use forebay_model::endurance::Life;
use forebay_model::ssd::{Command, Counters, Done, Op as Asked, Ssd};
use std::sync::{Arc, Mutex};

/// Most requests in flight. The longest queue of an NVMe drive is longer, but no model works on more at once.
const QUEUE_LIMIT: usize = 1024;
/// Longest discard in one command of the model, in bytes.
const DISCARD_MAX_BYTES: u64 = 1 << 30;

/// The reason why the device cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum VirtualDeviceError {
    /// The model does not exist or cannot be built.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is no address space for its contents.
    #[error("no address space of {size_bytes} bytes for the contents: {source}; give the model a smaller size=")]
    Memory {
        /// Size of the drive in bytes.
        size_bytes: u64,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// A request in the model.
struct Flight {
    request: Request,
    /// Commands of the request that have not ended.
    left: u32,
    /// Whether a flush follows, because the request must be durable when complete and the drive has a volatile cache.
    flush_after: bool,
}

struct Core {
    ssd: Box<dyn Ssd>,
    contents: SparseMemory,
    /// Requests in the model, indexed by the model's tag.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    ended: Vec<Done>,
    ready: Vec<Completion>,
}

/// The device. The owner of its clock moves it by [`Device::advance`]; [`Device::poll`] returns what has completed by
/// then.
pub struct VirtualDevice {
    core: Arc<Mutex<Core>>,
    clock: VirtualClock,
    name: String,
    geometry: Geometry,
    in_flight: usize,
}

/// A handle to the drive below a device that is owned elsewhere.
#[derive(Clone)]
pub struct Drive {
    core: Arc<Mutex<Core>>,
    /// Name of the model as the user wrote it.
    pub name: String,
    /// A description for results.
    pub description: String,
    /// Rated endurance; `None` where the preset has none.
    pub life: Option<Life>,
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive").field("name", &self.name).finish_non_exhaustive()
    }
}

impl VirtualDevice {
    /// Builds the drive, fills it as configured, and returns the device with a handle to the drive's counters.
    /// Devices of one measurement share a clock.
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
    /// The drive's counters since it was built.
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
            // Drives deallocate for write-zeroes, too: no data crosses the link, and none is programmed.
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

    /// Advances the model to `to_ns`; returns whether requests have completed.
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
            // The model has advanced to `now_ns` already, so the flush cannot begin earlier.
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

    /// Moves the clock to the next event. For opening and closing, where nothing else moves it.
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
            // Step by step, because most events are internal to the drive and complete nothing.
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
