//! Counting latencies, where each costs one increment.
//!
//! The layout is that of HdrHistogram with three significant digits and a lowest value of 1 ns (Gil Tene,
//! <https://github.com/HdrHistogram/HdrHistogram>): values below 2048 are exact; above, each power of two has 1024 counters, so a value is
//! known to one part in 1024. The crate's own recorder checks for resizing and counter widths, which cannot occur here. Results are
//! returned as the crate's histograms.

use forebay_block::log_linear::{bucket, middle};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Binary logarithm of the number of counters for each power of two.
const HALF_BITS: u32 = 10;
/// Values up to 2^42 ns (73 minutes) are distinguished; longer ones count as 2^42 ns.
const VALUE_BITS: u32 = 42;
const VALUE_MAX: u64 = (1 << VALUE_BITS) - 1;
const COUNTERS: usize = ((VALUE_BITS - HALF_BITS) as usize + 1) << HALF_BITS;

/// Latencies of one thread in one interval.
#[derive(Clone, Debug)]
pub struct Tally {
    counts: Box<[u32]>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// An empty tally.
    #[must_use]
    pub fn new() -> Self {
        let counts = vec![0; COUNTERS].into_boxed_slice();
        Self { counts, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Counts a latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        let value = latency_ns.min(VALUE_MAX);
        self.counts[bucket::<HALF_BITS>(value)] += 1;
        self.sum_ns += value;
        self.min_ns = self.min_ns.min(value);
        self.max_ns = self.max_ns.max(value);
    }

    /// Number of latencies, summed up here so that recording costs nothing more.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts[self.used()].iter().map(|&count| u64::from(count)).sum()
    }

    /// Sum of the latencies in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) {
        for index in other.used() {
            self.counts[index] = self.counts[index].saturating_add(other.counts[index]);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The tally in the form that is sent to another host.
    #[must_use]
    pub fn pack(&self) -> PackedTally {
        let (mut counts, mut before) = (Vec::new(), 0);
        for index in self.used().filter(|&index| self.counts[index] > 0) {
            counts.push(((index - before) as u32, self.counts[index]));
            before = index;
        }
        PackedTally { counts, sum_ns: self.sum_ns, min_ns: self.min_ns, max_ns: self.max_ns }
    }

    /// The tally that another host has sent; `None` if it is invalid.
    #[must_use]
    pub fn unpack(packed: &PackedTally) -> Option<Self> {
        let mut tally = Self::new();
        let mut index = 0;
        for &(distance, count) in &packed.counts {
            index = usize::try_from(distance).ok()?.checked_add(index)?;
            let counter = tally.counts.get_mut(index)?;
            *counter = counter.checked_add(count)?;
        }
        if packed.counts.is_empty() {
            return (*packed == tally.pack()).then_some(tally);
        }
        (tally.sum_ns, tally.min_ns, tally.max_ns) = (packed.sum_ns, packed.min_ns, packed.max_ns);
        let is_ordered = packed.min_ns <= packed.max_ns && packed.max_ns <= VALUE_MAX;
        // It must pack to the same counters, so none lies outside of minimum and maximum.
        (is_ordered && tally.pack() == *packed).then_some(tally)
    }

    fn used(&self) -> std::ops::Range<usize> {
        if self.min_ns > self.max_ns {
            0..0
        } else {
            bucket::<HALF_BITS>(self.min_ns)..bucket::<HALF_BITS>(self.max_ns) + 1
        }
    }

    /// Sets all counts to 0.
    pub fn clear(&mut self) {
        let used = self.used();
        self.counts[used].fill(0);
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// Values in nanoseconds at these shares of the counts, which are ascending and lie in 0.0 to 1.0; 0 without counts.
    #[must_use]
    pub fn quantiles_ns<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let count = self.count();
        let ranks = shares.map(|share| ((share * count as f64).ceil() as u64).clamp(1, count.max(1)));
        let (mut found, mut at, mut seen) = ([0; N], 0, 0);
        for index in self.used() {
            seen += u64::from(self.counts[index]);
            while at < N && seen >= ranks[at] {
                found[at] = middle::<HALF_BITS>(index).clamp(self.min_ns, self.max_ns);
                at += 1;
            }
            if at == N {
                break;
            }
        }
        found
    }
}

/// A tally as hosts send it to each other; sparse, since few of its counters are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedTally {
    /// For each counter that is not 0, the distance from the previous one (from 0 for the first), and its count.
    counts: Vec<(u32, u32)>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// Latencies of a whole run: counts, with exact sum, minimum and maximum.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Counts by value in nanoseconds, three significant digits.
    pub histogram: Histogram<u64>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// No latencies.
    #[must_use]
    pub fn new() -> Self {
        let histogram = new_histogram();
        Self { histogram, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds what a thread counted in an interval.
    pub fn add(&mut self, tally: &Tally) {
        add_to(&mut self.histogram, tally);
        self.sum_ns += u128::from(tally.sum_ns);
        self.min_ns = self.min_ns.min(tally.min_ns);
        self.max_ns = self.max_ns.max(tally.max_ns);
    }

    /// Adds other latencies.
    pub fn merge(&mut self, other: &Self) {
        // Both histograms have the same bounds, so no value can be out of range.
        let _ = self.histogram.add(&other.histogram);
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Exact mean in nanoseconds; 0 without latencies.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Standard deviation in nanoseconds, with the histogram's precision; 0 without latencies.
    #[must_use]
    pub fn deviation_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.histogram.stdev() }
    }

    /// Exact minimum in nanoseconds; 0 without latencies.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// Exact maximum in nanoseconds; 0 without latencies. Latencies of 73 minutes or more count as 73 minutes.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Value in nanoseconds at a share of the counts, 0.0 to 1.0.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share).clamp(self.min_ns(), self.max_ns)
    }
}

