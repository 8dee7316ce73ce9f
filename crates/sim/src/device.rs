//! A device in virtual time: requests end when their time has come, in any order, with the faults that were planned.

mod wounds;

use crate::fault::{Fault, FaultKind};
use crate::medium::Medium;
use crate::order::{Hold, Places, Region, What};
use crate::power::Power;
use crate::stamp::SECTOR_BYTES;
use forebay_block::VirtualClock;
use forebay_block::{Completion, Device, Geometry, IoError, IoErrorKind, Op, Random, Request, Vectored};
use forebay_model::ssd::{Command, Done, Op as Asked, Ssd};
use forebay_proof::survival::Pattern;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests that may be in flight.
const QUEUE_LIMIT: usize = 128;
/// What a slow request takes, in nanoseconds.
const SLOW_NS: u64 = 1_000_000_000;
/// What a hanging request takes, in nanoseconds.
const HANG_NS: u64 = 30_000_000_000;

/// Writes that a device remembers having carried out last.
const LAST_WRITTEN: usize = 6;

/// How long requests take.
pub enum Timing {
    /// Between the two, in nanoseconds.
    Between(u64, u64),
    /// As a modelled SSD does.
    Model(Box<dyn Ssd>),
}

/// What a device answers to a read of what was discarded: nothing is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDiscard {
    /// Zeros.
    #[default]
    Zeros,
    /// What was there.
    Old,
    /// Something else.
    Other,
}

/// How a device behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What a discarded range reads as.
    pub after_discard: AfterDiscard,
    /// Chance in 256 that a sector which was only in the cache survives a power cut.
    pub keep: u64,
    /// A failed flush gives up what it covered, instead of leaving it to the next one; so does a failed durable write, where
    /// the system flushes behind it.
    pub gives_up: bool,
    /// The server crashes where otherwise the power fails: caches keep what they hold.
    pub stays_on: bool,
}

struct Flight {
    request: Request,
    order: u64,
    due_ns: u64,
    flush: u64,
    fate: Option<FaultKind>,
    /// Submitted when there was no power any more.
    is_late: bool,
    region: Region,
    /// What was to be done was done when it was submitted: only its end is yet to be reported.
    is_done: bool,
}

struct Core {
    medium: Medium,
    geometry: Geometry,
    behaviour: Behaviour,
    timing: Timing,
    clock: VirtualClock,
    power: Power,
    random: Random,
    flights: Vec<Flight>,
    order: u64,
    faults: Vec<Fault>,
    struck: BTreeMap<FaultKind, u64>,
    bad_sectors: BTreeSet<u64>,
    /// Sectors that cannot be read, also not after a restart.
    dead_sectors: BTreeSet<u64>,
    places: Places,
    holds: Vec<Hold>,
    /// Misreads that were reported.
    misread: u64,
    /// What was in progress when the power failed.
    at_cut: Vec<&'static str>,
    /// Writes that were in flight when the power failed.
    torn: Vec<Request>,
    /// Writes that will happen once more.
    echoes: Vec<(u64, usize, Vec<u8>)>,
    is_gone: bool,
    scratch: Vec<Done>,
    /// Offset and length of the last writes, in bytes: where rot hurts most.
    last_written: VecDeque<(usize, usize)>,
}

/// A simulated device; clones are handles of the same one.
#[derive(Clone)]
pub struct SimDevice {
    core: Arc<Mutex<Core>>,
    name: String,
    geometry: Geometry,
}

fn bytes_of(op: &Op) -> u64 {
    match op {
        Op::Read { bufs } => bufs.as_slice().iter().map(|buf| buf.len() as u64).sum(),
        Op::Write { bufs, .. } => bufs.as_slice().iter().map(|buf| buf.len() as u64).sum(),
        Op::Discard { len_bytes } | Op::WriteZeroes { len_bytes } => *len_bytes,
        Op::Flush => 0,
    }
}

fn name_of(op: &Op) -> &'static str {
    match op {
        Op::Read { .. } => "read",
        Op::Write { .. } => "write",
        Op::Flush => "flush",
        Op::Discard { .. } => "discard",
        Op::WriteZeroes { .. } => "write-zeroes",
    }
}

fn end(request: Request, failure: Option<IoErrorKind>) -> Completion {
    let Request { tag, offset_bytes, op, .. } = request;
    let operation = name_of(&op);
    let bufs = if let Op::Read { bufs } = op { Some(bufs) } else { None };
    let result = match failure {
        None => Ok(()),
        Some(kind) => Err(IoError { kind, operation, offset_bytes, os_error: 5 }),
    };
    Completion { tag, result, bufs }
}

