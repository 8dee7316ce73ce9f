//! Converts the probes' events to requests: matches issues and completions, counts depths, and orders requests by their issue.

use super::event::{COMM_BYTES, Complete, Event, Issue, Issuer};
use crate::format::segments::Captured;
use crate::{Flags, NOT_KNOWN, Op, Request};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// A request that takes longer than this, in nanoseconds, no longer delays the requests behind it.
const HOLD_NS: u64 = 300_000_000;
/// After this time, in nanoseconds, requests from before the probes have completed, or their completion was missed.
const UNSEEN_NS: u64 = 10_000_000_000;
/// Most requests that wait for their completion; the oldest beyond that are closed without one.
const WAITING_MAX: usize = 1 << 20;

/// A part of a disk whose requests are kept: the whole disk or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Index of the disk among the watched ones.
    pub disk: u8,
    /// First sector of 512 bytes.
    pub begin: u64,
    /// Sector behind the last.
    pub end: u64,
}

/// Which requests are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Keep only requests of the processes that the probes follow, and of the files in `files`.
    pub by_process: bool,
    /// Files (file system and inode) that these processes have open.
    pub files: HashSet<(u32, u64)>,
    /// Keep only requests that these control groups pay for; empty for all.
    pub cgroups: HashSet<u64>,
}

/// Counts of the matcher.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of requests passed on.
    pub requests: u64,
    /// How often devices returned a request.
    pub requeues: u64,
    /// Number of requests that have completed without a completion event.
    pub lost_completions: u64,
    /// For each disk, the number of flushes without data, which the kernel counts as writes but never issues.
    pub empty_flushes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    captured: Captured,
    comm: [u8; COMM_BYTES],
    disk: u8,
    key: u64,
    /// When the request last went to the disk, since the capture began.
    at_disk_ns: u64,
    is_kept: bool,
    is_requeued: bool,
    is_done: bool,
}

/// A request that had already completed while it was still counted, in the depths of requests from `from` to before `to`.
#[derive(Clone, Copy, Debug)]
struct Overcounted {
    disk: u8,
    from: u64,
    to: u64,
}

/// A complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched {
    /// The request; its process is not numbered yet.
    pub captured: Captured,
    /// Name of its process, padded with zeros.
    pub comm: [u8; COMM_BYTES],
}

/// Matches issues and completions.
#[derive(Debug)]
pub struct Matcher {
    begin_ns: u64,
    ranges: Vec<Range>,
    /// Which requests are kept.
    pub filter: Filter,
    /// Requests in the order of their issue; the first has the number `first`.
    waiting: VecDeque<Waiting>,
    first: u64,
    /// Requests that took too long to wait for, by number.
    slow: BTreeMap<u64, Waiting>,
    /// Numbers of slow requests that have completed.
    slow_done: Vec<u64>,
    by_key: HashMap<u64, u64>,
    inserted: HashMap<u64, Issuer>,
    /// Requests whose flush sequence will report a second completion.
    in_flush: HashSet<u64>,
    in_flight: Vec<u32>,
    /// Corrections of depths that are too high by one, to be applied before the requests are passed on.
    overcounted: Vec<Overcounted>,
    /// Number of requests, for each disk, that were at the disk before the probes.
    unseen: Vec<u32>,
    counts: Counts,
}

impl Matcher {
    /// A matcher for these ranges; `unseen` is the number of requests at each disk now. Times count from `begin_ns` of the monotonic clock.
    #[must_use]
    pub fn new(begin_ns: u64, ranges: Vec<Range>, unseen: Vec<u32>, filter: Filter) -> Self {
        let disks = unseen.len();
        Self {
            begin_ns,
            ranges,
            filter,
            waiting: VecDeque::new(),
            first: 0,
            slow: BTreeMap::new(),
            slow_done: Vec::new(),
            by_key: HashMap::new(),
            inserted: HashMap::new(),
            in_flush: HashSet::new(),
            in_flight: vec![0; disks],
            overcounted: Vec::new(),
            unseen,
            counts: Counts { empty_flushes: vec![0; disks], ..Counts::default() },
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Handles an event.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Issue(issue) => self.issue(issue),
            Event::Complete(complete) => self.complete(complete),
            Event::Requeue { key, disk } => self.requeue(*key, *disk),
            Event::Insert { key, by } => {
                if !self.by_key.contains_key(key) && self.inserted.len() < WAITING_MAX {
                    self.inserted.insert(*key, *by);
                }
            }
        }
    }

