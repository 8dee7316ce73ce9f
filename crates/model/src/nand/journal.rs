//! The journal of the map: two pages of records. One page takes the entries of new writes while the other is applied to the map.
//!
//! Writes that come no faster than records are applied never wait. Faster writes enter a page immediately until it is full, and then all
//! wait until the other page is applied. So many writes are quick and a few wait long, which a server that takes one record after the other
//! would not show.

/// Times of the two pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Journal {
    /// When the current page began to take entries.
    pub open_ns: u64,
    /// When the other page will have been applied.
    done_ns: u64,
    entries: u32,
}

impl Journal {
    /// A write enters at `at_ns`, not before `open_ns`. A page of `batch` entries takes `entry_ns` for each to apply.
    pub(super) fn enter(&mut self, at_ns: u64, entry_ns: u64, batch: u32) {
        self.entries += 1;
        if self.entries >= batch {
            self.entries = 0;
            self.open_ns = at_ns.max(self.done_ns);
            self.done_ns = self.open_ns + entry_ns * u64::from(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wait times of `writes` writes; each comes `apart_ns` after the one before was accepted.
    fn waits(writes: u32, apart_ns: u64, entry_ns: u64, batch: u32) -> Vec<u64> {
        let mut journal = Journal::default();
        let mut now_ns = 0;
        let wait = |_| {
            now_ns += apart_ns;
            let at_ns = now_ns.max(journal.open_ns);
            journal.enter(at_ns, entry_ns, batch);
            let waited_ns = at_ns - now_ns;
            now_ns = at_ns;
            waited_ns
        };
        (0..writes).map(wait).collect()
    }

    #[test]
    fn slow_writes_do_not_wait_and_fast_ones_wait_together() {
        assert!(waits(1000, 11, 10, 100).iter().all(|&ns| ns == 0));
        let fast = waits(1000, 1, 10, 100);
        let waited: Vec<u64> = fast.iter().copied().filter(|&ns| ns > 0).collect();
        // A page is full after 100 ns and takes 1000 ns to apply: one write in a hundred waits for the difference. The first two pages are
        // free.
        assert_eq!(waited, [899, 900, 900, 900, 900, 900, 900, 900]);
    }
}
