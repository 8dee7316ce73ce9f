//! A pool's writes to its capacity tier over time, one row per interval. They show how the share that the fast tier absorbs changes with
//! the load.

use forebay_volume::Engine;
use serde_json::{Value, json};

/// Byte counters of a pool since the start of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Written {
    host_written_bytes: u64,
    bypassed_bytes: u64,
    destaged_bytes: u64,
    collected_bytes: u64,
}

impl Written {
    fn of(engine: &Engine) -> Self {
        let mut sum = Self::default();
        for class in &engine.status().classes {
            sum.host_written_bytes += class.host_written_bytes;
            sum.bypassed_bytes += class.bypassed_bytes;
            sum.destaged_bytes += class.destaged_bytes;
            sum.collected_bytes += class.collected_bytes;
        }
        sum
    }

    fn since(self, before: Self) -> Self {
        Self {
            host_written_bytes: self.host_written_bytes.saturating_sub(before.host_written_bytes),
            bypassed_bytes: self.bypassed_bytes.saturating_sub(before.bypassed_bytes),
            destaged_bytes: self.destaged_bytes.saturating_sub(before.destaged_bytes),
            collected_bytes: self.collected_bytes.saturating_sub(before.collected_bytes),
        }
    }
}

/// A finished interval and the bytes written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolInterval {
    end_ns: u64,
    written: Written,
}

impl PoolInterval {
    /// The JSON of results.
    pub fn json(self) -> Value {
        let Self { end_ns, written } = self;
        json!({
            "end_s": end_ns as f64 / 1e9,
            "host_written_bytes": written.host_written_bytes,
            "bypassed_bytes": written.bypassed_bytes,
            "destaged_bytes": written.destaged_bytes,
            "collected_bytes": written.collected_bytes,
        })
    }
}

/// The intervals of a session.
#[derive(Clone, Debug)]
pub struct PoolIntervals {
    interval_ns: u64,
    begin_ns: u64,
    next_ns: u64,
    before: Written,
    rows: Vec<PoolInterval>,
}

impl PoolIntervals {
    /// Starts intervals of this length at `now_ns`.
    pub fn new(interval_ns: u64, now_ns: u64, engine: &Engine) -> Self {
        let interval_ns = interval_ns.max(1);
        let next_ns = now_ns + interval_ns;
        Self { interval_ns, begin_ns: now_ns, next_ns, before: Written::of(engine), rows: Vec::new() }
    }

    /// Updates the rows for the present time. Where more than one interval has passed, one row covers them all.
    pub fn look(&mut self, now_ns: u64, engine: &Engine) {
        if now_ns < self.next_ns {
            return;
        }
        let written = Written::of(engine);
        self.rows.push(PoolInterval { end_ns: now_ns - self.begin_ns, written: written.since(self.before) });
        self.before = written;
        self.next_ns += (now_ns - self.next_ns) / self.interval_ns * self.interval_ns + self.interval_ns;
    }

    /// The finished intervals.
    pub fn rows(&self) -> &[PoolInterval] {
        &self.rows
    }
}
