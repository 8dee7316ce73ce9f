//! Queue depths: how many requests were at the device, per request and over time. Each volume of the trace is a device with its own queue:
//! a server of 16 disks with one request at each has depth 1.

use crate::hash::Seed;
use crate::{NOT_KNOWN, Request};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

/// Most requests in flight that are followed.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// Most later ends that are passed over to insert one into the queue; an end that belongs further ahead goes to the heap.
const PASSED_MAX: usize = 32;
/// Number of depths that are distinguished; larger ones count as the last.
pub const DEPTHS: usize = 1025;
/// Most processes with their own depths; others share the last.
const PROCESSES_MAX: usize = 256;
/// Largest number of a process's name for which a place is kept.
const NUMBERS_MAX: usize = 1 << 20;

/// Requests and nanoseconds at each depth, over all devices. Index 0 is unused.
#[derive(Clone, Debug)]
pub struct Depths {
    /// Requests by the depth of their device at issue, themselves included.
    pub requests: Vec<u64>,
    /// Nanoseconds for which devices had each depth.
    pub time_ns: Vec<u64>,
}

impl Default for Depths {
    fn default() -> Self {
        Self { requests: vec![0; DEPTHS], time_ns: vec![0; DEPTHS] }
    }
}

impl Depths {
    /// Mean depth that a request met; `None` without requests.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count: u64 = self.requests.iter().sum();
        let sum: f64 = self.requests.iter().enumerate().map(|(depth, &count)| depth as f64 * count as f64).sum();
        (count > 0).then(|| sum / count as f64)
    }

    /// Time for which devices were busy, summed over devices, in nanoseconds.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.time_ns.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }

    /// Mean depth over the time in which devices were busy; `None` if none ever was.
    #[must_use]
    pub fn mean_busy(&self) -> Option<f64> {
        let busy = self.busy_ns();
        let sum: f64 = self.time_ns.iter().enumerate().map(|(depth, &ns)| depth as f64 * ns as f64).sum();
        (busy > 0).then(|| sum / busy as f64)
    }

    /// The depth that a share of the requests does not exceed; `None` without requests.
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

/// The requests in flight at a device, of all processes or of one.
#[derive(Clone, Copy, Default)]
struct Level {
    requests: usize,
    since_ns: u64,
}

impl Level {
    fn change(&mut self, at_ns: u64, up: bool, depths: &mut Depths) {
        if self.requests > 0 {
            let time_ns = &mut depths.time_ns[self.requests.min(DEPTHS - 1)];
            *time_ns = time_ns.saturating_add(at_ns.saturating_sub(self.since_ns));
        }
        self.since_ns = at_ns;
        self.requests = if up { self.requests + 1 } else { self.requests.saturating_sub(1) };
        if up {
            depths.requests[self.requests.min(DEPTHS - 1)] += 1;
        }
    }
}

/// End time of a request, place of its process, and its device.
type End = (u64, u16, u32);

/// The end times of requests in flight. Requests that begin later mostly end later, or nearly so: there is an ordered queue, and a heap for
/// the exceptions.
#[derive(Default)]
struct Ends {
    queue: VecDeque<End>,
    heap: BinaryHeap<Reverse<End>>,
}

impl Ends {
    fn len(&self) -> usize {
        self.queue.len() + self.heap.len()
    }

    fn add(&mut self, end: End) {
        if self.queue.back().is_none_or(|last| *last <= end) {
            return self.queue.push_back(end);
        }
        let mut at = self.queue.len();
        while at > 0 && self.queue[at - 1] > end {
            if self.queue.len() - at == PASSED_MAX {
                return self.heap.push(Reverse(end));
            }
            at -= 1;
        }
        self.queue.insert(at, end);
    }