    fn issue(&mut self, issue: &Issue) {
        let disk = usize::from(issue.disk);
        if disk >= self.in_flight.len() {
            return;
        }
        self.in_flush.remove(&issue.key);
        let at_disk_ns = issue.time_ns.saturating_sub(self.begin_ns);
        if let Some(&number) = self.by_key.get(&issue.key)
            && let Some(waiting) = self.waiting_mut(number)
        {
            if std::mem::take(&mut waiting.is_requeued) {
                waiting.at_disk_ns = at_disk_ns;
                self.in_flight[disk] += 1;
                return;
            }
            // The kernel reuses the address, so the earlier request has completed.
            self.completed_unheard(number);
        }
        self.in_flight[disk] += 1;
        let depth = self.in_flight[disk].saturating_add(self.unseen[disk]);
        let issuer = self.inserted.remove(&issue.key).unwrap_or(issue.issuer);
        let volume = self.volume(issue);
        let (offset_bytes, len_bytes) = match (issue.op, volume) {
            (Op::Flush, _) | (_, None) => (0, 0),
            (_, Some((_, begin))) => {
                (issue.sector.saturating_sub(begin).saturating_mul(512), u64::from(issue.len_bytes))
            }
        };
        let request = Request {
            queued_ns: if issue.begun_ns == 0 { NOT_KNOWN } else { issue.time_ns.saturating_sub(issue.begun_ns) },
            inode: issue.inode,
            cgroup: issue.cgroup,
            volume: volume.map_or(0, |(volume, _)| volume),
            pid: issuer.pid,
            depth: u16::try_from(depth).unwrap_or(u16::MAX),
            flags: issue.flags,
            lifetime: issue.lifetime,
            ..Request::new(at_disk_ns, issue.op, offset_bytes, len_bytes)
        };
        let waiting = Waiting {
            captured: Captured { request, file_system: issue.file_system, generation: issue.generation },
            comm: issuer.comm,
            disk: issue.disk,
            key: issue.key,
            at_disk_ns,
            // Attaching takes milliseconds, and requests issued meanwhile are seen. Such a request was in flight at the beginning, so it
            // only counts for depths: its issue has no time in the capture.
            is_kept: issue.time_ns >= self.begin_ns && volume.is_some() && self.is_wanted(issue, &issuer),
            is_requeued: false,
            is_done: false,
        };
        self.by_key.insert(issue.key, self.first + self.waiting.len() as u64);
        self.waiting.push_back(waiting);
    }

    /// The volume whose range contains the request, and the beginning of that range. Flushes belong to the whole disk.
    fn volume(&self, issue: &Issue) -> Option<(u32, u64)> {
        let fits = |range: &Range| {
            range.disk == issue.disk && (issue.op == Op::Flush || (range.begin..range.end).contains(&issue.sector))
        };
        let index = self.ranges.iter().position(fits)?;
        Some((index as u32, self.ranges[index].begin))
    }

    fn is_wanted(&self, issue: &Issue, issuer: &Issuer) -> bool {
        let filter = &self.filter;
        let by_file = || issue.inode != 0 && filter.files.contains(&(issue.file_system, issue.inode));
        (!filter.by_process || issuer.is_wanted || by_file())
            && (filter.cgroups.is_empty() || filter.cgroups.contains(&issue.cgroup))
    }

