//! A volatile write cache over any device. Unflushed data lives in process memory, apart from the durable bytes on
//! the inner device. A power cut loses, tears and reorders it.
//!
//! After a power cut a sector (the inner device's logical block) holds its durable content or any unflushed version,
//! including those of writes in flight; never a version older than the durable one. A write takes effect when it is
//! submitted, and counts as completed when `poll` returns its completion. So a flush covers no write that its
//! submitter could not yet know to be complete.
//!
//! Discards and write-zeroes of up to 16 MiB are cached like writes. Longer ones go to the inner device at once,
//! because a record by sector of terabytes would not fit into memory.

mod job;
mod jobs;
mod pieces;

use crate::image::{Image, ImageDevice};
use crate::request::{error, finish, validate};
use forebay_block::Random;
use forebay_block::{Buf, Completion, Device, Geometry, IoError, IoErrorKind, Op, Request, SharedBuf, Vectored};
use forebay_proof::cache::{Covered, SectorCache, Version};
use forebay_proof::leak::Leak;
use forebay_proof::survival::{self, Pattern};
use job::{Active, Job};
use pieces::Content;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Most requests in flight.
const QUEUE_LIMIT: usize = 1024;
/// Longest discard or write-zeroes that is recorded sector by sector, in bytes.
const RECORDED_ZERO_MAX_BYTES: u64 = 16 << 20;
/// Unflushed bytes beyond which completed writes are written back, as by a drive's cache that is full.
const CACHE_LIMIT_BYTES: u64 = 256 << 20;
/// How long a power cut waits for the inner device to become idle.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// A read that waits for the inner device.
#[derive(Debug)]
struct PendingRead {
    tag: u64,
    offset_bytes: u64,
    /// The newest unflushed content at submission. It is copied then, because a sector may be written back and leave
    /// the cache after the inner device has read the older bytes.
    overlay: Vec<(u64, Content)>,
}

/// The result of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// How the surviving sectors were chosen.
    pub pattern: Pattern,
    /// Count of sectors that were unflushed.
    pub unflushed_sectors: usize,
    /// Count of unflushed sectors that became durable.
    pub survived_sectors: usize,
}

/// The wrapper. `D` holds the durable bytes, and should itself lose nothing.
#[derive(Debug)]
pub struct VolatileDevice<D> {
    name: String,
    geometry: Geometry,
    inner: D,
    cache: SectorCache<Content>,
    leak: Option<Leak>,
    next_id: u64,
    /// Numbers of operations whose completion was not returned yet.
    open_ids: BTreeSet<u64>,
    ready: Vec<(Option<u64>, Completion)>,
    reads: BTreeMap<u64, PendingRead>,
    jobs: VecDeque<Job>,
    active: Option<Active>,
    outgoing: VecDeque<Request>,
    next_inner_tag: u64,
    in_flight: usize,
    steps: u64,
    eviction_queued: bool,
}

impl VolatileDevice<ImageDevice> {
    /// A device for tests whose durable bytes are an [`Image`].
    #[must_use]
    pub fn over_image(image: Image) -> Self {
        Self::new(ImageDevice::new(image))
    }

    /// A copy of the durable bytes, which is cheap.
    #[must_use]
    pub fn durable(&self) -> Image {
        self.inner.store().clone()
    }
}

impl<D: Device> VolatileDevice<D> {
    /// Wraps `inner`, which must be idle. Unflushed data reaches it only by a flush, a FUA write, a power cut, or
    /// because the cache is full.
    pub fn new(inner: D) -> Self {
        let geometry = Geometry { volatile_cache: true, durable_writes: true, ..inner.geometry().clone() };
        Self {
            name: format!("volatile:{}", inner.name()),
            geometry,
            inner,
            cache: SectorCache::default(),
            leak: None,
            next_id: 1,
            open_ids: BTreeSet::new(),
            ready: Vec::new(),
            reads: BTreeMap::new(),
            jobs: VecDeque::new(),
            active: None,
            outgoing: VecDeque::new(),
            next_inner_tag: 0,
            in_flight: 0,
            steps: 0,
            eviction_queued: false,
        }
    }

