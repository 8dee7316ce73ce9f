//! Schedules: when the next I/O is due.

use crate::job::model::{Arrival, Burst};
use forebay_block::Random;

/// The schedule of one worker, in nanoseconds of the clock.
#[derive(Debug)]
pub enum Pace {
    /// As soon as a slot is free.
    Closed,
    /// As soon as a slot is free, but not before the time that the rate limits allow.
    Throttled {
        /// Time that each I/O costs, in nanoseconds.
        per_io_ns: f64,
        /// Time that each byte costs, in nanoseconds.
        per_byte_ns: f64,
        /// Earliest time of the next I/O.
        next_ns: f64,
    },
    /// At times that do not depend on the target.
    Open {
        /// Time of the next I/O; infinite if there is none.
        next_ns: f64,
        /// Mean distance between I/Os.
        interval_ns: f64,
        /// Whether distances are exponentially distributed.
        poisson: bool,
        /// Source of the random distances.
        random: Random,
    },
    /// At given times.
    Times {
        /// Times of this worker, ascending.
        times_ns: Vec<u64>,
        /// Index of the next time.
        next: usize,
        /// The time that they count from.
        begin_ns: u64,
    },
}

impl Pace {
    /// The schedule of worker `worker` of `workers`, beginning at 0. `times` of a file are dealt out to workers in turn.
    pub fn new(arrival: &Arrival, worker: u32, workers: u32, seed: u64, times: &[u64]) -> Self {
        let share = f64::from(workers.max(1));
        match arrival {
            Arrival::Closed => Self::Closed,
            Arrival::Throttled { iops, bytes_per_second } => Self::Throttled {
                per_io_ns: iops.map_or(0.0, |iops| 1e9 * share / iops),
                per_byte_ns: bytes_per_second.map_or(0.0, |bytes| 1e9 * share / bytes),
                next_ns: 0.0,
            },
            Arrival::Constant { iops } => {
                let interval_ns = 1e9 * share / iops;
                // Workers begin at different offsets, so that together they are as even as one.
                let next_ns = interval_ns * f64::from(worker) / share;
                Self::Open { next_ns, interval_ns, poisson: false, random: Random::new(seed) }
            }
            Arrival::Poisson { iops } => {
                let mut random = Random::new(seed);
                let interval_ns = 1e9 * share / iops;
                let next_ns = exponential(&mut random) * interval_ns;
                Self::Open { next_ns, interval_ns, poisson: true, random }
            }
            // The I/Os of a replayed trace carry their times.
            Arrival::Recorded { .. } => Self::Times { times_ns: Vec::new(), next: 0, begin_ns: 0 },
            Arrival::Times { speed, .. } => {
                let mine = times.iter().skip(worker as usize).step_by(workers.max(1) as usize);
                Self::Times { times_ns: mine.map(|&time| (time as f64 / speed) as u64).collect(), next: 0, begin_ns: 0 }
            }
        }
    }

    /// Shifts the schedule to begin at `begin_ns` instead of at 0; called once all preparations are done.
    pub fn begin_at(&mut self, begin_ns: u64) {
        match self {
            Self::Closed => {}
            Self::Throttled { next_ns, .. } | Self::Open { next_ns, .. } => *next_ns += begin_ns as f64,
            Self::Times { begin_ns: begin, .. } => *begin += begin_ns,
        }
    }

    /// Whether latency counts from the scheduled time.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. } | Self::Times { .. })
    }

    /// When the next I/O is due: 0 means at once, `u64::MAX` never.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match self {
            Self::Closed => 0,
            Self::Throttled { next_ns, .. } | Self::Open { next_ns, .. } => *next_ns as u64,
            Self::Times { times_ns, next, begin_ns } => {
                times_ns.get(*next).map_or(u64::MAX, |time| time.saturating_add(*begin_ns))
            }
        }
    }

    /// Number of I/Os due from `begin_ns` to `end_ns`. The first ten million are counted, the rest is computed from the mean distance.
    #[cold]
    pub fn count_rest(&mut self, begin_ns: u64, end_ns: u64) -> u64 {
        const COUNTED_MAX: u32 = 10_000_000;
        let mut count = 0;
        for _ in 0..COUNTED_MAX {
            let due = self.due_ns();
            if due >= end_ns {
                return count;
            }
            count += u64::from(due >= begin_ns);
            self.take(0);
        }
        match self {
            Self::Open { next_ns, interval_ns, .. } => {
                count + ((end_ns as f64 - next_ns.max(begin_ns as f64)) / *interval_ns).max(0.0).ceil() as u64
            }
            Self::Times { times_ns, next, begin_ns: origin } => {
                let within = |time: &&u64| (begin_ns..end_ns).contains(&time.saturating_add(*origin));
                count + times_ns[*next..].iter().filter(within).count() as u64
            }
            Self::Closed | Self::Throttled { .. } => count,
        }
    }

    /// Notes that the due I/O, of `len_bytes`, is made.
    #[inline]
    pub fn take(&mut self, len_bytes: u32) {
        match self {
            Self::Closed => {}
            // What a stall delayed is caught up with, as fast as the target takes it (fio's backend.c, usec_for_io).
            Self::Throttled { per_io_ns, per_byte_ns, next_ns } => {
                *next_ns += per_io_ns.max(*per_byte_ns * f64::from(len_bytes));
            }
            Self::Open { next_ns, interval_ns, poisson, random } => {
                *next_ns += if *poisson { exponential(random) * *interval_ns } else { *interval_ns };
            }
            Self::Times { next, .. } => *next += 1,
        }
    }
}