    fn complete(&mut self, complete: &Complete) {
        let disk = usize::from(complete.disk);
        if disk >= self.in_flight.len() {
            return;
        }
        let Some(number) = self.by_key.remove(&complete.key) else {
            // The request was issued before the probes; or this is a flush: a request with PREFLUSH or FUA completes a second time at the
            // end of its sequence, and one without data is never issued (block/blk-flush.c).
            if complete.len_bytes > 0 {
                self.unseen[disk] = self.unseen[disk].saturating_sub(1);
            } else if complete.op == Op::Write && !self.in_flush.remove(&complete.key) {
                self.counts.empty_flushes[disk] += 1;
            }
            return;
        };
        let begin_ns = self.begin_ns;
        let Some(waiting) = self.waiting_mut(number) else { return };
        waiting.is_done = true;
        let request = &mut waiting.captured.request;
        request.latency_ns = complete.time_ns.saturating_sub(begin_ns).saturating_sub(request.issued_ns);
        if complete.failed {
            request.flags = request.flags.with(Flags::ERROR);
        }
        let in_sequence = request.flags.has(Flags::PREFLUSH) || request.flags.has(Flags::FUA);
        if !std::mem::take(&mut waiting.is_requeued) {
            self.leaves(complete.disk);
        }
        if in_sequence && complete.op == Op::Write && self.in_flush.len() < WAITING_MAX {
            self.in_flush.insert(complete.key);
        }
        self.note_slow(number);
    }

    /// Counts that a request is no longer at its disk.
    fn leaves(&mut self, disk: u8) {
        if let Some(in_flight) = self.in_flight.get_mut(usize::from(disk)) {
            *in_flight = in_flight.saturating_sub(1);
        }
    }

    /// Handles a request at its disk that has completed without an event. The time is unknown, except that it was before now. Requests
    /// issued after it are counted as if it had not been there any more, so their depth is a lower bound instead of one that is too high.
    fn completed_unheard(&mut self, number: u64) {
        let Some(waiting) = self.waiting_mut(number) else { return };
        waiting.is_done = true;
        let disk = waiting.disk;
        self.counts.lost_completions += 1;
        self.leaves(disk);
        self.overcounted.push(Overcounted { disk, from: number + 1, to: self.first + self.waiting.len() as u64 });
        self.note_slow(number);
    }

    /// Subtracts requests that were counted for too long from the depths, all in one pass.
    fn correct_depths(&mut self) {
        if self.overcounted.is_empty() {
            return;
        }
        // The numbers of the requests from which the correction increases, and from which it decreases.
        let mut steps: Vec<(u64, u8, bool)> = Vec::with_capacity(self.overcounted.len() * 2);
        for Overcounted { disk, from, to } in self.overcounted.drain(..) {
            let from = from.max(self.first);
            if from < to {
                steps.extend([(from, disk, true), (to, disk, false)]);
            }
        }
        steps.sort_unstable();
        let Some(begin) = steps.first().map(|(number, ..)| (number - self.first) as usize) else { return };
        let mut steps = steps.into_iter().peekable();
        let mut off = vec![0_u16; self.in_flight.len()];
        for (number, waiting) in (self.first + begin as u64..).zip(self.waiting.iter_mut().skip(begin)) {
            while let Some((_, disk, is_more)) = steps.next_if(|(at, ..)| *at <= number) {
                if let Some(off) = off.get_mut(usize::from(disk)) {
                    *off = if is_more { off.saturating_add(1) } else { off.saturating_sub(1) };
                }
            }
            let depth = &mut waiting.captured.request.depth;
            let off = off.get(usize::from(waiting.disk)).copied().unwrap_or(0);
            *depth = depth.saturating_sub(off).max(1);
        }
    }

    /// Whether a request of this disk has been waiting for its completion for long.
    #[must_use]
    pub fn is_overdue(&self, disk: u8) -> bool {
        self.slow.values().any(|waiting| is_unheard(waiting, disk, u64::MAX))
    }