    /// Removes the first request to end, if it ends by `now_ns`.
    fn next_until(&mut self, now_ns: u64) -> Option<End> {
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

/// Follows requests in flight by their issue times and latencies, or uses recorded depths.
#[derive(Default)]
pub struct DepthMeter {
    all: Depths,
    /// The levels by device number.
    levels: Vec<Level>,
    recorded: Depths,
    has_recorded: bool,
    /// Depths of each process, in order of appearance, and the place of each process number. Depths are counted per process only once there
    /// are two: until then, those of the first process are those of all.
    processes: Vec<(u32, Depths)>,
    places: Vec<Option<u16>>,
    /// Level by place of the process and device, while something is in flight.
    process_levels: HashMap<(u16, u32), Level, Seed>,
    ends: Ends,
    /// Number of requests without a latency, and of those beyond the limit.
    not_followed: u64,
}

impl DepthMeter {
    /// Counts the issue of a request. Issue times must not go back.
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
        let place = self.place(request.process);
        self.change(now_ns, place, request.volume, true);
        self.ends.add((now_ns.saturating_add(request.latency_ns), place, request.volume));
    }

    fn change(&mut self, at_ns: u64, place: u16, volume: u32, up: bool) {
        let device = volume as usize;
        if self.levels.len() <= device {
            self.levels.resize(device + 1, Level::default());
        }
        self.levels[device].change(at_ns, up, &mut self.all);
        if self.processes.len() > 1 {
            let level = self.process_levels.entry((place, volume)).or_default();
            level.change(at_ns, up, &mut self.processes[usize::from(place)].1);
            if level.requests == 0 {
                self.process_levels.remove(&(place, volume));
            }
        }
    }

    /// The place of a process; processes beyond the limit share the last place.
    fn place(&mut self, process: u32) -> u16 {
        let number = process as usize;
        if let Some(Some(place)) = self.places.get(number) {
            return *place;
        }
        let place = self.processes.len().min(PROCESSES_MAX - 1);
        if place == self.processes.len() {
            let process = if place == PROCESSES_MAX - 1 { u32::MAX } else { process };
            if place == 1 {
                self.part_processes();
            }
            self.processes.push((process, Depths::default()));
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

    /// Called when a second process appears: everything so far belonged to the first.
    fn part_processes(&mut self) {
        self.processes[0].1 = self.all.clone();
        let busy = (0..).zip(&self.levels).filter(|(_, level)| level.requests > 0);
        self.process_levels.extend(busy.map(|(volume, level)| ((0, volume), *level)));
    }

    fn end_until(&mut self, now_ns: u64) {
        while let Some((end_ns, place, volume)) = self.ends.next_until(now_ns) {
            self.change(end_ns, place, volume, false);
        }
    }

    /// The depths of all requests, and of each process; `None` if the trace has neither depths nor latencies. Recorded depths take
    /// precedence over those computed from latencies.
    pub fn finish(mut self) -> Option<(Depths, BTreeMap<u32, Depths>)> {
        self.end_until(u64::MAX);
        let followed = self.all.requests.iter().any(|&count| count > 0);
        if !followed && !self.has_recorded {
            return None;
        }
        if let [(_, only)] = &mut self.processes[..] {
            only.clone_from(&self.all);
        }
        let mut all = self.all;
        if self.has_recorded {
            all.requests = self.recorded.requests;
        }
        Some((all, self.processes.into_iter().collect()))
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

    /// The times of all devices are added; together they may exceed 64 bits.
    #[test]
    fn regression_busy_times_of_several_devices_do_not_overflow() {
        let mut depths = Depths::default();
        for _ in 0..3 {
            let mut level = Level::default();
            level.change(0, true, &mut depths);
            level.change(u64::MAX, false, &mut depths);
        }
        assert_eq!(depths.busy_ns(), u64::MAX);
        assert!(depths.mean_busy().is_some_and(f64::is_finite));
    }

    proptest! {
        /// Few different values, so that many are equal; and some ends long after all others.
        #[test]
        fn ends_come_in_their_order(steps in vec((any::<bool>(), 0u64..300, 0u16..3, 0u8..4), 0..600)) {
            let (mut ends, mut model, mut now_ns) = (Ends::default(), Vec::new(), 0);
            for (adds, ns, place, far) in steps {
                if adds {
                    let end = (now_ns + ns + if far == 0 { 10_000 } else { 0 }, place, 0);
                    ends.add(end);
                    model.push(end);
                } else {
                    now_ns += ns / 30;
                    model.sort_unstable();
                    let due = model.partition_point(|end| end.0 <= now_ns);
                    let expected: Vec<End> = model.drain(..due).collect();
                    let found: Vec<End> = std::iter::from_fn(|| ends.next_until(now_ns)).collect();
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
        assert_eq!(all.time_ns[..4], [0, 110, 30, 20]);
        assert_eq!(processes[&1].requests[..3], [0, 2, 1]);
        assert_eq!(processes[&2].requests[..3], [0, 1, 0]);
        // The first process is busy until 200 and again from 300; the other one from 150 to 250.
        assert_eq!(
            (processes[&1].time_ns[..3].to_vec(), processes[&2].time_ns[..3].to_vec()),
            (vec![0, 90, 20], vec![0, 100, 0])
        );
        assert_eq!(all.quantile(0.5), Some(1));
    }

    /// The same requests had depth 1 in formats that record the depth, and 2 in others, because the computed depth was over all volumes; so
    /// was the time in both.
    #[test]
    fn regression_depths_are_those_of_each_device() {
        let mut meter = DepthMeter::default();
        for at in 0..1000 {
            for (volume, process) in [(0, 1), (1, 2)] {
                meter.issue(&Request { volume, ..request(at * 150 + u64::from(volume), 100, process) });
            }
        }
        let (all, processes) = meter.finish().unwrap();
        assert_eq!((all.requests[..3].to_vec(), all.time_ns[..3].to_vec()), (vec![0, 2000, 0], vec![0, 200_000, 0]));
        for (_, of_process) in processes {
            assert_eq!((of_process.requests[1], of_process.time_ns[1]), (1000, 100_000));
        }
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
