//! Which of several like requests a completion ends.

use super::event::Event;
use crate::Op;
use crate::hash::Seed;
use std::collections::HashMap;

/// A latency counts as one of this many in the usual one.
const OF_LATEST: u64 = 16;
/// A latency is far above the usual one from seven quarters of it on: where a completion is lost, two requests follow each other within the
/// first one's apparent latency, which is then at least twice the usual.
const FAR_ABOVE: (u64, u64) = (7, 4);
/// Where all are far above the usual one, or none is known, one is far above the next from this many times it on.
const FAR_ABOVE_NEXT: u64 = 16;

/// The usual latencies of each device and operation, from requests that were alone with their key, so that their latencies are certain.
#[derive(Default)]
pub(super) struct Usual {
    latencies_ns: HashMap<(u32, Op), u64, Seed>,
    /// The device and operation of the last request, which the next mostly has too, and their latency, which is not in the table yet.
    last: Option<((u32, Op), u64)>,
}

impl Usual {
    pub fn learn(&mut self, event: &Event, latency_ns: u64) {
        let of = (event.device, event.op);
        let usual_ns = self.of(of).unwrap_or(latency_ns);
        if let Some((last, last_ns)) = self.last.filter(|(last, _)| *last != of) {
            self.latencies_ns.insert(last, last_ns);
        }
        self.last = Some((of, usual_ns.saturating_mul(OF_LATEST - 1).saturating_add(latency_ns) / OF_LATEST));
    }

    /// The usual latency of a device and operation.
    fn of(&self, of: (u32, Op)) -> Option<u64> {
        match self.last {
            Some((last, usual_ns)) if last == of => Some(usual_ns),
            _ => self.latencies_ns.get(&of).copied(),
        }
    }

    /// The index of the request that a completion ends, among the ages of like ones, newest first: the oldest that is not far above the
    /// usual. If all are (the device is slow), or no latency is known, it is the oldest that is not far above the next one.
    pub fn choose(&self, event: &Event, ages_ns: &[u64]) -> usize {
        let oldest = ages_ns.len().saturating_sub(1);
        let is_usual = |age_ns: u64| {
            let (times, of) = FAR_ABOVE;
            let usual_ns = self.of((event.device, event.op));
            usual_ns.is_some_and(|usual_ns| age_ns.saturating_mul(of) < usual_ns.saturating_mul(times))
        };
        let is_near_next = |index: usize| ages_ns[index] < ages_ns[index - 1].saturating_mul(FAR_ABOVE_NEXT);
        let usual = (0..=oldest).rev().find(|&index| ages_ns.get(index).is_some_and(|&age_ns| is_usual(age_ns)));
        usual.or_else(|| (1..=oldest).rev().find(|&index| is_near_next(index))).unwrap_or(0)
    }
}
