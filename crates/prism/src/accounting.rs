//! Books per class.

/// Counters of one class since the pool was created. Bytes are of 4 KiB blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Bytes the hosts wrote.
    pub host_written_bytes: u64,
    /// Of these, bytes written straight to the capacity tier.
    pub bypassed_bytes: u64,
    /// Bytes moved from the fast to the capacity tier.
    pub destaged_bytes: u64,
    /// Bytes that garbage collection rewrote on the capacity tier.
    pub collected_bytes: u64,
    /// Bytes read by hosts.
    pub host_read_bytes: u64,
    /// Of these, bytes read from the fast tier.
    pub fast_read_bytes: u64,
    /// Blocks now on the fast tier.
    pub fast_blocks: u64,
    /// Blocks now on the capacity tier.
    pub capacity_blocks: u64,
}

impl ClassStats {
    /// Share of the host's writes that the fast tier kept from the capacity tier (WRF); `None` before any write.
    #[must_use]
    pub fn alpha(&self) -> Option<f64> {
        if self.host_written_bytes == 0 {
            return None;
        }
        let through = (self.bypassed_bytes + self.destaged_bytes) as f64;
        Some((1.0 - through / self.host_written_bytes as f64).max(0.0))
    }

    /// Writes of the class over the space it occupies now (WIF); `None` while it occupies nothing.
    #[must_use]
    pub fn beta(&self) -> Option<f64> {
        let occupied = (self.fast_blocks + self.capacity_blocks) * 4096;
        (occupied > 0).then(|| self.host_written_bytes as f64 / occupied as f64)
    }

    /// Share of bytes read that came from the fast tier; `None` before any read.
    #[must_use]
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.host_read_bytes > 0).then(|| self.fast_read_bytes as f64 / self.host_read_bytes as f64)
    }
}
