//! A device in virtual time: requests end when their time has come, in any order, with the planned faults.

mod behaviour;
mod contents;
mod flight;
mod plan;
mod queue;
mod timing;
mod wounds;

use crate::fault::{Fault, FaultKind};
use crate::order::{Hold, Places};
use crate::power::Power;
use forebay_block::{Completion, Device, Geometry, Request};
use forebay_block::{VirtualClock, lock};
use queue::Queue;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub use behaviour::{AfterDiscard, Behaviour};
pub use timing::Timing;

/// Maximum number of requests in flight.
const QUEUE_LIMIT: usize = 128;

/// A simulated device; clones are handles of the same device.
#[derive(Clone)]
pub struct SimDevice {
    queue: Arc<Mutex<Queue>>,
    name: String,
    geometry: Geometry,
    is_covered: Arc<AtomicBool>,
}

impl SimDevice {
    /// An empty device.
    #[must_use]
    pub fn new(name: &str, geometry: Geometry, clock: &VirtualClock, power: &Power) -> Self {
        let queue = Queue::new(geometry.clone(), clock, power);
        Self { queue: Arc::new(Mutex::new(queue)), name: name.to_owned(), geometry, is_covered: Arc::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A panic of the volume's is a finding; what the device holds is whole all the same.
        lock(&self.queue)
    }

    /// Sets whether other devices hold the same data: if so, this device's faults excuse no error.
    pub fn cover(&self, is_covered: bool) {
        self.is_covered.store(is_covered, Ordering::Relaxed);
    }

    /// Whether other devices hold the same data.
    #[must_use]
    pub fn is_covered(&self) -> bool {
        self.is_covered.load(Ordering::Relaxed)
    }

    /// Switches the device on, after a power cut or for the first time.
    pub fn start(&self, seed: u64, timing: Timing, behaviour: Behaviour) {
        self.queue().start(seed, timing, behaviour);
    }

    /// Sets the planned faults.
    pub fn plan_faults(&self, faults: Vec<Fault>) {
        self.queue().plan.faults = faults;
    }

    /// Sets the layout of the device.
    pub fn know(&self, places: Places) {
        self.queue().places = places;
    }

    /// The layout of the device, where known.
    #[must_use]
    pub fn places(&self) -> Places {
        self.queue().places.clone()
    }

    /// Sets the requests that are held back.
    pub fn plan_holds(&self, holds: Vec<Hold>) {
        self.queue().plan.holds = holds;
    }

    /// Adds requests that are held back.
    pub fn add_hold(&self, hold: Hold) {
        self.queue().plan.holds.push(hold);
    }

    /// Adds a planned fault.
    pub fn add_fault(&self, fault: Fault) {
        self.queue().plan.faults.push(fault);
    }

    /// Flips a bit at rest. Returns the byte, and the tag where the byte lies in a host's sector.
    pub fn rot(&self, seed: u64) -> (u64, Option<u32>) {
        let mut queue = self.queue();
        queue.plan.strikes(FaultKind::Rot, 1);
        queue.contents.rot(seed)
    }

    /// Makes a stored sector unreadable. Returns its number.
    pub fn die(&self, seed: u64) -> u64 {
        let mut queue = self.queue();
        queue.plan.strikes(FaultKind::DeadSector, 1);
        queue.contents.die(seed)
    }

    /// Blocks of 4 KiB with a sector whose tag is wanted.
    #[must_use]
    pub fn blocks_with(&self, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u64> {
        self.queue().contents.blocks_with(is_wanted)
    }

    /// Tags of the sectors of a 4 KiB block, by number. `None` where unknown: a power cut lost the last write, a sector is unreadable, or
    /// the block is the engine's own.
    #[must_use]
    pub fn tags_at(&self, block: u64) -> Option<Vec<u32>> {
        self.queue().contents.tags_at(block)
    }

    /// Makes a 4 KiB block unreadable.
    pub fn kill(&self, block: u64) {
        let mut queue = self.queue();
        queue.plan.strikes(FaultKind::DeadSector, 1);
        queue.contents.kill(block);
    }

    /// Numbers of wanted sectors, selected by byte offset, first bytes of their 4 KiB block, and tag. Excludes sectors whose last write a
    /// power cut lost.
    #[must_use]
    pub fn sectors_of(&self, is_wanted: &wounds::Wanted<'_>) -> Vec<u64> {
        self.queue().contents.sectors_of(is_wanted)
    }

    /// Flips a bit of a sector at rest, or makes the sector unreadable.
    pub fn hurt(&self, kind: FaultKind, sector: u64, seed: u64) {
        let mut queue = self.queue();
        queue.plan.strikes(kind, 1);
        queue.contents.hurt(kind, sector, seed);
    }

    /// First sectors of the places of this size between two offsets that begin with this content.
    #[must_use]
    pub fn places_with(&self, range: std::ops::Range<u64>, place_bytes: u64, begin: &[u8]) -> Vec<Vec<u8>> {
        let queue = self.queue();
        let sectors = range.step_by(place_bytes as usize).filter_map(|at| queue.contents.sector_at(at));
        sectors.filter(|sector| sector.starts_with(begin)).map(<[u8]>::to_vec).collect()
    }

    /// Replaces the device by a blank one without faults.
    pub fn exchange(&self) {
        self.queue().exchange();
    }

    /// Makes sectors at rest unreadable, or flips a bit of each, among those with a wanted tag. Returns the tags.
    pub fn wound(&self, kind: FaultKind, count: usize, seed: u64, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let mut queue = self.queue();
        let tags = queue.contents.wound(kind, count, seed, is_wanted);
        queue.plan.strikes(kind, tags.len() as u64);
        tags
    }

    /// Misreads that the engine received as good reads.
    #[must_use]
    pub fn misread(&self) -> u64 {
        self.queue().contents.misread()
    }

    /// Requests in progress, now or when the power failed.
    #[must_use]
    pub fn in_flight(&self) -> Vec<&'static str> {
        self.queue().in_flight()
    }

    /// Power off: tears the requests in progress and loses part of the cache.
    pub fn power_cut(&self) {
        self.queue().power_cut();
    }

    /// Writes the whole cache back; nothing may be in flight.
    pub fn write_back(&self) {
        self.queue().contents.write_back();
    }

    /// When the next request ends; `u64::MAX` where none is in progress.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.queue().next_ns()
    }

    /// How often each fault has struck.
    #[must_use]
    pub fn struck(&self) -> BTreeMap<FaultKind, u64> {
        self.queue().plan.struck().clone()
    }
}

impl Device for SimDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) {
        self.queue().submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.queue().poll(done);
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.queue().wait(timeout_ns);
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.queue().len()
    }
}
