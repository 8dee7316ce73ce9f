//! The second stage of an analysis: what it follows block by block, and over time.

use super::REQUESTS_FETCHED;
use super::blocks::{BLOCK_BYTES, Blocks, FOLLOWED_BYTES};
use super::histogram::Histogram;
use super::over_time::{Access, Timeline};
use super::requests::{Placed, PlacedRequests};
use super::rows::{Part, Rows};
use super::statistics::RowStatistics;
use super::{Options, moved, touched, writes};
use crate::{NOT_KNOWN, Op, Request};

/// Bytes written by row, and by the row that behaviour alone would have chosen.
#[derive(Default)]
pub struct Agreements(Vec<Vec<u64>>);

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

    /// Row, row by behaviour, and bytes, in this order.
    pub fn all(&self) -> impl Iterator<Item = (u16, u16, u64)> {
        (0..).zip(&self.0).flat_map(|(row, all)| {
            let all = (0..).zip(all.iter().copied()).filter(|(_, bytes)| *bytes > 0);
            all.map(move |(behaviour, bytes)| (row, behaviour, bytes))
        })
    }
}

/// The followed blocks of a trace, and the statistics of its rows.
pub struct Followed {
    /// Statistics by row number.
    pub statistics: Vec<RowStatistics>,
    pub blocks: Blocks,
    /// Nanoseconds from a write of a block to its next write or discard.
    pub overwrite_ns: Histogram,
    pub overwrite_bytes: Histogram,
    /// Nanoseconds from an access of a block to its next read.
    pub reread_ns: Histogram,
    pub agreement: Agreements,
    pub timeline: Timeline,
    clock_bytes: u64,
}

impl Followed {
    pub fn new(options: &Options) -> Self {
        let limit = usize::try_from(options.memory_bytes / FOLLOWED_BYTES).unwrap_or(usize::MAX);
        Self {
            statistics: Vec::new(),
            blocks: Blocks::new(limit, options.sample_halvings),
            overwrite_ns: Histogram::default(),
            overwrite_bytes: Histogram::default(),
            reread_ns: Histogram::default(),
            agreement: Agreements::default(),
            timeline: Timeline::default(),
            clock_bytes: 0,
        }
    }

    /// Handles the next requests.
    pub fn add(&mut self, requests: &PlacedRequests) {
        let mut parts = requests.parts();
        for requests in requests.all().chunks(REQUESTS_FETCHED) {
            self.blocks.fetch(requests.iter().filter_map(|placed| moved(&placed.request)));
            for placed in requests {
                let (of_it, behind) = parts.split_at(placed.parts);
                self.one(placed, of_it);
                parts = behind;
            }
        }
    }

    fn one(&mut self, placed: &Placed, parts: &[Part]) {
        let request = &placed.request;
        self.timeline.advance(placed.has_time.then_some(request.issued_ns));
        let Some((first, blocks @ 1..)) = touched(request) else { return };
        match request.op {
            Op::Write => self.write(request, first, parts),
            Op::Read | Op::Access => self.read(request, (first, blocks), placed.row),
            Op::Discard | Op::WriteZeroes => self.discard(request),
            Op::Flush => {}
        }
    }

    fn write(&mut self, request: &Request, first: u64, parts: &[Part]) {
        self.timeline.request(Access::Write, request);
        let (mut at, mut left_bytes) = (first, request.len_bytes);
        // Before its parts: a block that the last of them overwrites has waited for as much as one of the first.
        self.clock_bytes = self.clock_bytes.saturating_add(request.len_bytes);
        for (index, part) in parts.iter().enumerate() {
            // The bytes of the part; those of all parts are the request's.
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
    }

    /// `sure` is the row, if the read does not count for the row that wrote the block.
    fn read(&mut self, request: &Request, (first, blocks): (u64, u64), sure: Option<u16>) {
        self.timeline.request(Access::Read, request);
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
        // In a sample, the writer is only known for followed blocks: these requests stand for the others.
        let Some(weight) = (if sure.is_some() { Some(1) } else { followed }) else { return };
        let row_statistics = statistics_of(&mut self.statistics, sure.or(writer).unwrap_or(Rows::UNWRITTEN));
        row_statistics.reads = row_statistics.reads.saturating_add(weight);
        row_statistics.read_bytes = row_statistics.read_bytes.saturating_add(request.len_bytes.saturating_mul(weight));
        if request.latency_ns != NOT_KNOWN {
            row_statistics.read_latency_ns.add_weighted(request.latency_ns, weight as f64);
        }
    }

    /// Only blocks that are covered completely lose their data.
    fn discard(&mut self, request: &Request) {
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
