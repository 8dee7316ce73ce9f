//! The kernel's counters of a block device.
//!
//! Fields: Linux Documentation/block/stat.rst and admin-guide/iostats.rst; 11 of them at first, discards since Linux
//! 4.18, flushes since 5.5. Times are printed as 32-bit numbers (block/genhd.c, `part_stat_show`), so they start again
//! at 0 after 49.7 days of waiting time.

/// The unit of this file is 512 bytes, whatever the sectors of the device are.
const SECTOR_BYTES: u64 = 512;

/// Counters of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelOps {
    /// Completed requests.
    pub requests: u64,
    /// I/Os that were merged into a waiting request.
    pub merges: u64,
    /// Bytes transferred; u64::MAX where it does not fit.
    pub bytes: u64,
    /// Sum of the waiting times of all requests, in milliseconds; wraps at 2^32.
    pub wait_ms: u64,
}

/// The content of `/sys/dev/block/MAJOR:MINOR/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStat {
    /// Reads.
    pub reads: KernelOps,
    /// Writes.
    pub writes: KernelOps,
    /// Discards; `None` on kernels that do not count them.
    pub discards: Option<KernelOps>,
    /// Count of flushes, and their waiting time in milliseconds. `None` on kernels that do not count them; 0 for
    /// partitions.
    pub flushes: Option<(u64, u64)>,
    /// Requests in flight at this moment. Any before a measurement mean that somebody else uses the device.
    pub in_flight: u64,
    /// Time with at least one request in flight, in milliseconds; wraps at 2^32. Since Linux 5.0 it is sampled at the
    /// kernel's ticks when requests start and end, so it is too low on fast drives (iostats.rst, field 10).
    pub busy_ms: u64,
    /// Sum of the waiting times of all requests of all kinds, in milliseconds; wraps at 2^32.
    pub wait_ms: u64,
}

impl KernelStat {
    /// Parses the line; `None` where it has fewer than the 11 numbers that all kernels print. Fields that later
    /// kernels add at the end are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_ascii_whitespace().take(17).map(str::parse).collect::<Result<_, _>>().ok()?;
        let ops = |at: usize| match fields.get(at..at + 4)? {
            &[requests, merges, sectors, wait_ms] => {
                Some(KernelOps { requests, merges, bytes: sectors.saturating_mul(SECTOR_BYTES), wait_ms })
            }
            _ => None,
        };
        Some(Self {
            reads: ops(0)?,
            writes: ops(4)?,
            in_flight: *fields.get(8)?,
            busy_ms: *fields.get(9)?,
            wait_ms: *fields.get(10)?,
            discards: ops(11),
            flushes: fields.get(15).copied().zip(fields.get(16).copied()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str = "       1        2        3        4        5  6 7 8 9   10 11 12 13 14 15 16 17\n";

    #[test]
    fn every_field_comes_from_its_place() {
        let expected = KernelStat {
            reads: KernelOps { requests: 1, merges: 2, bytes: 3 * 512, wait_ms: 4 },
            writes: KernelOps { requests: 5, merges: 6, bytes: 7 * 512, wait_ms: 8 },
            in_flight: 9,
            busy_ms: 10,
            wait_ms: 11,
            discards: Some(KernelOps { requests: 12, merges: 13, bytes: 14 * 512, wait_ms: 15 }),
            flushes: Some((16, 17)),
        };
        assert_eq!(KernelStat::parse(LINE), Some(expected));
        assert_eq!(KernelStat::parse(&format!("{LINE} 18 and more")), Some(expected));
    }

    #[test]
    fn older_kernels_say_less() {
        let eleven = KernelStat::parse("1 2 3 4 5 6 7 8 9 10 11").expect("Linux 4.18");
        assert_eq!((eleven.discards, eleven.flushes), (None, None));
        let fifteen = KernelStat::parse("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15").expect("Linux 5.4");
        assert!(fifteen.discards.is_some() && fifteen.flushes.is_none());
    }

    #[test]
    fn what_is_no_such_line_is_not_read() {
        for text in ["", "1 2 3", "1 2 3 4 5 6 7 8 9 10", "1 2 x 4 5 6 7 8 9 10 11", "-1 2 3 4 5 6 7 8 9 10 11"] {
            assert_eq!(KernelStat::parse(text), None, "{text}");
        }
        let large = format!("1 2 {} 4 5 6 7 8 9 10 11", u64::MAX);
        assert_eq!(KernelStat::parse(&large).expect("fits").reads.bytes, u64::MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "[0-9 \\n.x-]{0,200}") {
            if let Some(stat) = KernelStat::parse(&text) {
                prop_assert!(stat.flushes.is_none() || stat.discards.is_some());
            }
        }
    }
}