impl SimDevice {
    /// An empty device.
    #[must_use]
    pub fn new(name: &str, geometry: Geometry, clock: &VirtualClock, power: &Power) -> Self {
        let core = Core {
            medium: Medium::new(geometry.size_bytes as usize),
            geometry: geometry.clone(),
            behaviour: Behaviour { after_discard: AfterDiscard::Zeros, keep: 128, gives_up: false, stays_on: false },
            timing: Timing::Between(1000, 1000),
            clock: clock.clone(),
            power: power.clone(),
            random: Random::new(0),
            flights: Vec::new(),
            order: 0,
            faults: Vec::new(),
            struck: BTreeMap::new(),
            bad_sectors: BTreeSet::new(),
            dead_sectors: BTreeSet::new(),
            places: Places::default(),
            holds: Vec::new(),
            misread: 0,
            at_cut: Vec::new(),
            torn: Vec::new(),
            echoes: Vec::new(),
            is_gone: false,
            scratch: Vec::new(),
            last_written: VecDeque::new(),
        };
        Self { core: Arc::new(Mutex::new(core)), name: name.to_owned(), geometry }
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // A panic of the volume's is a finding; what the device holds is whole all the same.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Switches it on, after a power cut or for the first time.
    pub fn start(&self, seed: u64, timing: Timing, behaviour: Behaviour) {
        let mut core = self.core();
        core.random = Random::new(seed);
        (core.timing, core.behaviour) = (timing, behaviour);
        core.faults.clear();
        core.holds.clear();
        core.at_cut.clear();
        core.bad_sectors.clear();
        core.flights.clear();
        core.torn.clear();
        core.is_gone = false;
    }

    /// From now on it shows these faults.
    pub fn plan_faults(&self, faults: Vec<Fault>) {
        self.core().faults = faults;
    }

    /// Where what lies on it.
    pub fn know(&self, places: Places) {
        self.core().places = places;
    }

    /// From now on it holds these requests back.
    pub fn plan_holds(&self, holds: Vec<Hold>) {
        self.core().holds = holds;
    }

    /// And these.
    pub fn add_hold(&self, hold: Hold) {
        self.core().holds.push(hold);
    }

    /// And shows this fault, too.
    pub fn add_fault(&self, fault: Fault) {
        self.core().faults.push(fault);
    }

    /// A bit rots at rest. Returns the byte, and the tag of a host's sector where it lies in one.
    pub fn rot(&self, seed: u64) -> (u64, Option<u32>) {
        let core = &mut *self.core();
        *core.struck.entry(FaultKind::Rot).or_default() += 1;
        wounds::rot(&mut core.medium, &core.last_written, seed)
    }

    /// Makes sectors at rest unreadable, or lets a bit of each rot, among those that hold a tag which is wanted. Returns
    /// the tags.
    pub fn wound(&self, kind: FaultKind, count: usize, seed: u64, is_wanted: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let core = &mut *self.core();
        let tags = wounds::wound((&mut core.medium, &mut core.dead_sectors), kind, count, seed, is_wanted);
        if !tags.is_empty() {
            *core.struck.entry(kind).or_default() += tags.len() as u64;
        }
        tags
    }

    /// Misreads that the engine was given as good reads.
    #[must_use]
    pub fn misread(&self) -> u64 {
        self.core().misread
    }

    /// What is in progress, or was when the power failed.
    #[must_use]
    pub fn in_flight(&self) -> Vec<&'static str> {
        let core = self.core();
        let flights = core.flights.iter().filter(|flight| !flight.is_late).map(|flight| core.name(flight));
        core.at_cut.iter().copied().chain(flights).collect()
    }

    /// The power is off: what was in progress is torn, what was in the cache is lost in part.
    pub fn power_cut(&self) {
        let core = &mut *self.core();
        let keep = core.behaviour.keep;
        let in_flight = std::mem::take(&mut core.flights).into_iter().filter(|flight| !flight.is_late);
        for request in std::mem::take(&mut core.torn).into_iter().chain(in_flight.map(|flight| flight.request)) {
            let mut at = request.offset_bytes as usize;
            match &request.op {
                Op::Write { bufs, .. } => {
                    // A write puts a dead sector elsewhere, also one that did not come to its end.
                    let sectors = at / SECTOR_BYTES..(at + bytes_of(&request.op) as usize) / SECTOR_BYTES;
                    core.dead_sectors.retain(|&sector| !sectors.contains(&(sector as usize)));
                    let is_carried_out = core.random.chance(keep, 256);
                    for buf in bufs.as_slice() {
                        if !core.behaviour.stays_on {
                            core.medium.tear(at, buf, keep, &mut core.random);
                        } else if is_carried_out {
                            core.medium.write(at, buf, &mut core.random);
                        }
                        at += buf.len();
                    }
                }
                Op::WriteZeroes { len_bytes } => {
                    core.medium.tear(at, &vec![0; *len_bytes as usize], keep, &mut core.random);
                }
                _ => {}
            }
        }
        core.echoes.clear();
        if core.behaviour.stays_on {
            return core.medium.flushes_forgotten();
        }
        core.medium.power_cut(Pattern::Newest { survive: keep }, &mut core.random);
    }

