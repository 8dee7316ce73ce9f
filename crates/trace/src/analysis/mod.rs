//! What a trace tells, in one pass: the table "workload through the PRISM", miss ratios, depths, sizes, bursts, lives.
//!
//! Exact as long as all blocks fit the memory limit; beyond, of a sample of neighbouring blocks, and the report says so. What is
//! counted by requests (bytes, sizes, depths, times) is exact always.

mod blocks;
mod bursts;
mod classes;
mod depth;
mod distances;
mod groups;
mod histogram;
mod hot;
mod lengths;
mod over_time;
mod regions;
mod report;
mod rows;
mod sampling;
mod shapes;
mod sizing;
mod slots;
mod stack;
mod statistics;
mod writes;

pub use blocks::BLOCK_BYTES;
pub use bursts::{Bursts, WINDOWS_NS, Window};
pub use classes::Classes;
pub use depth::{DEPTHS, Depths};
pub use distances::Distances;
pub use histogram::Histogram;
pub use lengths::Lengths;
pub use over_time::{OverTime, Slice, Touched};
pub use regions::{Region, VolumeMap};
pub use report::{Agreement, Burst, Curve, Depth, Direction, Latency, Operation, ReadHits, Report, Row, Spread};
pub use rows::By;
pub use shapes::Shapes;
pub use sizing::{Pinned, Sized, Sizes, Sizing, Way};
pub use statistics::RowStatistics;
pub use writes::Writes;

use crate::{Knows, NOT_KNOWN, Names, Op, Request};
use blocks::{Blocks, FOLLOWED_BYTES, VOLUME_BLOCKS};
use depth::DepthMeter;
use forebay_prism::Rule;
use over_time::{Access, Timeline};
use rows::{Part, Rows};

/// Largest request that is believed, in bytes; discards may be larger. Block layers split at 32 MiB and less. Each block of a
/// request is looked at, so that a line of a text must not stand for too many.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Requests whose blocks are fetched at once.
const REQUESTS_FETCHED: usize = 64;
/// Of the memory for blocks, what writes may take beside it that are kept for a sizing: a quarter.
const KEPT_SHARE: u64 = 4;
/// Volumes that can be distinguished.
const VOLUMES_MAX: u32 = 1 << 20;

/// Whether a request gives or takes a range without moving its bytes.
fn is_range(request: &Request) -> bool {
    matches!(request.op, Op::Discard | Op::WriteZeroes)
}

/// The first block that a request touches, and how many; `None` where it is not believed.
fn touched(request: &Request) -> Option<(u64, u64)> {
    let first = request.offset_bytes / BLOCK_BYTES;
    let end = request.end_bytes().div_ceil(BLOCK_BYTES);
    let is_believed = request.volume < VOLUMES_MAX
        && end <= VOLUME_BLOCKS
        && (is_range(request) || request.len_bytes <= REQUEST_BYTES_MAX);
    is_believed.then(|| (first, if request.len_bytes == 0 { 0 } else { end - first }))
}

/// The volume, the first block and the number of blocks of a request that moves bytes, and whether it writes them.
fn moved(request: &Request) -> Option<(u32, u64, u64, bool)> {
    let moves = matches!(request.op, Op::Read | Op::Access | Op::Write);
    let (first, blocks) = touched(request).filter(|(_, blocks)| moves && *blocks > 0)?;
    Some((request.volume, first, blocks, request.op == Op::Write))
}

/// How to analyse.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for what is followed of blocks, in bytes.
    pub memory_bytes: u64,
    /// Follow one block in 2^n from the first on.
    pub sample_halvings: u32,
    /// What rows stand for.
    pub by: By,
    /// Classes by rules, the first that holds.
    pub rules: Vec<(String, Rule)>,
    /// Classes that go past the fast tier, for [`Sizing`].
    pub bypassed: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { memory_bytes: 1 << 30, sample_halvings: 0, by: By::Class, rules: Vec::new(), bypassed: Vec::new() }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Bytes that rows were written with, by the row that behaviour alone would have said.
#[derive(Default)]
struct Agreements(Vec<Vec<u64>>);

impl Agreements {
    fn add(&mut self, row: u16, behaviour: u16, bytes: u64) {
        let (row, behaviour) = (usize::from(row), usize::from(behaviour));
        if self.0.len() <= row {
            self.0.resize_with(row + 1, Vec::new);
        }
        let of_row = &mut self.0[row];
        if of_row.len() <= behaviour {
            of_row.resize(behaviour + 1, 0);
        }
        of_row[behaviour] += bytes;
    }

    /// Row, row by behaviour, and bytes, in their order.
    fn all(&self) -> impl Iterator<Item = (u16, u16, u64)> {
        (0..).zip(&self.0).flat_map(|(row, all)| {
            let all = (0..).zip(all.iter().copied()).filter(|(_, bytes)| *bytes > 0);
            all.map(move |(behaviour, bytes)| (row, behaviour, bytes))
        })
    }
}

