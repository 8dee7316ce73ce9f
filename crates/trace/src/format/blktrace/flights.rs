//! Requests at the device, and those behind them that wait to be passed on in the order of issue.

use super::event::{Event, Key};
use super::usual::Usual;
use crate::hash::Seed;
use crate::{Flags, NOT_KNOWN, Request};
use std::collections::{HashMap, VecDeque};

/// Most requests that are kept; beyond that, the oldest is passed on without its latency.
const FLIGHTS_MAX: usize = 1 << 16;
/// Most requests with the same key that are searched.
const SAME_KEY_MAX: usize = 64;
/// Most completed requests that one at the end of the trace lets overtake it; beyond that, its completion was lost.
const OVERTAKEN_MAX: u64 = 1024;
const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the device.
    Open,
    /// Completed.
    Done,
    /// Returned by the driver; it will be issued again.
    Requeued,
}

struct Flight {
    request: Request,
    key: Key,
    state: State,
    /// Bytes that have not completed yet.
    left_bytes: u64,
    /// An earlier request with the same key.
    older: Option<u64>,
    /// Number of the next request when a completion first ended a later one with the same key instead of this.
    passed_before: Option<u64>,
}

/// A request that a completion ends.
struct Ended {
    number: u64,
    /// Whether no other request had the key, so that its latency is certain.
    is_alone: bool,
}

/// The requests in the order of issue.
#[derive(Default)]
pub(super) struct Flights {
    flights: VecDeque<Flight>,
    /// Number of the first request.
    first: u64,
    /// The latest open request of each key.
    open: HashMap<Key, u64, Seed>,
    /// Number of open requests of each device.
    depths: HashMap<u32, u16, Seed>,
    usual: Usual,
    /// Number of requests whose completions must have been lost.
    lost: u64,
}

impl Flights {
    /// Adds a request that goes to its device.
    pub fn issue(&mut self, key: Key, mut request: Request, into: &mut Vec<Request>) {
        let depth = self.depths.entry(key.device).or_default();
        *depth = depth.saturating_add(1);
        request.depth = *depth;
        let number = self.first + self.flights.len() as u64;
        let older = self.open.insert(key, number);
        self.flights.push_back(Flight {
            request,
            key,
            state: State::Open,
            left_bytes: request.len_bytes,
            older,
            passed_before: None,
        });
        if self.flights.len() > FLIGHTS_MAX {
            self.give_up_first();
        }
        self.hand_out(into);
    }

    /// Adds a request of a device without completions; it is reported in its turn.
    pub fn pass(&mut self, key: Key, request: Request, into: &mut Vec<Request>) {
        self.flights.push_back(Flight {
            request,
            key,
            state: State::Done,
            left_bytes: 0,
            older: None,
            passed_before: None,
        });
        if self.flights.len() > FLIGHTS_MAX {
            self.give_up_first();
        }
        self.hand_out(into);
    }

    /// Handles the completion of a request or of a part of it; returns whether one was found.
    pub fn complete(&mut self, event: &Event, into: &mut Vec<Request>) -> bool {
        let Some(Ended { number, is_alone }) = self.take(event) else { return false };
        let Some(flight) = self.flight(number) else { return false };
        let has_failed = event.flags.has(Flags::ERROR);
        let done_bytes = event.len_bytes.min(flight.left_bytes);
        flight.left_bytes -= done_bytes;
        if flight.left_bytes > 0 && done_bytes > 0 && !has_failed {
            // The rest completes at the sector behind the completed part.
            flight.key.sector = flight.key.sector.saturating_add(done_bytes / SECTOR_BYTES);
            let key = flight.key;
            let older = self.open.insert(key, number);
            if let Some(flight) = self.flight(number) {
                flight.older = older;
            }
            return true;
        }
        flight.state = State::Done;
        let latency_ns = event.time_ns.saturating_sub(flight.request.issued_ns);
        flight.request.latency_ns = latency_ns;
        flight.request.flags = flight.request.flags.with(Flags(event.flags.0 & Flags::ERROR.0));
        if is_alone {
            self.usual.learn(event, latency_ns);
        }
        self.left(event.device);
        self.hand_out(into);
        true
    }

    /// Handles a request that the driver returns, and returns it.
    pub fn requeue(&mut self, event: &Event) -> Option<Request> {
        let Ended { number, .. } = self.take(event)?;
        let flight = self.flight(number)?;
        flight.state = State::Requeued;
        let request = flight.request;
        self.left(event.device);
        Some(request)
    }

