//! Queue depths: how many requests were at the device, by the requests and by the time.

use crate::{NOT_KNOWN, Request};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Requests in flight that are followed at most.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// So many later ends are passed over to put one in its place; what belongs further ahead goes to the heap.
const PASSED_MAX: usize = 32;
/// Depths distinguished; larger ones count as the last.
pub const DEPTHS: usize = 1025;
/// Processes with depths of their own; others share the last.
const PROCESSES_MAX: usize = 256;
/// Largest number of a process's name.
const NUMBERS_MAX: usize = 1 << 20;

/// Requests at each depth, index 0 unused, and nanoseconds at each depth, index 0 idle.
#[derive(Clone, Debug)]
pub struct Depths {
    /// Requests issued at a depth, themselves included.
    pub requests: Vec<u64>,
    /// Nanoseconds with so many in flight.
    pub time_ns: Vec<u64>,
}

impl Default for Depths {
    fn default() -> Self {
        Self { requests: vec![0; DEPTHS], time_ns: vec![0; DEPTHS] }
    }
}

impl Depths {
    /// Mean depth that a request met; `None` where there were none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count: u64 = self.requests.iter().sum();
        let sum: f64 = self.requests.iter().enumerate().map(|(depth, &count)| depth as f64 * count as f64).sum();
        (count > 0).then(|| sum / count as f64)
    }

    /// Mean depth while busy, over time; `None` where it never was.
    #[must_use]
    pub fn mean_busy(&self) -> Option<f64> {
        let busy: u64 = self.time_ns.iter().skip(1).sum();
        let sum: f64 = self.time_ns.iter().enumerate().map(|(depth, &ns)| depth as f64 * ns as f64).sum();
        (busy > 0).then(|| sum / busy as f64)
    }

    /// The depth below or at which a share of the requests lies; `None` where there were none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<usize> {
        let count: u64 = self.requests.iter().sum();
        let mut below = 0;
        let wanted = share * count as f64;
        self.requests.iter().enumerate().find_map(|(depth, &requests)| {
            below += requests;
            (requests > 0 && below as f64 >= wanted).then_some(depth)
        })
    }
}

#[derive(Default)]
struct Gauge {
    depths: Depths,
    now: usize,
    since_ns: u64,
}

impl Gauge {
    fn change(&mut self, at_ns: u64, up: bool) {
        self.depths.time_ns[self.now.min(DEPTHS - 1)] += at_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(at_ns);
        self.now = if up { self.now + 1 } else { self.now.saturating_sub(1) };
    }
}

/// When requests in flight end, and the places of their processes. Mostly who begins later ends later, or nearly so: a queue in
/// order, and a heap for the others.
#[derive(Default)]
struct Ends {
    queue: VecDeque<(u64, u16)>,
    heap: BinaryHeap<Reverse<(u64, u16)>>,
}

impl Ends {
    fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }

    fn add(&mut self, end: (u64, u16)) {
        let mut at = self.queue.len();
        while at > 0 && self.queue[at - 1] > end {
            if self.queue.len() - at == PASSED_MAX {
                return self.heap.push(Reverse(end));
            }
            at -= 1;
        }
        self.queue.insert(at, end);
    }

    /// The first to end, if it ends until then.
    fn next_until(&mut self, now_ns: u64) -> Option<(u64, u16)> {
        let (queued, heaped) = (self.queue.front().copied(), self.heap.peek().map(|Reverse(end)| *end));
        match (queued, heaped) {
            (Some(end), other) if other.is_none_or(|other| end <= other) => {
                (end.0 <= now_ns).then(|| self.queue.pop_front()).flatten()
            }
            (_, Some(end)) => (end.0 <= now_ns).then(|| self.heap.pop()).flatten().map(|Reverse(end)| end),
            (_, None) => None,
        }
    }
}

/// Follows what is in flight, from issue times and latencies, or takes the depths that were recorded.
#[derive(Default)]
pub struct DepthMeter {
    all: Gauge,
    recorded: Depths,
    has_recorded: bool,
    /// Of each process, in the order in which they came, and at which place a process's number has its gauge.
    processes: Vec<(u32, Gauge)>,
    places: Vec<Option<u16>>,
    ends: Ends,
    /// Requests without a latency, and those beyond the limit.
    not_followed: u64,
}

impl DepthMeter {
    /// A request is issued. Issue times do not go back.
    pub fn issue(&mut self, request: &Request) {
        if request.depth > 0 {
            self.has_recorded = true;
            self.recorded.requests[usize::from(request.depth).min(DEPTHS - 1)] += 1;
        }
        if request.latency_ns == NOT_KNOWN {
            self.not_followed += 1;
            return;
        }
        let now_ns = request.issued_ns;
        self.end_until(now_ns);
        if self.ends.len() >= IN_FLIGHT_MAX {
            self.not_followed += 1;
            return;
        }
        let place = self.place(request.process, now_ns);
        if self.all.since_ns == 0 && self.all.now == 0 {
            self.all.since_ns = now_ns;
        }
        self.all.change(now_ns, true);
        self.all.depths.requests[self.all.now.min(DEPTHS - 1)] += 1;
        let gauge = &mut self.processes[usize::from(place)].1;
        gauge.change(now_ns, true);
        gauge.depths.requests[gauge.now.min(DEPTHS - 1)] += 1;
        self.ends.add((now_ns.saturating_add(request.latency_ns), place));
    }

