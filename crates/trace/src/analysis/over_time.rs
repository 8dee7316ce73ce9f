//! A trace over time: where its requests went (`regions.rs`), and its working set, the distinct blocks of each slice.
//!
//! There are at most 64 slices for any trace: when there would be more, slices become twice as long, and neighbours are merged. Bytes of
//! two slices can be added; distinct blocks cannot, since a block may occur in both. So each access is counted by the length that slices
//! would need for it and the previous access of its block to lie in one slice, which follows from the highest bit in which the two times
//! differ. In shorter slices the access is the first of its block. The sum over these counts is exact, however often slices are merged.

use super::blocks::{BLOCK_BYTES, Seen};
use super::regions::{Regions, VolumeMap};
use crate::{Names, Request};
use serde::Serialize;

/// Most slices of a trace.
const SLICES_MAX: u64 = 64;
/// Number of volumes, the first ones of the trace, with their own map; all others share one.
const VOLUMES_MAPPED: usize = 15;
/// Slices may have from 2^0 to 2^64 units of time; this index is for accesses without an earlier one.
const NEVER: usize = 65;

/// What is done to a block. Accesses of unknown kind count as reads, as everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// Accesses, by the smallest slice length (as a power of 2) in which they are not the first of their block.
#[derive(Clone, Copy, Debug)]
struct Firsts([u64; NEVER + 1]);

impl Default for Firsts {
    fn default() -> Self {
        Self([0; NEVER + 1])
    }
}

impl Firsts {
    fn note(&mut self, now: u64, before: Option<u64>, weight: u64) {
        let same_from = before.map_or(NEVER, |before| (u64::BITS - (now ^ before).leading_zeros()) as usize);
        self.0[same_from] = self.0[same_from].saturating_add(weight);
    }

    /// Number of distinct blocks in slices of 2^shift.
    fn distinct(&self, shift: u32) -> u64 {
        self.0[shift as usize + 1..].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Number of blocks that were accessed for the first time.
    fn never(&self) -> u64 {
        self.0[NEVER]
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(to, from)| *to = to.saturating_add(from));
    }
}

/// A slice while the trace is read. For reads and writes: bytes, blocks, and blocks that were never touched before.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    requests: u64,
    all: Firsts,
    bytes: [u64; 2],
    blocks: [Firsts; 2],
    new: [u64; 2],
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.all.merge(&other.all);
        for at in 0..2 {
            self.bytes[at] = self.bytes[at].saturating_add(other.bytes[at]);
            self.blocks[at].merge(&other.blocks[at]);
            self.new[at] = self.new[at].saturating_add(other.new[at]);
        }
    }
}

/// A trace over time, while it is read.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Time of the first request, and whether it is a time; otherwise time is the number of requests before.
    begin: Option<(u64, bool)>,
    /// Time since the first request.
    passed: u64,
    /// A slice has 2^shift units.
    shift: u32,
    slices: Vec<Counts>,
    volumes: Vec<(u32, Regions)>,
    others: Regions,
}

/// What was touched in a slice. With a sample, blocks are estimates; they are not known (`None`) if there were requests but the sample has
/// none of their blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// Bytes read or written, each time that they were.
    pub moved_bytes: u64,
    /// Number of distinct blocks.
    pub blocks: Option<u64>,
    /// Bytes of the distinct blocks.
    pub block_bytes: Option<u64>,
    /// Number of distinct blocks that were touched for the first time, or for the first time after a discard.
    pub new_blocks: Option<u64>,
    /// Bytes of these blocks.
    pub new_block_bytes: Option<u64>,
}

/// A slice of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Nanoseconds since the first request of the trace; number of requests before, if the trace has no times.
    pub begin: u64,
    /// Number of requests of all kinds.
    pub requests: u64,
    /// Blocks read or written.
    pub all: Touched,
    /// Blocks read.
    pub reads: Touched,
    /// Blocks written.
    pub writes: Touched,
}

/// A trace over its time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OverTime {
    /// Length of a slice in nanoseconds; `None` if the trace has no times.
    pub slice_ns: Option<u64>,
    /// Length of a slice in requests; `None` if the trace has times.
    pub slice_requests: Option<u64>,
    /// Slices from the first request to the last.
    pub slices: Vec<Slice>,
    /// Where requests went, by volume, the one with most bytes first. `None` if this was one of many traces, since maps are only made of
    /// single traces.
    pub volumes: Option<Vec<VolumeMap>>,
}