    /// Passes on all requests.
    pub fn end(&mut self, into: &mut Vec<Request>) {
        // What is still open was at the device when the trace ended, unless many have overtaken it.
        let mut overtaken: HashMap<u32, u64, Seed> = HashMap::default();
        for flight in self.flights.iter().rev() {
            let later = overtaken.entry(flight.key.device).or_default();
            self.lost += u64::from(flight.state == State::Open && *later > OVERTAKEN_MAX);
            *later += u64::from(flight.state == State::Done);
        }
        let is_reported = |flight: &Flight| flight.state != State::Requeued;
        into.extend(self.flights.drain(..).filter(is_reported).map(|flight| flight.request));
        *self = Self { lost: self.lost, ..Self::default() };
    }

    /// Number of requests so far whose completions must have been lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn flight(&mut self, number: u64) -> Option<&mut Flight> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flights.get_mut(at)
    }

    /// Removes the open request that a completion ends from the table: of those with its key the ones with its length, or else all; of
    /// these the oldest whose latency would not be far above the usual. Older ones are passed by. One that is passed by for a request
    /// that was issued after it had been passed by before has lost its completion, and is given up.
    fn take(&mut self, event: &Event) -> Option<Ended> {
        let key = event.key();
        let latest = *self.open.get(&key)?;
        let older = self.flight(latest).and_then(|flight| flight.older);
        if older.is_none_or(|older| older < self.first) {
            // Nearly always.
            self.open.remove(&key);
            return self.flight(latest).map(|_| Ended { number: latest, is_alone: true });
        }
        let open = self.open_with(key);
        let fits = |flight: &Flight| flight.left_bytes == event.len_bytes;
        let has_fitting = open.iter().any(|&number| self.flight(number).is_some_and(|flight| fits(flight)));
        let mut list: Vec<(u64, u64)> = Vec::new();
        for &number in &open {
            if let Some(flight) = self.flight(number).filter(|flight| !has_fitting || fits(flight)) {
                list.push((number, event.time_ns.saturating_sub(flight.request.issued_ns)));
            }
        }
        let ages: Vec<u64> = list.iter().map(|&(_, age_ns)| age_ns).collect();
        let chosen = self.usual.choose(event, &ages);
        let number = list.get(chosen)?.0;
        let next = self.first + self.flights.len() as u64;
        let mut gone = vec![number];
        for &(older, _) in &list[chosen + 1..] {
            let Some(flight) = self.flight(older) else { continue };
            if flight.passed_before.is_some_and(|before| number >= before) {
                gone.push(older);
            }
            flight.passed_before.get_or_insert(next);
        }
        self.unlink(key, &open, &gone);
        for &lost in &gone[1..] {
            self.give_up(lost);
        }
        Some(Ended { number, is_alone: open.len() == 1 })
    }

    /// Numbers of the open requests with this key, newest first.
    fn open_with(&mut self, key: Key) -> Vec<u64> {
        let mut open = Vec::new();
        let mut next = self.open.get(&key).copied();
        while let Some(number) = next.filter(|_| open.len() < SAME_KEY_MAX) {
            let Some(flight) = self.flight(number) else { break };
            next = flight.older;
            open.push(number);
        }
        open
    }

    /// Takes the requests `gone` out of the chain `open` of a key.
    fn unlink(&mut self, key: Key, open: &[u64], gone: &[u64]) {
        // Behind those that are searched; it may have been given up.
        let behind = open.last().and_then(|&last| self.flight(last)).and_then(|flight| flight.older);
        let mut older = behind.filter(|behind| *behind >= self.first);
        for &number in open.iter().rev() {
            let Some(flight) = self.flight(number) else { continue };
            if gone.contains(&number) {
                flight.older = None;
            } else {
                flight.older = older;
                older = Some(number);
            }
        }
        match older {
            Some(latest) => drop(self.open.insert(key, latest)),
            None => drop(self.open.remove(&key)),
        }
    }

    fn left(&mut self, device: u32) {
        if let Some(depth) = self.depths.get_mut(&device) {
            *depth = depth.saturating_sub(1);
        }
    }

    /// Passes on requests at the front that need not wait for anything.
    fn hand_out(&mut self, into: &mut Vec<Request>) {
        while let Some(flight) = self.flights.front()
            && flight.state != State::Open
        {
            if flight.state == State::Done {
                into.push(flight.request);
            }
            self.flights.pop_front();
            self.first += 1;
        }
    }

    /// Stops waiting for the first request.
    fn give_up_first(&mut self) {
        let Some(first) = self.flights.front().filter(|first| first.state == State::Open) else { return };
        let key = first.key;
        // The table may name a younger request with the same key; its chain then ends at a number that is gone.
        if self.open.get(&key) == Some(&self.first) {
            self.open.remove(&key);
        }
        self.give_up(self.first);
    }

    /// Stops waiting for the completion of a request that is in no chain.
    fn give_up(&mut self, number: u64) {
        let Some(flight) = self.flight(number) else { return };
        flight.state = State::Done;
        flight.request.latency_ns = NOT_KNOWN;
        let device = flight.key.device;
        self.lost += 1;
        self.left(device);
    }
}
