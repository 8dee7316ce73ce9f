//! Does independent work in parallel, such as the cells of a table.

use forebay_block::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of processors available to this process.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `work` to each cell and returns the results in order; on as many threads as processors, at most 8.
pub fn in_parallel<C: Sync, R: Send>(cells: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    on_threads(processors().min(8), cells, work)
}

/// Applies `work` to each cell on that many threads, and returns the results in order.
pub fn on_threads<C: Sync, R: Send>(threads: usize, cells: &[C], work: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((at, cell)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(at).map(|cell| (at, cell))
                } {
                    let result = work(cell);
                    lock(&done).insert(at, result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}