    /// Everything in its cache is written back; nothing may be in flight.
    pub fn write_back(&self) {
        let medium = &mut self.core().medium;
        let number = medium.flush_begins();
        medium.flush_ends(number, true);
    }

    /// When the next request ends; `u64::MAX` where none is in progress.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        self.core().next_ns()
    }

    /// How often each fault has struck.
    #[must_use]
    pub fn struck(&self) -> BTreeMap<FaultKind, u64> {
        self.core().struck.clone()
    }
}

impl Core {
    fn next_ns(&self) -> u64 {
        let due = self.flights.iter().map(|flight| flight.due_ns).min().unwrap_or(u64::MAX);
        match &self.timing {
            Timing::Model(ssd) => due.min(ssd.next_event_ns()),
            Timing::Between(..) => due,
        }
    }

    fn name(&self, flight: &Flight) -> &'static str {
        self.places.name(What::of(&flight.request.op), flight.region)
    }

    /// What a request is for.
    fn region(&self, request: &Request) -> Region {
        let at = request.offset_bytes;
        match &request.op {
            Op::Write { bufs, .. } => {
                let first = bufs.as_slice().first().map_or(&[][..], |buf| buf);
                self.places.region(at, first)
            }
            Op::Read { .. } if at + SECTOR_BYTES as u64 <= self.geometry.size_bytes => {
                self.places.region(at, self.medium.read(at as usize, SECTOR_BYTES))
            }
            _ => self.places.region(at, &[]),
        }
    }

    /// How long a request is held, and whether it is carried out before that.
    fn held(&mut self, request: &Request, region: Region) -> (u64, bool) {
        let what = What::of(&request.op);
        let mut held = (0, false);
        for hold in &mut self.holds {
            if hold.what != what || hold.count == 0 || hold.region.is_some_and(|wanted| wanted != region) {
                continue;
            }
            if hold.skip > 0 {
                hold.skip -= 1;
            } else if held.0 == 0 {
                hold.count -= 1;
                held = (hold.hold_ns, hold.is_early);
            }
        }
        held
    }

    fn fate(&mut self, request: &Request, region: Region) -> Option<FaultKind> {
        let op = &request.op;
        let mut fate = None;
        for fault in &mut self.faults {
            let concerns = match fault.kind {
                FaultKind::ReadError | FaultKind::Rot | FaultKind::Misread | FaultKind::DeadSector => {
                    matches!(op, Op::Read { .. })
                }
                FaultKind::WriteError
                | FaultKind::LostWrite
                | FaultKind::MisdirectedWrite
                | FaultKind::DuplicatedWrite => matches!(op, Op::Write { .. }),
                FaultKind::FlushError => matches!(op, Op::Flush),
                FaultKind::TrimError => matches!(op, Op::Discard { .. }),
                FaultKind::Slow | FaultKind::Hang | FaultKind::Vanish => true,
            };
            if !concerns || fault.count == 0 || fault.region.is_some_and(|wanted| wanted != region) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fate.is_none() {
                fault.count -= 1;
                fate = Some(fault.kind);
            }
        }
        if let Some(kind) = fate {
            *self.struck.entry(kind).or_default() += 1;
        }
        fate
    }

    fn submit(&mut self, request: Request) {
        let now = self.clock.now_ns();
        let region = self.region(&request);
        let fate = self.fate(&request, region);
        let (held_ns, is_early) = self.held(&request, region);
        if fate == Some(FaultKind::Vanish) {
            self.is_gone = true;
        }
        let flush = if matches!(request.op, Op::Flush) { self.medium.flush_begins() } else { 0 };
        let extra_ns = match fate {
            Some(FaultKind::Slow) => SLOW_NS,
            Some(FaultKind::Hang) => HANG_NS,
            _ => held_ns,
        };
        let order = self.order;
        self.order += 1;
        let due_ns = match &mut self.timing {
            Timing::Between(least, most) => now + *least + self.random.below(*most - *least + 1) + extra_ns,
            Timing::Model(ssd) if extra_ns == 0 => {
                let op = match request.op {
                    Op::Read { .. } => Asked::Read,
                    Op::Write { .. } | Op::WriteZeroes { .. } => Asked::Write,
                    Op::Discard { .. } => Asked::Trim,
                    Op::Flush => Asked::Flush,
                };
                let len_bytes = u32::try_from(bytes_of(&request.op)).unwrap_or(u32::MAX);
                let Request { offset_bytes, stream, .. } = request;
                ssd.submit(now, Command { tag: order, op, offset_bytes, len_bytes, stream });
                u64::MAX
            }
            Timing::Model(_) => now + extra_ns,
        };
        let is_late = self.power.is_off();
        let mut flight = Flight { request, order, due_ns, flush, fate, is_late, region, is_done: false };
        if is_early && fate.is_none() && !is_late && matches!(flight.request.op, Op::Read { .. } | Op::Write { .. }) {
            flight.is_done = self.transfer(&mut flight).is_none();
        }
        self.flights.push(flight);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        let now = self.clock.now_ns();
        if let Timing::Model(ssd) = &mut self.timing {
            ssd.advance(now, &mut self.scratch);
            for ended in self.scratch.drain(..) {
                if let Some(flight) = self.flights.iter_mut().find(|flight| flight.order == ended.tag) {
                    flight.due_ns = ended.at_ns;
                }
            }
        }
        while !self.echoes.is_empty() && self.echoes[0].0 <= now {
            let (_, at, bytes) = self.echoes.remove(0);
            self.medium.write_through(at, &bytes);
        }
        let ripe = |flights: &[Flight]| {
            let next = flights.iter().enumerate().min_by_key(|(_, flight)| (flight.due_ns, flight.order));
            next.filter(|(_, flight)| flight.due_ns <= now).map(|(at, _)| at)
        };
        let off = self.power.is_off() || self.is_gone;
        if off {
            let names = self.flights.iter().filter(|flight| !flight.is_late).map(|flight| self.name(flight));
            let names: Vec<_> = names.collect();
            self.at_cut.extend(names);
            for Flight { request, is_late, .. } in std::mem::take(&mut self.flights) {
                if matches!(request.op, Op::Write { .. } | Op::WriteZeroes { .. }) {
                    let Request { tag, offset_bytes, .. } = request;
                    let reason = IoError { kind: IoErrorKind::Gone, operation: "write", offset_bytes, os_error: 5 };
                    done.push(Completion { tag, result: Err(reason), bufs: None });
                    if !is_late {
                        self.torn.push(request);
                    }
                } else {
                    done.push(end(request, Some(IoErrorKind::Gone)));
                }
            }
            return;
        }
        while let Some(at) = ripe(&self.flights) {
            if !self.power.carry_out() {
                // What is in progress stays so: the cut will tear it.
                return;
            }
            let flight = self.flights.swap_remove(at);
            done.push(self.carry_out(flight));
        }
    }

    fn carry_out(&mut self, mut flight: Flight) -> Completion {
        let failure = if flight.is_done { None } else { self.transfer(&mut flight) };
        end(flight.request, failure)
    }

    /// Does what a request asks for; why not, where it fails.
    fn transfer(&mut self, flight: &mut Flight) -> Option<IoErrorKind> {
        let offset = flight.request.offset_bytes;
        let len = bytes_of(&flight.request.op);
        let sectors = offset / SECTOR_BYTES as u64..(offset + len).div_ceil(SECTOR_BYTES as u64);
        let is_valid = offset.is_multiple_of(SECTOR_BYTES as u64)
            && len.is_multiple_of(SECTOR_BYTES as u64)
            && offset.checked_add(len).is_some_and(|end| end <= self.geometry.size_bytes);
        if !is_valid {
            return Some(IoErrorKind::Invalid);
        }
        let mut failure = None;
        match &mut flight.request.op {
            Op::Read { bufs } => {
                if flight.fate == Some(FaultKind::ReadError) {
                    self.bad_sectors.insert(sectors.start);
                }
                if flight.fate == Some(FaultKind::DeadSector) {
                    self.dead_sectors.insert(sectors.start);
                }
                let bad = [&self.bad_sectors, &self.dead_sectors];
                if bad.iter().any(|bad| bad.range(sectors.clone()).next().is_some()) {
                    failure = Some(IoErrorKind::Medium);
                } else {
                    if flight.fate == Some(FaultKind::Rot) {
                        self.medium.flip((offset + self.random.below(len)) as usize, self.random.below(8) as u32);
                    }
                    let mut at = offset as usize;
                    for buf in bufs.as_mut_slice() {
                        let len = buf.len();
                        buf.copy_from_slice(self.medium.read(at, len));
                        at += len;
                    }
                    if flight.fate == Some(FaultKind::Misread) {
                        self.misread += 1;
                        let wrong = self.random.below(len) as usize;
                        wounds::misread(bufs.as_mut_slice(), wrong, self.random.below(8) as u32);
                    }
                }
            }
            Op::Write { bufs, fua } => {
                self.bad_sectors.retain(|sector| !sectors.contains(sector));
                self.dead_sectors.retain(|sector| !sectors.contains(sector));
                if self.last_written.len() == LAST_WRITTEN {
                    self.last_written.pop_front();
                }
                self.last_written.push_back((offset as usize, len as usize));
                let is_flushed_behind = *fua && self.geometry.volatile_cache && !self.geometry.durable_writes;
                let through = *fua || !self.geometry.volatile_cache;
                failure = self.write(offset as usize, bufs, through, flight.fate);
                if failure.is_some() && is_flushed_behind && self.behaviour.gives_up {
                    let number = self.medium.flush_begins();
                    self.medium.flush_ends(number, false);
                    self.medium.give_up(number);
                }
            }
            Op::Flush => {
                let is_good = flight.fate != Some(FaultKind::FlushError);
                self.medium.flush_ends(flight.flush, is_good);
                if !is_good && self.behaviour.gives_up {
                    self.medium.give_up(flight.flush);
                }
                failure = (!is_good).then_some(IoErrorKind::Medium);
            }
            Op::Discard { len_bytes } if flight.fate == Some(FaultKind::TrimError) => {
                let _ = len_bytes;
                failure = Some(IoErrorKind::Medium);
            }
            Op::Discard { len_bytes } => {
                let len_bytes = *len_bytes as usize;
                if self.behaviour.after_discard != AfterDiscard::Old {
                    self.dead_sectors.retain(|sector| !sectors.contains(sector));
                }
                match self.behaviour.after_discard {
                    AfterDiscard::Old => {}
                    AfterDiscard::Zeros => self.medium.write(offset as usize, &vec![0; len_bytes], &mut self.random),
                    AfterDiscard::Other => {
                        let other = vec![self.random.below(256) as u8; len_bytes];
                        self.medium.write(offset as usize, &other, &mut self.random);
                    }
                }
            }
            Op::WriteZeroes { len_bytes } => {
                self.medium.write(offset as usize, &vec![0; *len_bytes as usize], &mut self.random);
                if !self.geometry.volatile_cache {
                    self.medium.write_through(offset as usize, &vec![0; *len_bytes as usize]);
                }
            }
        }
        failure
    }

    fn write(
        &mut self,
        offset: usize,
        bufs: &Vectored<forebay_block::SharedBuf>,
        through: bool,
        fate: Option<FaultKind>,
    ) -> Option<IoErrorKind> {
        let mut at = offset;
        for buf in bufs.as_slice() {
            let bytes: &[u8] = buf;
            match fate {
                Some(FaultKind::LostWrite) => {}
                Some(FaultKind::MisdirectedWrite) => {
                    let places = (self.medium.len_bytes() - bytes.len()) / 4096 + 1;
                    let elsewhere = self.random.index(places) * 4096;
                    self.medium.write(elsewhere, bytes, &mut self.random);
                }
                Some(FaultKind::WriteError) => {
                    // Any part of it, in the cache.
                    for (i, sector) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
                        if self.random.chance(1, 2) {
                            self.medium.write(at + i * SECTOR_BYTES, sector, &mut self.random);
                        }
                    }
                }
                _ if through => self.medium.write_through(at, bytes),
                _ => self.medium.write(at, bytes, &mut self.random),
            }
            if fate == Some(FaultKind::DuplicatedWrite) {
                let later = self.clock.now_ns() + self.random.below(100_000_000);
                self.echoes.push((later, at, bytes.to_vec()));
                self.echoes.sort_by_key(|echo| echo.0);
            }
            at += bytes.len();
        }
        (fate == Some(FaultKind::WriteError)).then_some(IoErrorKind::Medium)
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
        self.core().submit(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        self.core().poll(done);
    }

    fn wait(&mut self, timeout_ns: u64) {
        let core = self.core();
        let until = core.clock.now_ns().saturating_add(timeout_ns);
        core.clock.advance_to(core.next_ns().min(until));
    }

    fn queue_limit(&self) -> usize {
        QUEUE_LIMIT
    }

    fn in_flight(&self) -> usize {
        self.core().flights.len()
    }
}
