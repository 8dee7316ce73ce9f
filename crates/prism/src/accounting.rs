//! Statistics per class.
//!
//! The figures use the terms of the O+Q papers. *alpha* (write reduction factor) is the share of host writes that the
//! fast tier kept from the capacity tier: `1 - (bypassed + destaged) / host written`. *beta* (write invalidation
//! factor) is the amount that hosts wrote divided by the space that the class occupies: a class with a high beta
//! belongs on the fast tier. Both count host blocks of 4 KiB, before compression and without the write amplification
//! of the devices; writes by garbage collection are counted separately, since only the capacity tier causes them.
//! [`ClassStats::add`] sums over classes.

/// Counters of one class since the pool was created. Byte counts are of 4 KiB blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes that hosts wrote.
    pub host_written_bytes: u64,
    /// Of these, bytes written directly to the capacity tier.
    pub bypassed_bytes: u64,
    /// Bytes moved from the fast to the capacity tier.
    pub destaged_bytes: u64,
    /// Bytes that garbage collection rewrote on the capacity tier.
    pub collected_bytes: u64,
    /// Bytes read by hosts.
    pub host_read_bytes: u64,
    /// Of these, bytes read from the fast tier, or from memory before it.
    pub fast_read_bytes: u64,
    /// Blocks now on the fast tier.
    pub fast_blocks: u64,
    /// Blocks now on the capacity tier.
    pub capacity_blocks: u64,
    /// Bytes that these blocks occupy there: 4096 for each block, fewer if it is compressed.
    pub stored_bytes: u64,
    /// Bytes that had another class when they were written, and were assigned to this class later.
    pub reclassed_in_bytes: u64,
    /// Bytes of this class that were assigned to another class later.
    pub reclassed_out_bytes: u64,
}