/// A histogram of nanoseconds with three significant digits.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, VALUE_MAX, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds are valid: {error}"),
    }
}

/// Adds a thread's counts to a histogram.
pub fn add_to(histogram: &mut Histogram<u64>, tally: &Tally) {
    for index in tally.used() {
        let count = tally.counts[index];
        if count > 0 {
            histogram.saturating_record_n(middle::<HALF_BITS>(index), u64::from(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_hdrhistograms() {
        let mut histogram = new_histogram();
        for value in [0, 1, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 1 << 20, (1 << 20) + 511, VALUE_MAX] {
            let (mut tally, mut ours) = (Tally::new(), new_histogram());
            tally.record(value);
            add_to(&mut ours, &tally);
            histogram.reset();
            histogram.saturating_record(value);
            assert_eq!(ours.max(), histogram.max(), "{value}");
            assert!(
                histogram.equivalent(middle::<HALF_BITS>(bucket::<HALF_BITS>(value)), value) || value == 0,
                "{value}"
            );
        }
    }

    #[test]
    fn longer_than_can_be_counted_counts_as_the_longest() {
        let mut tally = Tally::new();
        tally.record(u64::MAX);
        assert_eq!((tally.count(), tally.max_ns), (1, VALUE_MAX));
    }

    #[test]
    fn what_is_no_tally_is_not_unpacked() {
        let mut tally = Tally::new();
        [5, 7, 7, 1 << 30, u64::MAX].into_iter().for_each(|value| tally.record(value));
        let packed = tally.pack();
        assert_eq!(Tally::unpack(&packed).unwrap().pack(), packed);
        assert_eq!(Tally::unpack(&Tally::new().pack()).unwrap().count(), 0);
        let wrong = |change: &dyn Fn(&mut PackedTally)| {
            let mut wrong = packed.clone();
            change(&mut wrong);
            assert!(Tally::unpack(&wrong).is_none(), "{wrong:?}");
        };
        wrong(&|packed| packed.max_ns = u64::MAX);
        wrong(&|packed| packed.min_ns = 6);
        wrong(&|packed| packed.min_ns = 1 << 40);
        wrong(&|packed| packed.max_ns = 6);
        wrong(&|packed| packed.counts.clear());
        wrong(&|packed| packed.counts[1].0 = u32::MAX);
        wrong(&|packed| packed.counts.push((0, u32::MAX)));
        wrong(&|packed| packed.counts.push((0, 0)));
        wrong(&|packed| *packed = PackedTally { sum_ns: 1, ..Tally::new().pack() });
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_values(mut values in prop::collection::vec(0u64..10_000_000_000, 1..300), share in 0.0f64..1.0) {
            let mut tally = Tally::new();
            values.iter().for_each(|&value| tally.record(value));
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let truth = values[rank - 1];
            let [found, last] = tally.quantiles_ns([share, 1.0]);
            prop_assert!(last.abs_diff(values[values.len() - 1]) <= last / 1024 + 1);
            prop_assert!(found.abs_diff(truth) <= truth / 1024 + 1, "{} against {}", found, truth);
            let mut all = Latencies::new();
            all.add(&tally);
            prop_assert_eq!((all.count(), all.min_ns(), all.max_ns()), (values.len() as u64, values[0], values[values.len() - 1]));
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((all.mean_ns() - mean).abs() <= 1.0);
            tally.clear();
            prop_assert!(tally.counts.iter().all(|&count| count == 0));
        }
    }
}