/// A trace being analysed.
pub struct Analysis {
    rows: Rows,
    statistics: Vec<RowStatistics>,
    blocks: Blocks,
    depth: DepthMeter,
    reads: Shapes,
    writes: Shapes,
    bursts: Bursts,
    counts: [Count; Op::ALL.len()],
    /// Latencies of flushes, in nanoseconds.
    flush_ns: Histogram,
    /// Nanoseconds from a write of a block to its next write, or discard.
    overwrite_ns: Histogram,
    overwrite_bytes: Histogram,
    /// Nanoseconds from an access of a block to its next read.
    reread_ns: Histogram,
    agreement: Agreements,
    knows: Knows,
    timeline: Timeline,
    now_ns: u64,
    clock_bytes: u64,
    back_in_time: u64,
    absurd: u64,
    parts: Vec<Part>,
    /// What is kept of writes.
    kept: Option<Writes>,
}

impl Analysis {
    /// Begins.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let limit = usize::try_from(options.memory_bytes / FOLLOWED_BYTES).unwrap_or(usize::MAX);
        Self {
            rows: Rows::new(options.by, &options.rules),
            statistics: Vec::new(),
            blocks: Blocks::new(limit, options.sample_halvings),
            depth: DepthMeter::default(),
            reads: Shapes::default(),
            writes: Shapes::default(),
            bursts: Bursts::default(),
            counts: [Count::default(); Op::ALL.len()],
            flush_ns: Histogram::default(),
            overwrite_ns: Histogram::default(),
            overwrite_bytes: Histogram::default(),
            reread_ns: Histogram::default(),
            agreement: Agreements::default(),
            knows: Knows::default(),
            timeline: Timeline::default(),
            now_ns: 0,
            clock_bytes: 0,
            back_in_time: 0,
            absurd: 0,
            parts: Vec::new(),
            kept: None,
        }
    }

    /// Begins, and keeps writes and discards for [`Sizing::repeat`], as long as they take no more than a quarter of the memory for blocks
    /// beside it.
    #[must_use]
    pub fn keeping_writes(options: &Options) -> Self {
        Self { kept: Some(Writes::within(options.memory_bytes / KEPT_SHARE)), ..Self::new(options) }
    }

    /// The writes and discards that were kept; `None` where they were too many.
    pub fn take_writes(&mut self) -> Option<Writes> {
        let mut writes = self.kept.take()?;
        writes.names = self.rows.names().to_vec();
        Some(writes)
    }

    /// Takes the next requests of the trace.
    pub fn add(&mut self, requests: &[Request], names: &Names, knows: Knows) {
        self.knows = knows;
        for requests in requests.chunks(REQUESTS_FETCHED) {
            self.rows.fetch(requests.iter().filter_map(moved).map(|(volume, first, ..)| (volume, first)));
            self.blocks.fetch(requests.iter().filter_map(moved));
            for request in requests {
                self.one(request, names);
            }
        }
    }

    fn one(&mut self, request: &Request, names: &Names) {
        let Some((first, blocks)) = touched(request) else {
            self.absurd += 1;
            return;
        };
        // Times may go back a little in a trace; time does not.
        let later;
        let request = if request.issued_ns < self.now_ns {
            self.back_in_time += 1;
            later = Request { issued_ns: self.now_ns, ..*request };
            &later
        } else {
            request
        };
        self.now_ns = request.issued_ns;
        let now_ns = self.now_ns;
        let count = &mut self.counts[request.op as usize];
        count.requests += 1;
        count.bytes = count.bytes.saturating_add(request.len_bytes);
        self.timeline.advance(self.knows.time.then_some(now_ns));
        self.depth.issue(request);
        self.bursts.note(now_ns, if is_range(request) { 0 } else { request.len_bytes });
        if request.op == Op::Flush && request.latency_ns != NOT_KNOWN {
            self.flush_ns.add(request.latency_ns);
        }
        if blocks == 0 {
            return;
        }
        match request.op {
            Op::Write => self.write(request, first, blocks, names),
            Op::Read | Op::Access => self.read(request, first, blocks, names),
            Op::Discard | Op::WriteZeroes => self.discard(request),
            Op::Flush => {}
        }
    }

    fn write(&mut self, request: &Request, first: u64, blocks: u64, names: &Names) {
        self.writes.note(request);
        self.timeline.request(Access::Write, request);
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        self.rows.write(request, first, blocks, names, self.knows, &mut parts);
        self.keep(|kept| kept.write(request, first, &parts));
        let (mut at, mut left_bytes) = (first, request.len_bytes);
        for (index, part) in parts.iter().enumerate() {
            // The bytes of a part: all of them together are the request's.
            let end_bytes = (at + part.blocks) * BLOCK_BYTES;
            let is_last = index + 1 == parts.len();
            let bytes = if is_last { left_bytes } else { end_bytes - request.offset_bytes.max(at * BLOCK_BYTES) };
            left_bytes -= bytes.min(left_bytes);
            let row_statistics = statistics_of(&mut self.statistics, part.row);
            row_statistics.writes += u64::from(index == 0);
            row_statistics.written_bytes += bytes;
            if index == 0 && request.latency_ns != NOT_KNOWN {
                row_statistics.write_latency_ns.add(request.latency_ns);
            }
            if let Some(behaviour) = part.behaviour {
                self.agreement.add(part.row, behaviour, bytes);
            }
            self.clock_bytes = self.clock_bytes.saturating_add(bytes);
            let (statistics, overwrite_ns, overwrite_bytes, timeline) =
                (&mut self.statistics, &mut self.overwrite_ns, &mut self.overwrite_bytes, &mut self.timeline);
            self.blocks.write(
                request.volume,
                at,
                part.blocks,
                (timeline.now(), self.clock_bytes),
                part.row,
                |seen, weight, times| {
                    timeline.touch(Access::Write, &seen, weight.saturating_mul(times));
                    if let Some((row, life_ns, life_bytes)) = seen.since_write {
                        let row_statistics = statistics_of(statistics, row);
                        row_statistics.life_ns.add_repeatedly(life_ns, weight as f64, times);
                        row_statistics.life_bytes.add_repeatedly(life_bytes, weight as f64, times);
                        overwrite_ns.add_repeatedly(life_ns, weight as f64, times);
                        overwrite_bytes.add_repeatedly(life_bytes, weight as f64, times);
                    }
                },
            );
            at += part.blocks;
        }
        self.parts = parts;
    }

    /// Keeps what comes next, where all before it was kept and there is room.
    fn keep(&mut self, keep: impl FnOnce(&mut Writes) -> bool) {
        if self.kept.as_mut().is_some_and(|kept| !keep(kept)) {
            self.kept = None;
        }
    }

    fn read(&mut self, request: &Request, first: u64, blocks: u64, names: &Names) {
        self.reads.note(request);
        self.timeline.request(Access::Read, request);
        let sure = self.rows.read(request, first, blocks, names, self.knows);
        let (reread_ns, timeline) = (&mut self.reread_ns, &mut self.timeline);
        let now = timeline.now();
        let mut writer = None;
        let is_read = request.op == Op::Read;
        let followed = self.blocks.read(request.volume, first, blocks, now, is_read, |seen, weight, times| {
            timeline.touch(Access::Read, &seen, weight.saturating_mul(times));
            if let Some(before) = seen.accessed_at() {
                reread_ns.add_repeatedly(now - before, weight as f64, times);
            }
            writer = writer.or(seen.writer);
        });
        // Of a sample, only what is followed tells who wrote it: those requests stand for the others.
        let Some(weight) = (if sure.is_some() { Some(1) } else { followed }) else { return };
        let row_statistics = statistics_of(&mut self.statistics, sure.or(writer).unwrap_or(Rows::UNWRITTEN));
        row_statistics.reads = row_statistics.reads.saturating_add(weight);
        row_statistics.read_bytes = row_statistics.read_bytes.saturating_add(request.len_bytes.saturating_mul(weight));
        if request.latency_ns != NOT_KNOWN {
            row_statistics.read_latency_ns.add_weighted(request.latency_ns, weight as f64);
        }
    }

    /// Only whole blocks lose what they held.
    fn discard(&mut self, request: &Request) {
        self.rows.discard(request);
        self.keep(|kept| kept.discard(request));
        let Some((first, blocks)) = writes::whole_blocks(request) else { return };
        let (statistics, overwrite_ns, overwrite_bytes) =
            (&mut self.statistics, &mut self.overwrite_ns, &mut self.overwrite_bytes);
        let at = (self.timeline.now(), self.clock_bytes);
        self.blocks.discard(request.volume, first, blocks, at, |seen, weight| {
            if let Some((row, life_ns, life_bytes)) = seen.since_write {
                let row_statistics = statistics_of(statistics, row);
                row_statistics.discarded_bytes =
                    row_statistics.discarded_bytes.saturating_add(weight.saturating_mul(BLOCK_BYTES));
                row_statistics.life_ns.add_weighted(life_ns, weight as f64);
                row_statistics.life_bytes.add_weighted(life_bytes, weight as f64);
                overwrite_ns.add_weighted(life_ns, weight as f64);
                overwrite_bytes.add_weighted(life_bytes, weight as f64);
            }
        });
    }
}

fn statistics_of(statistics: &mut Vec<RowStatistics>, row: u16) -> &mut RowStatistics {
    let row = usize::from(row);
    if statistics.len() <= row {
        statistics.resize_with(row + 1, RowStatistics::default);
    }
    &mut statistics[row]
}

#[cfg(test)]
// Here a panic is the finding.
#[allow(clippy::unwrap_used)]
mod tests;
