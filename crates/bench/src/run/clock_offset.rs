//! How far another host's clock is ahead of ours, measured by round trips of messages.
//!
//! The other host reads its clock at some time between our sending and our receiving, so at most half of the round trip away from the
//! middle, however the time is divided between the two directions. So the shortest of several round trips is the most precise (F. Cristian,
//! "Probabilistic clock synchronization", Distributed Computing 3, 1989); NTP's clock filter chooses its sample in the same way (RFC 5905,
//! section 10).

/// A message and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When the message was sent, in nanoseconds of our clock.
    pub sent_ns: u64,
    /// When it was answered, in nanoseconds of the other clock.
    pub there_ns: u64,
    /// When the answer arrived, in nanoseconds of our clock.
    pub received_ns: u64,
}

impl RoundTrip {
    fn len_ns(&self) -> u64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }

    fn offset(&self) -> Offset {
        let middle_ns = i128::from(self.sent_ns) + i128::from(self.len_ns() / 2);
        Offset {
            ahead_ns: i128::from(self.there_ns) - middle_ns,
            bound_ns: self.len_ns().div_ceil(2),
            at_ns: self.received_ns,
        }
    }
}

/// The offset of another host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// How far the clock is ahead, in nanoseconds; negative if it is behind.
    pub ahead_ns: i128,
    /// Largest error of `ahead_ns`, in nanoseconds.
    pub bound_ns: u64,
    /// When the offset was measured, in nanoseconds of our clock.
    pub at_ns: u64,
}

impl Offset {
    /// What the other clock shows at this time of ours; `None` if that is before its beginning.
    #[must_use]
    pub fn there_ns(&self, here_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(here_ns) + self.ahead_ns).ok()
    }

    /// By how much the other clock ran faster than ours between this offset and a later one, in parts per million, with the largest error;
    /// `None` if no time passed in between.
    #[must_use]
    pub fn drift_ppm(&self, later: &Self) -> Option<(f64, f64)> {
        let elapsed_ns = later.at_ns.checked_sub(self.at_ns).filter(|&ns| ns > 0)? as f64;
        let bound_ns = (self.bound_ns + later.bound_ns) as f64;
        Some(((later.ahead_ns - self.ahead_ns) as f64 / elapsed_ns * 1e6, bound_ns / elapsed_ns * 1e6))
    }
}

/// Measures the offset by round trips.
#[derive(Clone, Copy, Debug, Default)]
pub struct OffsetMeter {
    shortest: Option<RoundTrip>,
    count: u64,
}

impl OffsetMeter {
    /// Adds a round trip.
    pub fn add(&mut self, trip: RoundTrip) {
        self.count += 1;
        if self.shortest.is_none_or(|shortest| trip.len_ns() < shortest.len_ns()) {
            self.shortest = Some(trip);
        }
    }

    /// Number of round trips so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The offset by the shortest round trip; `None` without any.
    #[must_use]
    pub fn offset(&self) -> Option<Offset> {
        self.shortest.map(|shortest| shortest.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A round trip to a clock that is ahead by `ahead_ns`, with these times for the two directions.
    fn trip(sent_ns: u64, ahead_ns: i64, there_ns: u64, back_ns: u64) -> RoundTrip {
        let there = (sent_ns + there_ns) as i64 + ahead_ns;
        RoundTrip { sent_ns, there_ns: there as u64, received_ns: sent_ns + there_ns + back_ns }
    }

    #[test]
    fn ways_of_equal_length_give_the_truth() {
        for ahead_ns in [-7_000_000_000, 0, 3_141_592_653] {
            let mut meter = OffsetMeter::default();
            assert_eq!((meter.offset(), meter.count()), (None, 0));
            for (sent_ns, way_ns) in [(10_000_000_000, 900_000), (11_000_000_000, 40_000), (12_000_000_000, 700_000)] {
                meter.add(trip(sent_ns, ahead_ns, way_ns, way_ns));
            }
            let found = meter.offset().unwrap();
            assert_eq!((found.ahead_ns, found.bound_ns, meter.count()), (ahead_ns.into(), 40_000, 3));
            assert_eq!(found.there_ns(20_000_000_000), u64::try_from(20_000_000_000 + ahead_ns).ok());
        }
        let behind = Offset { ahead_ns: -5, bound_ns: 0, at_ns: 0 };
        assert_eq!((behind.there_ns(4), behind.there_ns(5)), (None, Some(0)));
    }

    #[test]
    fn a_clock_that_runs_faster_shows() {
        // 50 parts per million: 50 us more in each second, for 100 s.
        let (before, after) = (trip(1_000_000_000, 0, 1000, 1000), trip(101_000_000_000, 5_000_000, 1000, 1000));
        let (ppm, bound) = before.offset().drift_ppm(&after.offset()).unwrap();
        assert!((ppm - 50.0).abs() < 1e-9 && (bound - 0.02).abs() < 1e-9, "{ppm} +- {bound}");
        assert_eq!(before.offset().drift_ppm(&before.offset()), None);
    }

    proptest! {
        /// However long and unequal the two directions are, the truth lies within the bound.
        #[test]
        fn the_truth_is_within_the_bound(
            ahead_ns in -1_000_000_000_000_i64..1_000_000_000_000,
            ways in prop::collection::vec((0u64..5_000_000, 0u64..5_000_000), 1..40),
        ) {
            let mut meter = OffsetMeter::default();
            for (number, &(there_ns, back_ns)) in (0u64..).zip(&ways) {
                meter.add(trip(2_000_000_000_000 + number * 10_000_000, ahead_ns, there_ns, back_ns));
            }
            let found = meter.offset().unwrap();
            let off = (found.ahead_ns - i128::from(ahead_ns)).unsigned_abs();
            prop_assert!(off <= u128::from(found.bound_ns), "{} off, bound {}", off, found.bound_ns);
            let shortest = ways.iter().map(|(there, back)| there + back).min().unwrap();
            prop_assert_eq!(found.bound_ns, shortest.div_ceil(2));
        }
    }
}
