//! Requests in flight on a device: each ends when its time has come, while there is power.

use super::behaviour::Behaviour;
use super::contents::Contents;
use super::flight::{Flight, completion};
use super::plan::Plan;
use super::timing::Timing;
use crate::fault::FaultKind;
use crate::order::{Places, Region, What};
use crate::power::Power;
use forebay_block::{Completion, Geometry, IoError, IoErrorKind, Op, Random, Request, VirtualClock};
use forebay_model::ssd::Done;

/// Duration of a slow request in nanoseconds.
const SLOW_NS: u64 = 1_000_000_000;
/// What a hanging request takes, in nanoseconds.
const HANG_NS: u64 = 30_000_000_000;

/// A running device: its requests in flight and its contents.
pub(super) struct Queue {
    pub contents: Contents,
    pub plan: Plan,
    pub places: Places,
    timing: Timing,
    clock: VirtualClock,
    power: Power,
    /// Draws times, and outcomes where nothing is promised.
    random: Random,
    flights: Vec<Flight>,
    /// Number of the next submission.
    order: u64,
    /// Requests in progress when the power failed.
    at_cut: Vec<&'static str>,
    /// Number of writes in flight when the power failed.
    torn: Vec<Request>,
    /// The device has vanished.
    is_gone: bool,
    /// Requests that the model has ended; empty between polls.
    ended: Vec<Done>,
}

impl Queue {
    pub fn new(geometry: Geometry, clock: &VirtualClock, power: &Power) -> Self {
        Self {
            contents: Contents::new(geometry),
            plan: Plan::default(),
            places: Places::default(),
            timing: Timing::Between(1000, 1000),
            clock: clock.clone(),
            power: power.clone(),
            random: Random::new(0),
            flights: Vec::new(),
            order: 0,
            at_cut: Vec::new(),
            torn: Vec::new(),
            is_gone: false,
            ended: Vec::new(),
        }
    }

    /// Switches the device on.
    pub fn start(&mut self, seed: u64, timing: Timing, behaviour: Behaviour) {
        self.random = Random::new(seed);
        self.timing = timing;
        self.contents.start(behaviour);
        self.plan.clear();
        self.at_cut.clear();
        self.flights.clear();
        self.torn.clear();
        self.is_gone = false;
    }

    /// Replaces the device by a blank one; requests to the old one are never answered.
    pub fn exchange(&mut self) {
        self.contents = self.contents.blank();
        self.plan.clear();
        self.flights.clear();
        self.torn.clear();
        self.is_gone = false;
    }

    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Requests in progress, now or when the power failed.
    pub fn in_flight(&self) -> Vec<&'static str> {
        self.at_cut.iter().copied().chain(self.names()).collect()
    }

    /// Requests submitted while there was power.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        let flights = self.flights.iter().filter(|flight| !flight.is_late);
        flights.map(|flight| self.places.name(What::of(&flight.request.op), flight.region))
    }

    /// Power off.
    pub fn power_cut(&mut self) {
        let in_flight = std::mem::take(&mut self.flights).into_iter().filter(|flight| !flight.is_late);
        let torn = std::mem::take(&mut self.torn).into_iter();
        self.contents.power_cut(torn.chain(in_flight.map(|flight| flight.request)), &mut self.random);
    }

    /// When the next request ends; `u64::MAX` where none is in progress.
    pub fn next_ns(&self) -> u64 {
        let due = self.flights.iter().map(|flight| flight.due_ns).min().unwrap_or(u64::MAX);
        due.min(self.timing.next_event_ns())
    }

    /// Advances the time to the end of the next request, by at most this many nanoseconds.
    pub fn wait(&self, timeout_ns: u64) {
        let until = self.clock.now_ns().saturating_add(timeout_ns);
        self.clock.advance_to(self.next_ns().min(until));
    }

    /// Purpose of a request.
    fn region(&self, request: &Request) -> Region {
        let at = request.offset_bytes;
        let content = match &request.op {
            Op::Write { bufs, .. } => bufs.as_slice().first().map(|buf| &buf[..]),
            Op::Read { .. } => self.contents.sector_at(at),
            _ => None,
        };
        self.places.region(at, content.unwrap_or_default())
    }

    pub fn submit(&mut self, request: Request) {
        let now = self.clock.now_ns();
        let region = self.region(&request);
        let fate = self.plan.fate(&request, region);
        let (held_ns, is_early) = self.plan.held(&request, region);
        if fate == Some(FaultKind::Vanish) {
            self.is_gone = true;
        }
        let flush = if matches!(request.op, Op::Flush) { self.contents.flush_begins() } else { 0 };
        let extra_ns = match fate {
            Some(FaultKind::Slow) => SLOW_NS,
            Some(FaultKind::Hang) => HANG_NS,
            _ => held_ns,
        };
        let order = self.order;
        self.order += 1;
        let due_ns = self.timing.submit(now, order, &request, extra_ns, &mut self.random);
        let is_late = self.power.is_off();
        let mut flight = Flight { request, order, due_ns, flush, fate, is_late, region, is_done: false };
        if is_early && fate.is_none() && !is_late && matches!(flight.request.op, Op::Read { .. } | Op::Write { .. }) {
            flight.is_done = self.contents.transfer(&mut flight, now, &mut self.random).is_none();
        }
        self.flights.push(flight);
    }

    pub fn poll(&mut self, done: &mut Vec<Completion>) {
        let now = self.clock.now_ns();
        self.timing.advance(now, &mut self.ended);
        for ended in self.ended.drain(..) {
            if let Some(flight) = self.flights.iter_mut().find(|flight| flight.order == ended.tag) {
                flight.due_ns = ended.at_ns;
            }
        }
        self.contents.echo(now);
        if self.power.is_off() || self.is_gone {
            return self.fail_all(done);
        }
        while let Some(at) = self.ripe(now) {
            if !self.power.carry_out() {
                // Requests in progress stay so: the power cut will tear them.
                return;
            }
            let mut flight = self.flights.swap_remove(at);
            let failure =
                if flight.is_done { None } else { self.contents.transfer(&mut flight, now, &mut self.random) };
            done.push(completion(flight.request, failure));
        }
    }

    /// The next request to end, where its time has come.
    fn ripe(&self, now_ns: u64) -> Option<usize> {
        let next = self.flights.iter().enumerate().min_by_key(|(_, flight)| (flight.due_ns, flight.order));
        next.filter(|(_, flight)| flight.due_ns <= now_ns).map(|(at, _)| at)
    }

    /// The device has vanished: every request fails, and the power cut will tear the writes in progress.
    fn fail_all(&mut self, done: &mut Vec<Completion>) {
        let names: Vec<_> = self.names().collect();
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
                done.push(completion(request, Some(IoErrorKind::Gone)));
            }
        }
    }
}
