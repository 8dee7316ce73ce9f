//! The first stage of an analysis: figures of the requests by themselves, and the rows that they belong to.

use super::bursts::Bursts;
use super::depth::DepthMeter;
use super::histogram::Histogram;
use super::rows::{Part, Rows};
use super::shapes::Shapes;
use super::writes::Writes;
use super::{Count, Options, is_range, moved, touched};
use crate::{Knows, NOT_KNOWN, Names, Op, Request};

/// A request for the second stage.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The request; its time does not go back.
    pub request: Request,
    /// Whether its time is a real time.
    pub has_time: bool,
    /// The row of a read; `None` where reads count for the row that wrote the block.
    pub row: Option<u16>,
    /// Number of parts of a write.
    pub parts: usize,
}

/// Requests for the second stage, in order.
#[derive(Debug, Default)]
pub struct PlacedRequests {
    all: Vec<Placed>,
    /// The parts of all writes, one after the other.
    parts: Vec<Part>,
}

impl PlacedRequests {
    pub fn all(&self) -> &[Placed] {
        &self.all
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Number of requests that are worth passing to a thread.
    pub const ENOUGH: usize = 1024;

    /// Whether there is enough to pass to a thread. A write of many classes may have a part for each of its blocks.
    pub fn is_full(&self) -> bool {
        self.all.len() >= Self::ENOUGH || self.parts.len() >= 4096
    }

    /// Adds a request; its parts must have been added.
    pub fn push(&mut self, placed: Placed) {
        self.all.push(placed);
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.parts.clear();
    }
}

/// The first stage: everything that is known without looking at blocks.
pub struct Requests {
    pub rows: Rows,
    pub depth: DepthMeter,
    pub reads: Shapes,
    pub writes: Shapes,
    pub bursts: Bursts,
    pub counts: [Count; Op::ALL.len()],
    /// Latencies of flushes in nanoseconds.
    pub flush_ns: Histogram,
    pub knows: Knows,
    now_ns: u64,
    pub back_in_time: u64,
    pub absurd: u64,
    /// The writes kept for a sizing; `None` if they were too many.
    kept: Option<Writes>,
}

impl Requests {
    pub fn new(options: &Options, kept: Option<Writes>) -> Self {
        Self {
            rows: Rows::new(options.by, &options.rules),
            depth: DepthMeter::default(),
            reads: Shapes::default(),
            writes: Shapes::default(),
            bursts: Bursts::default(),
            counts: [Count::default(); Op::ALL.len()],
            flush_ns: Histogram::default(),
            knows: Knows::default(),
            now_ns: 0,
            back_in_time: 0,
            absurd: 0,
            kept,
        }
    }

    /// The kept writes and discards; `None` if they were too many.
    pub fn take_writes(&mut self) -> Option<Writes> {
        let mut writes = self.kept.take()?;
        writes.names = self.rows.names().to_vec();
        Some(writes)
    }

    /// Handles the next requests of the trace, and passes them on.
    pub fn add(&mut self, requests: &[Request], names: &Names, on: &mut PlacedRequests) {
        self.rows.fetch(requests.iter().filter_map(moved).map(|(volume, first, ..)| (volume, first)));
        for request in requests {
            self.one(request, names, on);
        }
    }

    fn one(&mut self, request: &Request, names: &Names, on: &mut PlacedRequests) {
        let Some((first, blocks)) = touched(request) else {
            self.absurd += 1;
            return;
        };
        // Times in a trace may go back a little; such a request gets the latest time so far.
        let mut request = *request;
        if request.issued_ns < self.now_ns {
            self.back_in_time += 1;
            request.issued_ns = self.now_ns;
        }
        self.now_ns = request.issued_ns;
        let count = &mut self.counts[request.op as usize];
        count.requests += 1;
        count.bytes = count.bytes.saturating_add(request.len_bytes);
        self.depth.issue(&request);
        self.bursts.note(self.now_ns, if is_range(&request) { 0 } else { request.len_bytes });
        if request.op == Op::Flush && request.latency_ns != NOT_KNOWN {
            self.flush_ns.add(request.latency_ns);
        }
        let parts_before = on.parts.len();
        let row = if blocks > 0 { self.place(&request, (first, blocks), names, &mut on.parts) } else { None };
        on.push(Placed { request, has_time: self.knows.time, row, parts: on.parts.len() - parts_before });
    }

    /// The row of a read if it is known for certain. Appends the parts of a write.
    fn place(
        &mut self,
        request: &Request,
        (first, blocks): (u64, u64),
        names: &Names,
        parts: &mut Vec<Part>,
    ) -> Option<u16> {
        match request.op {
            Op::Write => {
                self.writes.note(request);
                let before = parts.len();
                self.rows.write(request, first, blocks, names, self.knows, parts);
                self.keep(|kept| kept.write(request, first, &parts[before..]));
            }
            Op::Read | Op::Access => {
                self.reads.note(request);
                return self.rows.read(request, first, blocks, names, self.knows);
            }
            Op::Discard | Op::WriteZeroes => {
                self.rows.discard(request);
                self.keep(|kept| kept.discard(request));
            }
            Op::Flush => {}
        }
        None
    }

    /// Keeps a request for sizing, if all before it were kept and there is room.
    fn keep(&mut self, keep: impl FnOnce(&mut Writes) -> bool) {
        if self.kept.as_mut().is_some_and(|kept| !keep(kept)) {
            self.kept = None;
        }
    }
}