impl Timeline {
    /// Advances to the next request, at `now_ns` if the trace has times. Times must not go back.
    pub fn advance(&mut self, now_ns: Option<u64>) {
        let (begin, has_times) = *self.begin.get_or_insert((now_ns.unwrap_or(0), now_ns.is_some()));
        if has_times {
            self.passed = now_ns.map_or(self.passed, |now_ns| now_ns.saturating_sub(begin)).max(self.passed);
        } else if !self.slices.is_empty() {
            self.passed += 1;
        }
        while self.passed >> self.shift >= SLICES_MAX {
            self.shift += 1;
            let merged = self.slices.chunks(2).map(|pair| {
                let mut merged = pair[0];
                pair[1..].iter().for_each(|other| merged.merge(other));
                merged
            });
            self.slices = merged.collect();
            self.volumes.iter_mut().for_each(|(_, regions)| regions.merge_slices());
            self.others.merge_slices();
        }
        if self.slices.len() <= self.slice() {
            self.slices.resize(self.slice() + 1, Counts::default());
        }
        let slice = self.slice();
        self.slices[slice].requests += 1;
    }

    fn slice(&self) -> usize {
        (self.passed >> self.shift) as usize
    }

    /// Time of the present request since the first one.
    pub fn now(&self) -> u64 {
        self.passed
    }

    /// Counts the bytes of a request that transfers data.
    pub fn request(&mut self, access: Access, request: &Request) {
        let slice = self.slice();
        if let Some(counts) = self.slices.get_mut(slice) {
            let bytes = &mut counts.bytes[access as usize];
            *bytes = bytes.saturating_add(request.len_bytes);
        }
        let known = self.volumes.iter().position(|(volume, _)| *volume == request.volume);
        let regions = match known {
            Some(at) => &mut self.volumes[at].1,
            None if self.volumes.len() < VOLUMES_MAPPED => {
                self.volumes.push((request.volume, Regions::default()));
                let last = self.volumes.len() - 1;
                &mut self.volumes[last].1
            }
            None => &mut self.others,
        };
        regions.note(slice, access as usize, request.offset_bytes, request.end_bytes());
    }

    /// Counts an access of a followed block that stands for `weight`; `seen` is its state before.
    pub fn touch(&mut self, access: Access, seen: &Seen, weight: u64) {
        let (now, slice) = (self.passed, self.slice());
        let Some(counts) = self.slices.get_mut(slice) else { return };
        let before = match access {
            Access::Read => seen.read_at,
            Access::Write => seen.written_at,
        };
        counts.blocks[access as usize].note(now, before, weight);
        counts.all.note(now, seen.accessed_at(), weight);
        if seen.accessed_at().is_none() {
            let new = &mut counts.new[access as usize];
            *new = new.saturating_add(weight);
        }
    }

    /// The result, from all blocks or from a sample.
    pub fn finish(self, is_sample: bool, names: &Names) -> OverTime {
        let Some((_, has_times)) = self.begin else {
            return OverTime { volumes: Some(Vec::new()), ..OverTime::default() };
        };
        let shift = self.shift;
        let touched = |moved_bytes: u64, firsts: &Firsts, new: u64| {
            let blocks = Some(firsts.distinct(shift)).filter(|blocks| !is_sample || *blocks > 0 || moved_bytes == 0);
            let new_blocks = blocks.map(|_| new);
            let bytes = |blocks: Option<u64>| blocks.map(|blocks| blocks.saturating_mul(BLOCK_BYTES));
            Touched { moved_bytes, blocks, block_bytes: bytes(blocks), new_blocks, new_block_bytes: bytes(new_blocks) }
        };
        let slices = self.slices.iter().enumerate().map(|(at, counts)| {
            let [read, written] = counts.bytes;
            Slice {
                begin: (at as u64) << shift,
                requests: counts.requests,
                all: touched(read.saturating_add(written), &counts.all, counts.all.never()),
                reads: touched(read, &counts.blocks[0], counts.new[0]),
                writes: touched(written, &counts.blocks[1], counts.new[1]),
            }
        });
        let name = |volume: u32| Some(names.volumes.name(volume).to_owned());
        let maps = self.volumes.iter().filter_map(|(volume, regions)| regions.finish(name(*volume)));
        let mut volumes: Vec<VolumeMap> = maps.collect();
        volumes.sort_by_key(|map| std::cmp::Reverse(map.moved_bytes()));
        volumes.extend(self.others.finish(None));
        OverTime {
            slice_ns: has_times.then_some(1 << shift),
            slice_requests: (!has_times).then_some(1 << shift),
            slices: slices.collect(),
            volumes: Some(volumes),
        }
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests;
