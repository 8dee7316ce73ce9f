//! How fast copies of what was read are written.

/// What may be written at once of what was left of the rate before, in nanoseconds.
const SAVED_MAX_NS: u64 = 100_000_000;

/// How much may be copied now.
#[derive(Debug, Default)]
pub(super) struct FillRate {
    /// Most bytes a second.
    pub bytes_per_s: u64,
    left_bytes: u64,
    at_ns: u64,
}

impl FillRate {
    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns).min(SAVED_MAX_NS);
        self.at_ns = now_ns;
        let gained = |ns: u64| (u128::from(self.bytes_per_s) * u128::from(ns) / 1_000_000_000) as u64;
        self.left_bytes = (self.left_bytes + gained(passed_ns)).min(gained(SAVED_MAX_NS));
    }

    /// Takes so many bytes, where there are so many.
    pub fn take(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.left_bytes;
        self.left_bytes -= if fits { bytes } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_the_rate_gives_however_long_nothing_was() {
        let mut rate = FillRate { bytes_per_s: 1_000_000, ..FillRate::default() };
        assert!(!rate.take(1));
        rate.tick(3_600_000_000_000);
        assert!(
            rate.take(60_000) && !rate.take(60_000) && rate.take(40_000) && !rate.take(1),
            "a tenth of a second's worth"
        );
        let taken: u64 = (1..=1000)
            .map(|ms| {
                rate.tick(3_600_000_000_000 + ms * 1_000_000);
                (0..10).filter(|_| rate.take(300)).count() as u64 * 300
            })
            .sum();
        assert!((999_000..=1_000_000).contains(&taken), "{taken}");
    }
}