    /// The disk was idle at `idle_ns` of the monotonic clock, and every event since then has been handled: requests issued before have
    /// completed. Returns the keys of those without a completion event.
    pub fn take_unheard_before(&mut self, disk: u8, idle_ns: u64) -> Vec<u64> {
        let idle_ns = idle_ns.saturating_sub(self.begin_ns);
        let slow = self.slow.iter().map(|(number, waiting)| (*number, waiting));
        let waiting = (self.first..).zip(&self.waiting);
        let unheard: Vec<(u64, u64)> = slow
            .chain(waiting)
            .filter(|(_, waiting)| is_unheard(waiting, disk, idle_ns))
            .map(|(number, waiting)| (number, waiting.key))
            .collect();
        for (number, key) in &unheard {
            self.by_key.remove(key);
            self.completed_unheard(*number);
        }
        unheard.into_iter().map(|(_, key)| key).collect()
    }

    fn requeue(&mut self, key: u64, disk: u8) {
        self.counts.requeues += 1;
        let Some(&number) = self.by_key.get(&key) else { return };
        if let Some(waiting) = self.waiting_mut(number).filter(|waiting| !waiting.is_requeued) {
            waiting.is_requeued = true;
            self.leaves(disk);
        }
    }

    fn waiting_mut(&mut self, number: u64) -> Option<&mut Waiting> {
        match number.checked_sub(self.first) {
            Some(index) => self.waiting.get_mut(usize::try_from(index).ok()?),
            None => self.slow.get_mut(&number),
        }
    }

    /// A slow request is no longer in the queue, so its end is noted separately.
    fn note_slow(&mut self, number: u64) {
        if number < self.first {
            self.slow_done.push(number);
        }
    }

    /// Passes on complete requests in the order of issue, except those that took long. `now_ns` is the time of the monotonic clock.
    pub fn drain(&mut self, now_ns: u64, into: &mut Vec<Matched>) {
        let now_ns = now_ns.saturating_sub(self.begin_ns);
        if now_ns > UNSEEN_NS {
            self.unseen.fill(0);
        }
        self.correct_depths();
        for number in std::mem::take(&mut self.slow_done) {
            if let Some(waiting) = self.slow.remove(&number) {
                self.give(&waiting, into);
            }
        }
        while let Some(front) = self.waiting.front() {
            let is_late = now_ns.saturating_sub(front.captured.request.issued_ns) > HOLD_NS;
            if !front.is_done && !is_late {
                break;
            }
            let Some(waiting) = self.waiting.pop_front() else { break };
            let number = self.first;
            self.first += 1;
            if waiting.is_done {
                self.give(&waiting, into);
            } else {
                self.slow.insert(number, waiting);
            }
        }
        while self.slow.len() > WAITING_MAX {
            let Some((_, waiting)) = self.slow.pop_first() else { break };
            self.by_key.remove(&waiting.key);
            self.counts.lost_completions += 1;
            if !waiting.is_requeued {
                self.leaves(waiting.disk);
            }
            self.give(&waiting, into);
        }
    }

    /// Passes on everything, including requests that have not completed.
    pub fn finish(&mut self, into: &mut Vec<Matched>) {
        self.correct_depths();
        for (_, waiting) in std::mem::take(&mut self.slow) {
            self.give(&waiting, into);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            self.first += 1;
            self.give(&waiting, into);
        }
        self.by_key.clear();
    }

    fn give(&mut self, waiting: &Waiting, into: &mut Vec<Matched>) {
        debug_assert!(usize::from(waiting.disk) < self.in_flight.len(), "checked at issue");
        if waiting.is_kept {
            self.counts.requests += 1;
            into.push(Matched { captured: waiting.captured, comm: waiting.comm });
        }
    }

    /// Number of requests at the disk now.
    #[must_use]
    pub fn in_flight(&self, disk: usize) -> u32 {
        self.in_flight.get(disk).copied().unwrap_or(0)
    }
}

/// Whether a disk that was idle at `idle_ns` must have completed this request. The kernel does not count flushes and returned requests as
/// in flight (block/blk-mq.c, `blk_mq_check_inflight`).
fn is_unheard(waiting: &Waiting, disk: u8, idle_ns: u64) -> bool {
    let request = &waiting.captured.request;
    waiting.disk == disk
        && !waiting.is_done
        && !waiting.is_requeued
        && request.op != Op::Flush
        && waiting.at_disk_ns < idle_ns
}

#[cfg(test)]
mod tests;