    /// Lets a random part of the unflushed sectors reach `inner` early, out of order and torn, so that killing the
    /// process has the effects of a power cut.
    #[must_use]
    pub fn with_leak(mut self, seed: u64) -> Self {
        self.leak = Some(Leak::new(seed));
        self
    }

    /// The device that holds the durable bytes.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The device that holds the durable bytes, mutable. Requests sent to it directly confuse the wrapper.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Drops everything unflushed and returns the inner device: a power cut that nothing survives.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Count of writes, discards, write-zeroes and flushes accepted so far: the points at which a crash test may cut.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Count of sectors that a power cut may lose now.
    pub fn unflushed_sectors(&self) -> usize {
        self.cache.sector_count()
    }

    /// Cuts the power with a random pattern; see [`Self::power_cut_with`].
    ///
    /// # Errors
    /// The inner device's.
    pub fn power_cut(&mut self, random: &mut Random) -> Result<PowerCut, IoError> {
        let pattern = Pattern::draw(random, self.first_unflushed_id(), self.next_id);
        self.power_cut_with(pattern, random)
    }

    /// Cuts the power. Sectors chosen by `pattern` become durable; all other unflushed data is lost. Requests in
    /// flight are dropped without a completion. The device is idle and usable afterwards.
    ///
    /// # Errors
    /// The inner device's, or it does not become idle within a minute.
    pub fn power_cut_with(&mut self, pattern: Pattern, random: &mut Random) -> Result<PowerCut, IoError> {
        self.drain_inner()?;
        let unflushed_sectors = self.cache.sector_count();
        let survivors = survival::choose(&self.cache, pattern, random);
        let survived_sectors = survivors.len();
        self.cache.clear();
        self.open_ids.clear();
        self.ready.clear();
        self.reads.clear();
        self.jobs.clear();
        self.active = None;
        self.outgoing.clear();
        self.in_flight = 0;
        self.eviction_queued = false;
        if let Some(leak) = &mut self.leak {
            leak.clear();
        }
        for piece in pieces::coalesce(survivors, self.unit(), self.inner.geometry().discards, false) {
            crate::blocking::run(&mut self.inner, piece.offset_bytes, piece.op)?;
        }
        crate::blocking::flush(&mut self.inner)?;
        Ok(PowerCut { pattern, unflushed_sectors, survived_sectors })
    }

    fn first_unflushed_id(&self) -> u64 {
        self.cache.all().filter_map(|(_, versions)| versions.first().map(|v| v.id)).min().unwrap_or(self.next_id)
    }

    /// Waits for requests in the inner device and drops their completions.
    fn drain_inner(&mut self) -> Result<(), IoError> {
        let started = Instant::now();
        let mut forgotten = Vec::new();
        while self.inner.in_flight() > 0 {
            if started.elapsed() > DRAIN_TIMEOUT {
                let os_error = libc::ETIMEDOUT;
                return Err(IoError { kind: IoErrorKind::Medium, operation: "power cut", offset_bytes: 0, os_error });
            }
            self.inner.wait(10_000_000);
            self.inner.poll(&mut forgotten);
            forgotten.clear();
        }
        Ok(())
    }

    fn unit(&self) -> u64 {
        u64::from(self.geometry.logical_block_bytes)
    }

