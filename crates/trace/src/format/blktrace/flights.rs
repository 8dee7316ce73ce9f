//! Requests at the device, and those behind them that wait to be passed on in the order of issue.

use super::event::{Event, Key};
use crate::hash::Seed;
use crate::{Flags, NOT_KNOWN, Request};
use std::collections::{HashMap, VecDeque};

/// Most requests that are kept; beyond that, the oldest is passed on without its latency.
const FLIGHTS_MAX: usize = 1 << 16;
/// Most requests with the same key that are searched.
const SAME_KEY_MAX: usize = 64;
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
}

impl Flights {
    /// Adds a request that goes to its device.
    pub fn issue(&mut self, key: Key, mut request: Request, into: &mut Vec<Request>) {
        let depth = self.depths.entry(key.device).or_default();
        *depth = depth.saturating_add(1);
        request.depth = *depth;
        let number = self.first + self.flights.len() as u64;
        let older = self.open.insert(key, number);
        self.flights.push_back(Flight { request, key, state: State::Open, left_bytes: request.len_bytes, older });
        if self.flights.len() > FLIGHTS_MAX {
            self.give_up_first();
        }
        self.hand_out(into);
    }

    /// Adds a request of a device without completions; it is reported in its turn.
    pub fn pass(&mut self, key: Key, request: Request, into: &mut Vec<Request>) {
        self.flights.push_back(Flight { request, key, state: State::Done, left_bytes: 0, older: None });
        if self.flights.len() > FLIGHTS_MAX {
            self.give_up_first();
        }
        self.hand_out(into);
    }

    /// Handles the completion of a request or of a part of it; returns whether one was found.
    pub fn complete(&mut self, event: &Event, into: &mut Vec<Request>) -> bool {
        let Some(number) = self.take(event.key(), event.len_bytes) else { return false };
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
        flight.request.latency_ns = event.time_ns.saturating_sub(flight.request.issued_ns);
        flight.request.flags = flight.request.flags.with(Flags(event.flags.0 & Flags::ERROR.0));
        self.left(event.device);
        self.hand_out(into);
        true
    }

    /// Handles a request that the driver returns, and returns it.
    pub fn requeue(&mut self, event: &Event) -> Option<Request> {
        let number = self.take(event.key(), event.len_bytes)?;
        let flight = self.flight(number)?;
        flight.state = State::Requeued;
        let request = flight.request;
        self.left(event.device);
        Some(request)
    }

    /// Passes on all requests.
    pub fn end(&mut self, into: &mut Vec<Request>) {
        let is_reported = |flight: &Flight| flight.state != State::Requeued;
        into.extend(self.flights.drain(..).filter(is_reported).map(|flight| flight.request));
        *self = Self::default();
    }

    fn flight(&mut self, number: u64) -> Option<&mut Flight> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.flights.get_mut(at)
    }

    /// Removes an open request with this key from the table: the oldest with this length, or else the oldest.
    fn take(&mut self, key: Key, len_bytes: u64) -> Option<u64> {
        let latest = *self.open.get(&key)?;
        // The request, the newer one with the same key, and whether its length matches.
        let mut best: Option<(u64, Option<u64>, bool)> = None;
        let (mut number, mut newer) = (latest, None);
        for _ in 0..SAME_KEY_MAX {
            let Some(flight) = self.flight(number) else { break };
            let fits = flight.left_bytes == len_bytes;
            if fits || !best.is_some_and(|(.., fits)| fits) {
                best = Some((number, newer, fits));
            }
            let Some(older) = flight.older else { break };
            newer = Some(number);
            number = older;
        }
        let Some((number, newer, _)) = best else {
            self.open.remove(&key);
            return None;
        };
        let older = self.flight(number).and_then(|flight| flight.older.take());
        match (newer, older) {
            (Some(newer), older) => {
                if let Some(newer) = self.flight(newer) {
                    newer.older = older;
                }
            }
            (None, Some(older)) => {
                self.open.insert(key, older);
            }
            (None, None) => {
                self.open.remove(&key);
            }
        }
        Some(number)
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
        let Some(first) = self.flights.front_mut() else { return };
        if first.state != State::Open {
            return;
        }
        first.state = State::Done;
        first.request.latency_ns = NOT_KNOWN;
        let key = first.key;
        // The table may name a younger request with the same key; its chain then ends at a number that is gone.
        if self.open.get(&key) == Some(&self.first) {
            self.open.remove(&key);
        }
        self.left(key.device);
    }
}
