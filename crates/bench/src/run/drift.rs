//! How far a replay deviates from the recorded times.

use super::tally::{Latencies, Tally};

/// The drift of one worker in one interval.
#[derive(Clone, Debug, Default)]
pub struct DriftShare {
    /// From an I/O's recorded time to the beginning of its submission.
    pub late: Tally,
    /// Absolute difference between the distance of two consecutive I/Os and the recorded distance.
    pub gap: Tally,
}

impl DriftShare {
    /// Clears all counts.
    pub fn clear(&mut self) {
        self.late.clear();
        self.gap.clear();
    }
}

/// Drift of a whole replay, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    /// Delay from the recorded time to the beginning of the submission; I/Os are never early.
    pub late: Latencies,
    /// Absolute difference between the distance of two consecutive I/Os of one thread and the recorded distance.
    pub gap: Latencies,
}

impl Drift {
    /// Adds the drift of a worker.
    pub fn add(&mut self, share: &DriftShare) {
        self.late.add(&share.late);
        self.gap.add(&share.gap);
    }
}

/// Measures the drift of one worker; it remembers the previous I/O.
#[derive(Debug, Default)]
pub struct DriftMeter {
    /// Delay of the previous I/O; `None` before the first.
    before_ns: Option<u64>,
}

impl DriftMeter {
    /// Notes that an I/O due at `due_ns` begins to be submitted at `now_ns`.
    #[inline]
    pub fn note(&mut self, due_ns: u64, now_ns: u64, share: &mut DriftShare) {
        let late_ns = now_ns.saturating_sub(due_ns);
        share.late.record(late_ns);
        // The difference of the two delays, which is (now - previous now) - (due - previous due).
        if let Some(before_ns) = self.before_ns.replace(late_ns) {
            share.gap.record(late_ns.abs_diff(before_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_held_against_recorded_ones() {
        let (mut meter, mut share) = (DriftMeter::default(), DriftShare::default());
        // Due at 0, 100, 200, 250; submitted at 10, 110, 260, 260.
        for (due_ns, now_ns) in [(0, 10), (100, 110), (200, 260), (250, 260)] {
            meter.note(due_ns, now_ns, &mut share);
        }
        let mut drift = Drift::default();
        drift.add(&share);
        assert_eq!((drift.late.count(), drift.late.min_ns(), drift.late.max_ns()), (4, 10, 60));
        // Distances of 100, 150, 0 instead of 100, 100, 50.
        assert_eq!((drift.gap.count(), drift.gap.min_ns(), drift.gap.max_ns()), (3, 0, 50));
        assert_eq!(drift.gap.mean_ns(), 100.0 / 3.0);
    }
}