    fn sectors(&self, offset_bytes: u64, len_bytes: u64) -> Range<u64> {
        offset_bytes / self.unit()..(offset_bytes + len_bytes) / self.unit()
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn accept_read(&mut self, tag: u64, offset_bytes: u64, stream: u8, mut bufs: Vectored<Buf>, len_bytes: u64) {
        let sectors = self.sectors(offset_bytes, len_bytes);
        let wanted = (sectors.end - sectors.start) as usize;
        let overlay: Vec<(u64, Content)> =
            self.cache.newest_in(sectors).map(|(sector, version)| (sector, version.content.clone())).collect();
        if overlay.len() == wanted {
            pieces::lay_over(&mut bufs, offset_bytes, &overlay, self.unit());
            self.ready.push((None, Completion { tag, result: Ok(()), bufs: Some(bufs) }));
            return;
        }
        let inner_tag = self.inner_tag();
        self.reads.insert(inner_tag, PendingRead { tag, offset_bytes, overlay });
        self.outgoing.push_back(Request { tag: inner_tag, offset_bytes, stream, op: Op::read(bufs) });
    }

    fn accept_write(&mut self, tag: u64, offset_bytes: u64, bufs: &Vectored<SharedBuf>, fua: bool, len_bytes: u64) {
        let id = self.next_id();
        let sectors = self.sectors(offset_bytes, len_bytes);
        let unit = self.unit() as usize;
        for (sector, bytes) in sectors.clone().zip(pieces::cut(bufs, unit)) {
            self.cache.insert(sector, Version { id, content: Content::Data(bytes) });
        }
        self.open_ids.insert(id);
        if fua {
            self.jobs.push_back(Job::Fua { tag, id, sectors });
        } else {
            self.complete_unflushed(tag, id, sectors);
        }
    }

    fn accept_zeroes(&mut self, request: Request, len_bytes: u64) {
        let id = self.next_id();
        let sectors = self.sectors(request.offset_bytes, len_bytes);
        if len_bytes > RECORDED_ZERO_MAX_BYTES {
            self.open_ids.insert(id);
            self.jobs.push_back(Job::Through { request, id, sectors });
            return;
        }
        let content = if matches!(request.op, Op::Discard { .. }) { Content::Discarded } else { Content::Zeroes };
        for sector in sectors.clone() {
            self.cache.insert(sector, Version { id, content: content.clone() });
        }
        self.open_ids.insert(id);
        self.complete_unflushed(request.tag, id, sectors);
    }

    fn complete_unflushed(&mut self, tag: u64, id: u64, sectors: Range<u64>) {
        self.ready.push((Some(id), Completion { tag, result: Ok(()), bufs: None }));
        if let Some(leak) = &mut self.leak {
            leak.consider(id, sectors);
        }
        let held_bytes = self.cache.version_count() as u64 * self.unit();
        if held_bytes > CACHE_LIMIT_BYTES && !self.eviction_queued {
            self.eviction_queued = true;
            let covered = self.covered_now();
            self.jobs.push_back(Job::Evict { covered });
        }
    }

    fn covered_now(&self) -> Covered {
        Covered { below_id: self.next_id, except: self.open_ids.clone() }
    }

    fn inner_tag(&mut self) -> u64 {
        self.next_inner_tag += 1;
        self.next_inner_tag
    }
}

impl<D: Device> Device for VolatileDevice<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.in_flight += 1;
        let len_bytes = match validate(&self.geometry, &request) {
            Ok(len_bytes) if self.in_flight <= QUEUE_LIMIT => len_bytes,
            checked => {
                let reason = checked.err().unwrap_or_else(|| error(IoErrorKind::Invalid, &request));
                self.ready.push((None, finish(request, Err(reason))));
                return;
            }
        };
        if !matches!(request.op, Op::Read { .. }) {
            self.steps += 1;
        }
        let Request { tag, offset_bytes, stream, op } = request;
        match op {
            Op::Read { bufs, .. } => self.accept_read(tag, offset_bytes, stream, bufs, len_bytes),
            Op::Write { bufs, fua } => self.accept_write(tag, offset_bytes, &bufs, fua, len_bytes),
            Op::Flush => {
                let covered = self.covered_now();
                self.jobs.push_back(Job::Flush { tag, covered });
            }
            op @ (Op::Discard { .. } | Op::WriteZeroes { .. }) => {
                self.accept_zeroes(Request { tag, offset_bytes, stream, op }, len_bytes);
            }
        }
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.pump();
        for (id, completion) in self.ready.drain(..) {
            if let Some(id) = id {
                self.open_ids.remove(&id);
            }
            self.in_flight -= 1;
            done.push(completion);
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        let waiting_for_inner = self.outgoing.is_empty() && (self.active.is_some() || self.jobs.is_empty());
        if self.ready.is_empty() && waiting_for_inner && self.inner.in_flight() > 0 {
            self.inner.wait(timeout_ns);
        }
    }

    fn wake_fds(&self, out: &mut Vec<i32>) {
        self.inner.wake_fds(out);
    }

    fn completes_unseen(&self) -> bool {
        let mut fds = Vec::new();
        self.inner.wake_fds(&mut fds);
        self.inner.completes_unseen() || fds.is_empty() && self.in_flight > 0
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

#[cfg(test)]
mod tests;
