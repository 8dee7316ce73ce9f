//! How fast copies of what was read are written.

/// How much of a rate that was not used may be used at once later, in nanoseconds.
const SAVED_MAX_NS: u64 = 100_000_000;
const NS_PER_S: i128 = 1_000_000_000;

/// How much may be copied now.
#[derive(Debug, Default)]
pub(super) struct FillRate {
    /// Most bytes a second.
    pub bytes_per_s: u64,
    /// What is left of the rate, in bytes times nanoseconds a second: ticks may come so often that none gains a whole byte. Below 0 where more was copied at
    /// once than was left.
    left: i128,
    at_ns: u64,
}

impl FillRate {
    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.at_ns).min(NS_PER_S as u64);
        self.at_ns = now_ns;
        let gained = |ns: u64| i128::from(self.bytes_per_s) * i128::from(ns);
        self.left = (self.left + gained(passed_ns)).min(gained(SAVED_MAX_NS));
    }

    /// Takes so many bytes, where anything is left; the next have to wait for what is taken beyond that.
    pub fn take(&mut self, bytes: u64) -> bool {
        let fits = self.left > 0;
        self.left -= if fits { i128::from(bytes) * NS_PER_S } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes copied in a second, at a rate, in pieces, with so many ticks.
    fn in_a_second(bytes_per_s: u64, piece: u64, ticks: u64) -> u64 {
        let mut rate = FillRate { bytes_per_s, ..FillRate::default() };
        rate.tick(3_600_000_000_000);
        while rate.take(piece) {}
        (1..=ticks)
            .map(|tick| {
                rate.tick(3_600_000_000_000 + tick * 1_000_000_000 / ticks);
                (0..10).filter(|_| rate.take(piece)).count() as u64 * piece
            })
            .sum()
    }

    #[test]
    fn no_more_is_taken_than_the_rate_gives_and_no_less() {
        for (bytes_per_s, piece, ticks) in [(1_000_000, 300, 1000), (1 << 20, 128 << 10, 20), (64 << 10, 4096, 200_000)]
        {
            let copied = in_a_second(bytes_per_s, piece, ticks);
            assert!(copied.abs_diff(bytes_per_s) <= piece, "{copied} of {bytes_per_s}");
        }
    }

    #[test]
    fn what_nobody_took_is_not_saved() {
        let mut rate = FillRate { bytes_per_s: 1_000_000, ..FillRate::default() };
        rate.tick(3_600_000_000_000);
        assert_eq!((0..1000).filter(|_| rate.take(1000)).count(), 100, "a tenth of a second's worth");
    }
}
