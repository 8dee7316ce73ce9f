//! The highest and lowest throughput of any millisecond, and of longer windows.

use super::result::{BurstRow, per_second};
use super::share::{FINE_NS, Fine};

/// Lengths of the windows, in fine intervals of a millisecond.
const WINDOWS: [usize; 4] = [1, 10, 100, 1000];

/// A window that is not full: fine intervals, I/Os and bytes in it.
type OpenWindow = (usize, u64, u64);

/// A row for each length of window.
#[derive(Clone, Debug)]
pub struct BurstRows {
    interval_ns: u64,
    rows: [Option<BurstRow>; WINDOWS.len()],
    open: [OpenWindow; WINDOWS.len()],
}

impl BurstRows {
    /// For intervals of this length.
    pub fn new(interval_ns: u64) -> Self {
        Self { interval_ns, rows: [None; WINDOWS.len()], open: Default::default() }
    }

    /// Counts an interval. Windows may be longer than it: they continue across intervals as long as none is missing in between.
    pub fn count(&mut self, fine: &[Fine]) {
        // The last millisecond is shorter if the interval is no multiple of a millisecond; then no window can continue across it.
        let fine = &fine[..fine.len().min((self.interval_ns / FINE_NS) as usize)];
        if !self.interval_ns.is_multiple_of(FINE_NS) {
            self.begin();
        }
        for ((row, open), window) in self.rows.iter_mut().zip(&mut self.open).zip(WINDOWS) {
            let window_ns = window as u64 * FINE_NS;
            for part in fine {
                open.0 += 1;
                open.1 += u64::from(part.ios);
                open.2 += part.bytes;
                if open.0 < window {
                    continue;
                }
                let (_, ios, bytes) = std::mem::take(open);
                let (iops, rate) = (per_second(ios, window_ns), per_second(bytes, window_ns));
                let row = row.get_or_insert(BurstRow {
                    window_ns,
                    iops_max: iops,
                    iops_min: iops,
                    bytes_per_second_max: rate,
                    bytes_per_second_min: rate,
                });
                row.iops_max = row.iops_max.max(iops);
                row.iops_min = row.iops_min.min(iops);
                row.bytes_per_second_max = row.bytes_per_second_max.max(rate);
                row.bytes_per_second_min = row.bytes_per_second_min.min(rate);
            }
        }
    }

    /// Starts new windows, because the next interval does not follow the last one directly.
    pub fn begin(&mut self) {
        self.open = Default::default();
    }

    /// The rows of the windows that were ever full.
    pub fn rows(&self) -> Vec<BurstRow> {
        self.rows.iter().flatten().copied().collect()
    }
}