impl ClassStats {
    /// Bytes written by hosts that belong to the class by present knowledge.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.host_written_bytes.saturating_add(self.reclassed_in_bytes).saturating_sub(self.reclassed_out_bytes)
    }

    /// Share of the host's writes that the fast tier kept from the capacity tier (WRF), 0.0 to 1.0; `None` before any
    /// write.
    ///
    /// Data that is staged and not yet destaged counts as kept, so that the figure of a young pool is too high. It is
    /// at least 0: data that is destaged, promoted by a change of policy and destaged again is written to the
    /// capacity tier more than once.
    #[must_use]
    pub fn alpha(&self) -> Option<f64> {
        let written = self.written_bytes();
        if written == 0 {
            return None;
        }
        let through = self.bypassed_bytes.saturating_add(self.destaged_bytes) as f64;
        Some((1.0 - through / written as f64).max(0.0))
    }

    /// Bytes written of the class divided by the bytes that it occupies now (WIF); `None` while it occupies nothing.
    ///
    /// The occupied space is the living blocks on both tiers; a block of a class placed on both tiers counts once on
    /// each.
    #[must_use]
    pub fn beta(&self) -> Option<f64> {
        let occupied = self.fast_blocks.saturating_add(self.capacity_blocks).saturating_mul(4096);
        (occupied > 0).then(|| self.written_bytes() as f64 / occupied as f64)
    }

    /// Share of the bytes read that came from the fast tier or memory, 0.0 to 1.0; `None` before any read.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.host_read_bytes > 0).then(|| self.fast_read_bytes as f64 / self.host_read_bytes as f64)
    }

    /// Bytes of the blocks on the capacity tier divided by the bytes that they occupy there, 1.0 without compression;
    /// `None` while there are no blocks.
    #[must_use]
    pub fn compression(&self) -> Option<f64> {
        (self.stored_bytes > 0).then(|| self.capacity_blocks.saturating_mul(4096) as f64 / self.stored_bytes as f64)
    }

    /// Bytes written to the capacity tier for the class, including garbage collection.
    #[must_use]
    pub fn capacity_written_bytes(&self) -> u64 {
        self.bypassed_bytes.saturating_add(self.destaged_bytes).saturating_add(self.collected_bytes)
    }

    /// The counts since an earlier moment. The numbers of blocks are those of now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Self {
            host_written_bytes: less(self.host_written_bytes, before.host_written_bytes),
            bypassed_bytes: less(self.bypassed_bytes, before.bypassed_bytes),
            destaged_bytes: less(self.destaged_bytes, before.destaged_bytes),
            collected_bytes: less(self.collected_bytes, before.collected_bytes),
            host_read_bytes: less(self.host_read_bytes, before.host_read_bytes),
            fast_read_bytes: less(self.fast_read_bytes, before.fast_read_bytes),
            fast_blocks: self.fast_blocks,
            capacity_blocks: self.capacity_blocks,
            stored_bytes: self.stored_bytes,
            reclassed_in_bytes: less(self.reclassed_in_bytes, before.reclassed_in_bytes),
            reclassed_out_bytes: less(self.reclassed_out_bytes, before.reclassed_out_bytes),
        }
    }

    /// Adds the counters of another class, for totals.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.host_written_bytes, other.host_written_bytes),
            (&mut self.bypassed_bytes, other.bypassed_bytes),
            (&mut self.destaged_bytes, other.destaged_bytes),
            (&mut self.collected_bytes, other.collected_bytes),
            (&mut self.host_read_bytes, other.host_read_bytes),
            (&mut self.fast_read_bytes, other.fast_read_bytes),
            (&mut self.fast_blocks, other.fast_blocks),
            (&mut self.capacity_blocks, other.capacity_blocks),
            (&mut self.stored_bytes, other.stored_bytes),
            (&mut self.reclassed_in_bytes, other.reclassed_in_bytes),
            (&mut self.reclassed_out_bytes, other.reclassed_out_bytes),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_done_has_no_ratios() {
        let stats = ClassStats::default();
        assert_eq!((stats.alpha(), stats.beta(), stats.hit_ratio()), (None, None, None));
    }

    #[test]
    fn ratios_of_a_class_that_was_partly_destaged() {
        let stats = ClassStats {
            host_written_bytes: 1000 * 4096,
            bypassed_bytes: 50 * 4096,
            destaged_bytes: 200 * 4096,
            collected_bytes: 30 * 4096,
            host_read_bytes: 400,
            fast_read_bytes: 100,
            fast_blocks: 60,
            capacity_blocks: 40,
            stored_bytes: 200 * 512,
            reclassed_in_bytes: 0,
            reclassed_out_bytes: 0,
        };
        let moved = ClassStats {
            host_written_bytes: 900 * 4096,
            reclassed_in_bytes: 300 * 4096,
            reclassed_out_bytes: 200 * 4096,
            ..stats
        };
        assert_eq!((moved.alpha(), moved.beta()), (stats.alpha(), stats.beta()), "what came and went counts");
        assert_eq!((stats.alpha(), stats.beta(), stats.hit_ratio()), (Some(0.75), Some(10.0), Some(0.25)));
        assert_eq!(stats.capacity_written_bytes(), 280 * 4096);
        let mut sum = stats;
        sum.add(&stats);
        assert_eq!((sum.alpha(), sum.fast_blocks, sum.collected_bytes), (Some(0.75), 120, 60 * 4096));
        let occupied = |of: ClassStats| (of.fast_blocks, of.capacity_blocks);
        let later = sum.since(&stats);
        assert_eq!((later.alpha(), later.hit_ratio(), later.collected_bytes), (Some(0.75), Some(0.25), 30 * 4096));
        assert_eq!(occupied(later), occupied(sum), "what is held is held now");
    }

    #[test]
    fn alpha_does_not_go_below_zero_and_sums_do_not_overflow() {
        let stats =
            ClassStats { host_written_bytes: 1, destaged_bytes: u64::MAX, fast_blocks: u64::MAX, ..Default::default() };
        let mut sum = stats;
        sum.add(&stats);
        assert_eq!(sum.alpha(), Some(0.0));
        assert!(sum.beta().is_some());
    }
}