    /// The place of a process's gauge; those that are too many share the last.
    fn place(&mut self, process: u32, now_ns: u64) -> u16 {
        let number = process as usize;
        if let Some(Some(place)) = self.places.get(number) {
            return *place;
        }
        let place = self.processes.len().min(PROCESSES_MAX - 1);
        if place == self.processes.len() {
            let process = if place == PROCESSES_MAX - 1 { u32::MAX } else { process };
            self.processes.push((process, Gauge { since_ns: now_ns, ..Gauge::default() }));
        }
        // Names are bounded, and so are their numbers.
        if self.places.len() <= number && number < NUMBERS_MAX {
            self.places.resize(number + 1, None);
        }
        if let Some(known) = self.places.get_mut(number) {
            *known = Some(place as u16);
        }
        place as u16
    }

    fn end_until(&mut self, now_ns: u64) {
        while let Some((end_ns, place)) = self.ends.next_until(now_ns) {
            self.all.change(end_ns, false);
            self.processes[usize::from(place)].1.change(end_ns, false);
        }
    }

    /// The depths of all requests, and of each process; `None` where the trace tells neither depths nor latencies. What was
    /// recorded counts more than what follows from latencies.
    pub fn finish(mut self) -> Option<(Depths, BTreeMap<u32, Depths>)> {
        self.end_until(u64::MAX);
        let followed = self.all.depths.requests.iter().any(|&count| count > 0);
        if !followed && !self.has_recorded {
            return None;
        }
        let mut all = self.all.depths;
        if self.has_recorded {
            all.requests = self.recorded.requests;
        }
        Some((all, self.processes.into_iter().map(|(process, gauge)| (process, gauge.depths)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn request(issued_ns: u64, latency_ns: u64, process: u32) -> Request {
        Request { latency_ns, process, ..Request::new(issued_ns, Op::Read, 0, 4096) }
    }

    proptest! {
        /// Few values, so that many are equal; and some that end long after all others.
        #[test]
        fn ends_come_in_their_order(steps in vec((any::<bool>(), 0u64..300, 0u16..3, 0u8..4), 0..600)) {
            let (mut ends, mut model, mut now_ns) = (Ends::default(), Vec::new(), 0);
            for (adds, ns, place, far) in steps {
                if adds {
                    let end = (now_ns + ns + if far == 0 { 10_000 } else { 0 }, place);
                    ends.add(end);
                    model.push(end);
                } else {
                    now_ns += ns / 30;
                    model.sort_unstable();
                    let due = model.partition_point(|end| end.0 <= now_ns);
                    let expected: Vec<(u64, u16)> = model.drain(..due).collect();
                    let found: Vec<(u64, u16)> = std::iter::from_fn(|| ends.next_until(now_ns)).collect();
                    prop_assert_eq!(found, expected);
                }
                prop_assert_eq!(ends.len(), model.len());
            }
        }
    }

    #[test]
    fn depths_follow_from_times() {
        let mut meter = DepthMeter::default();
        for (issued, latency, process) in [(100, 100, 1), (150, 100, 2), (150, 20, 1), (300, 10, 1)] {
            meter.issue(&request(issued, latency, process));
        }
        let (all, processes) = meter.finish().unwrap();
        assert_eq!(all.requests[..4], [0, 2, 1, 1]);
        // 100-150: 1; 150-170: 3; 170-200: 2; 200-250: 1; 250-300: none; 300-310: 1.
        assert_eq!(all.time_ns[..4], [50, 110, 30, 20]);
        assert_eq!(processes[&1].requests[..3], [0, 2, 1]);
        assert_eq!(processes[&2].requests[..3], [0, 1, 0]);
        assert_eq!(all.quantile(0.5), Some(1));
    }

    #[test]
    fn what_ends_as_the_next_begins_is_no_depth_of_two() {
        let mut meter = DepthMeter::default();
        (0..10).for_each(|at| meter.issue(&request(at * 10, 10, 0)));
        assert_eq!(meter.finish().unwrap().0.requests[..3], [0, 10, 0]);
    }

    #[test]
    fn recorded_depths_win() {
        let mut meter = DepthMeter::default();
        meter.issue(&Request { depth: 7, ..request(0, 10, 0) });
        assert_eq!(meter.finish().unwrap().0.requests[7], 1);
        assert!(DepthMeter::default().finish().is_none());
    }
}