/// An exponentially distributed number with mean 1: by inversion, with 53 bits, never infinite.
fn exponential(random: &mut Random) -> f64 {
    let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln()
}

/// The bursts of a worker.
#[derive(Debug)]
pub struct Bursts {
    burst: Option<Burst>,
    left: u64,
    /// No I/O may begin before this time; `u64::MAX` while all I/Os of a burst have been submitted and some are in flight.
    pub resume_ns: u64,
}

impl Bursts {
    /// Begins with a burst.
    pub fn new(burst: Option<Burst>) -> Self {
        Self { burst, left: burst.map_or(0, |burst| burst.ios), resume_ns: 0 }
    }

    /// Notes that an I/O was submitted.
    #[inline]
    pub fn take(&mut self) {
        if let Some(burst) = self.burst {
            self.left -= 1;
            if self.left == 0 {
                self.left = burst.ios;
                self.resume_ns = u64::MAX;
            }
        }
    }

    /// Notes that nothing is in flight any more at `now_ns`. The pause begins when the burst's last I/O ends, as in fio (backend.c,
    /// `handle_thinktime`, which lets all I/Os end first).
    #[inline]
    pub fn all_done(&mut self, now_ns: u64) {
        if let (Some(burst), u64::MAX) = (self.burst, self.resume_ns) {
            self.resume_ns = now_ns.saturating_add(burst.pause_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(pace: &mut Pace, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let due = pace.due_ns();
                pace.take(4096);
                due
            })
            .collect()
    }

    fn at(begin_ns: u64, mut pace: Pace) -> Pace {
        pace.begin_at(begin_ns);
        pace
    }

    #[test]
    fn constant_intervals_interleave_over_workers() {
        let arrival = Arrival::Constant { iops: 1000.0 };
        let mut all: Vec<u64> =
            (0..4).flat_map(|worker| schedule(&mut at(5_000, Pace::new(&arrival, worker, 4, 1, &[])), 25)).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..100).map(|i| 5_000 + i * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn poisson_has_its_mean_and_its_deviation() {
        let mut pace = Pace::new(&Arrival::Poisson { iops: 10_000.0 }, 0, 1, 7, &[]);
        let times = schedule(&mut pace, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 4.0 / 100_000f64.sqrt(), "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);
    }

    /// At most a tenth of a second was caught up with: a job at fio's `rate_iops` made fewer I/Os than fio on a busy machine.
    #[test]
    fn regression_a_throttle_lets_the_average_through_and_no_more() {
        let arrival = Arrival::Throttled { iops: Some(1000.0), bytes_per_second: Some(1e9) };
        let mut pace = Pace::new(&arrival, 0, 1, 1, &[]);
        assert_eq!(schedule(&mut pace, 3), [0, 1_000_000, 2_000_000]);
        // However late the I/Os are, the next one is due when it would have been.
        pace.take(4096);
        assert_eq!(pace.due_ns(), 4_000_000);
    }

    #[test]
    fn threads_share_a_throttle() {
        let arrival = Arrival::Throttled { iops: Some(1000.0), bytes_per_second: None };
        assert_eq!(schedule(&mut Pace::new(&arrival, 0, 4, 1, &[]), 3), [0, 4_000_000, 8_000_000]);
        let arrival = Arrival::Throttled { iops: None, bytes_per_second: Some(4_096_000.0) };
        assert_eq!(schedule(&mut Pace::new(&arrival, 3, 4, 1, &[]), 3), [0, 4_000_000, 8_000_000]);
    }

    #[test]
    fn a_traces_times_are_dealt_out_and_scaled() {
        let arrival = Arrival::Times { path: "x".into(), speed: 2.0 };
        let mut pace = at(10, Pace::new(&arrival, 1, 2, 1, &[100, 200, 300, 400, 500]));
        assert_eq!(schedule(&mut pace, 2), [110, 210]);
        assert_eq!(pace.due_ns(), u64::MAX);
    }

    #[test]
    fn bursts_pause_between() {
        let mut bursts = Bursts::new(Some(Burst { ios: 2, pause_ns: 50 }));
        bursts.take();
        bursts.all_done(100);
        assert_eq!(bursts.resume_ns, 0);
        bursts.take();
        assert_eq!(bursts.resume_ns, u64::MAX);
        bursts.all_done(130);
        assert_eq!(bursts.resume_ns, 180);
        bursts.all_done(150);
        assert_eq!(bursts.resume_ns, 180);
    }
}
