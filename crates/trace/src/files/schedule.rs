//! Decides when files are looked at: soon after they were written, rarely while they are being written, and repeatedly at growing intervals
//! while their data has no place yet. Pure: time is a value.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// How long after an event a file is looked at, so that related events have arrived.
const SETTLE: Duration = Duration::from_millis(20);
/// Shortest interval between looks at a file that is being written.
pub const EVERY: Duration = Duration::from_millis(250);
/// The interval is also at least this many times the duration of a look.
const COST_FACTOR: u32 = 20;
/// Longest interval between looks at a file whose data has no place yet.
const REST_MAX: Duration = Duration::from_secs(60);
/// How long after a failed look a file is looked for again: its new name may be on its way.
const MISSED: Duration = Duration::from_millis(50);

/// The schedule of one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    due: Option<Instant>,
    looked: Option<Instant>,
    cost: Duration,
    /// Number of looks since the last write.
    looks: u32,
    in_bulk: bool,
}

/// The files that are to be looked at.
#[derive(Debug, Default)]
pub struct Schedule {
    due: BTreeSet<(Instant, u64)>,
    /// Files that a walk has met; they come after those that are due.
    bulk: VecDeque<u64>,
}

impl Schedule {
    fn set(&mut self, inode: u64, timing: &mut Timing, due: Option<Instant>) {
        if let Some(before) = timing.due {
            self.due.remove(&(before, inode));
        }
        timing.due = due;
        self.due.extend(due.map(|due| (due, inode)));
    }

    /// Notes that a file was created or written.
    pub fn touched(&mut self, inode: u64, timing: &mut Timing, now: Instant) {
        timing.looks = 0;
        let rested = timing.looked.map(|looked| looked + EVERY.max(timing.cost * COST_FACTOR));
        let due = rested.map_or(now + SETTLE, |rested| rested.max(now + SETTLE));
        if timing.due.is_none_or(|before| due < before) {
            self.set(inode, timing, Some(due));
        }
    }

    /// Notes that a walk has met a file.
    pub fn met(&mut self, inode: u64, timing: &mut Timing) {
        if !timing.in_bulk && timing.due.is_none() {
            timing.in_bulk = true;
            self.bulk.push_back(inode);
        }
    }

    /// Notes a look; `again` if something is still to change.
    pub fn looked(&mut self, inode: u64, timing: &mut Timing, begun: Instant, ended: Instant, again: bool) {
        timing.looked = Some(ended);
        timing.cost = ended.saturating_duration_since(begun);
        let rest = EVERY.saturating_mul(1 << timing.looks.min(16)).min(REST_MAX).max(timing.cost * COST_FACTOR);
        timing.looks = timing.looks.saturating_add(1);
        let due = again.then(|| ended + rest);
        self.set(inode, timing, due);
    }

    /// Notes that a file was not found.
    pub fn missed(&mut self, inode: u64, timing: &mut Timing, now: Instant) {
        self.set(inode, timing, Some(now + MISSED));
    }

    /// Removes a file that no longer exists.
    pub fn forget(&mut self, inode: u64, timing: &mut Timing) {
        self.set(inode, timing, None);
    }

    /// Takes the next file that is due.
    pub fn pop(&mut self, now: Instant) -> Option<u64> {
        let &(due, inode) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, inode));
        Some(inode)
    }

    /// Takes the next file that a walk has met.
    pub fn pop_bulk(&mut self) -> Option<u64> {
        self.bulk.pop_front()
    }

    /// Number of files met by a walk and not looked at yet.
    pub fn bulk(&self) -> usize {
        self.bulk.len()
    }

    /// When the next file is due.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }
}

impl Timing {
    /// Number of looks since the last write.
    pub fn looks(&self) -> u32 {
        self.looks
    }

    /// Notes that the file was taken from the schedule.
    pub fn popped(&mut self) {
        self.due = None;
        self.in_bulk = false;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Times of looks, each a millisecond long, within `for_ms`, for a file that is touched every `touch_ms` until `until_ms`.
    fn looks(touch_ms: u32, until_ms: u32, for_ms: u32, again: impl Fn(u32) -> bool) -> Vec<u32> {
        let (begin, mut schedule, mut timing) = (Instant::now(), Schedule::default(), Timing::default());
        let mut at = Vec::new();
        for ms in 0..for_ms {
            let now = begin + ms * MS;
            if ms <= until_ms && ms % touch_ms == 0 {
                schedule.touched(5, &mut timing, now);
            }
            if let Some(inode) = schedule.pop(now) {
                assert_eq!(inode, 5);
                timing.popped();
                at.push(ms);
                schedule.looked(5, &mut timing, now, now + MS, again(ms));
            }
        }
        at
    }

    #[test]
    fn a_file_written_all_the_time_is_looked_at_four_times_a_second() {
        let at = looks(1, 10_000, 12_000, |_| false);
        assert!((39..=41).contains(&at.len()), "{at:?}");
        assert!(*at.last().unwrap() > 10_000, "after the last write too: {at:?}");
    }

    #[test]
    fn one_write_is_one_look_and_waiting_rests_longer_and_longer() {
        assert_eq!(looks(100_000, 0, 10_000, |_| false), [20]);
        let at = looks(1_000_000, 0, 200_000, |_| true);
        let rests: Vec<u32> = at.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
        assert_eq!(rests, [250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        // A write restarts the intervals.
        let at = looks(20_000, 20_000, 20_400, |_| true);
        assert!(at.contains(&20_020), "{at:?}");
    }

    #[test]
    fn a_long_look_is_repeated_seldom_and_bulk_comes_once() {
        let (now, mut schedule, mut timing) = (Instant::now(), Schedule::default(), Timing::default());
        schedule.met(7, &mut timing);
        schedule.met(7, &mut timing);
        assert_eq!((schedule.pop_bulk(), schedule.pop_bulk()), (Some(7), None));
        timing.popped();
        schedule.looked(7, &mut timing, now, now + 100 * MS, false);
        schedule.touched(7, &mut timing, now + 100 * MS);
        assert_eq!(schedule.next(), Some(now + 2100 * MS));
        schedule.forget(7, &mut timing);
        assert_eq!(schedule.pop(now + 10_000 * MS), None);
    }
}
