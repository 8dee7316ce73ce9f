//! Lengths of requests, with exact quantiles: lengths are multiples of a sector, so there are few different ones.

use super::histogram::Histogram;
use crate::hash::Seed;
use std::collections::HashMap;

/// Most different lengths that are counted one by one. With more, quantiles are those of the histogram's buckets.
const DIFFERENT_MAX: usize = 4096;

/// Number of recent lengths that are found without a search.
const AT_HAND: usize = 16;

/// Counts of request lengths.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// Each length with its count; empty once there are too many.
    counts: Vec<(u64, u64)>,
    /// Index of each length in `counts`.
    places: HashMap<u64, u32, Seed>,
    /// The same index for recent lengths, by a simple hash of the length.
    at_hand: [u32; AT_HAND],
    all: Histogram,
}

impl Lengths {
    /// Counts a length.
    pub fn add(&mut self, len_bytes: u64) {
        if self.is_exact() || self.all.count() == 0.0 {
            let at_hand = (len_bytes >> 12 ^ len_bytes >> 9) as usize % AT_HAND;
            match self.counts.get_mut(self.at_hand[at_hand] as usize) {
                Some((known, count)) if *known == len_bytes => *count += 1,
                _ => self.at_hand[at_hand] = self.count(len_bytes),
            }
        }
        self.all.add(len_bytes);
    }

    fn count(&mut self, len_bytes: u64) -> u32 {
        let place = *self.places.entry(len_bytes).or_insert(self.counts.len() as u32);
        match self.counts.get_mut(place as usize) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((len_bytes, 1)),
        }
        if self.counts.len() > DIFFERENT_MAX {
            (self.counts, self.places) = (Vec::new(), HashMap::default());
        }
        place
    }

    /// All lengths in buckets; count, mean and maximum are exact.
    #[must_use]
    pub fn histogram(&self) -> &Histogram {
        &self.all
    }

    /// The length that a share of the requests does not exceed; exact unless there are too many different lengths. `None` if nothing was
    /// counted.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        if !self.is_exact() {
            return self.all.quantile(share);
        }
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        let wanted = share * self.all.count();
        let mut below = 0;
        let found = counts.iter().find(|(_, count)| {
            below += count;
            below as f64 >= wanted
        });
        found.map(|(len_bytes, _)| *len_bytes)
    }

    fn is_exact(&self) -> bool {
        !self.counts.is_empty()
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn regression_quantiles_of_sizes_are_sizes(mut sectors in proptest::collection::vec(1_u64..4096, 1..300), share in 0.0_f64..=1.0) {
            let mut lengths = Lengths::default();
            sectors.iter().for_each(|sectors| lengths.add(sectors * 512));
            sectors.sort_unstable();
            let rank = (share * sectors.len() as f64).ceil() as usize;
            prop_assert_eq!(lengths.quantile(share), Some(sectors[rank.saturating_sub(1)] * 512));
        }
    }

    #[test]
    fn many_different_ones_are_counted_in_buckets() {
        let mut lengths = Lengths::default();
        assert_eq!(lengths.quantile(0.5), None);
        (1..=100_000).for_each(|len_bytes| lengths.add(len_bytes));
        assert!(lengths.counts.is_empty());
        let median = lengths.quantile(0.5).unwrap();
        assert!((50_000..50_500).contains(&median), "{median}");
        assert_eq!((lengths.histogram().count(), lengths.quantile(1.0)), (100_000.0, Some(100_000)));
    }
}
