//! Analysis of a trace in one pass: the table "workload through the PRISM", miss ratios, depths, sizes, bursts, lifetimes.
//!
//! Figures of blocks are exact as long as all blocks fit into the memory limit; beyond that, they come from a sample of the blocks, and the
//! report says so. Figures counted by request (bytes, sizes, depths, times) are always exact.

mod blocks;
mod bursts;
mod classes;
mod depth;
mod distances;
mod fetching;
mod followed;
mod groups;
mod histogram;
mod hot;
mod knee;
mod lengths;
mod over_time;
mod regions;
mod report;
mod requests;
mod rows;
mod sampling;
mod shapes;
mod sizing;
mod slots;
mod stack;
mod stage;
mod stages;
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
pub use stages::Analysis;
pub use statistics::RowStatistics;
pub use writes::Writes;

use crate::{Op, Request};
use blocks::VOLUME_BLOCKS;
use forebay_prism::Rule;

/// Largest request that is accepted, in bytes; discards may be larger. Block layers split at 32 MiB and less. Each block of a request is
/// handled, so a line of text must not stand for too many blocks.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Number of requests whose blocks are prefetched together.
const REQUESTS_FETCHED: usize = 64;
/// Most volumes that can be distinguished.
const VOLUMES_MAX: u32 = 1 << 20;

/// Whether a request frees or fills a range without transferring its bytes.
fn is_range(request: &Request) -> bool {
    matches!(request.op, Op::Discard | Op::WriteZeroes)
}

/// The first block that a request touches, and the number of blocks; `None` if the request is not accepted.
fn touched(request: &Request) -> Option<(u64, u64)> {
    let first = request.offset_bytes / BLOCK_BYTES;
    let end = request.end_bytes().div_ceil(BLOCK_BYTES);
    let is_believed = request.volume < VOLUMES_MAX
        && end <= VOLUME_BLOCKS
        && (is_range(request) || request.len_bytes <= REQUEST_BYTES_MAX);
    is_believed.then(|| (first, if request.len_bytes == 0 { 0 } else { end - first }))
}

/// Volume, first block and number of blocks of a request that transfers data, and whether it writes.
fn moved(request: &Request) -> Option<(u32, u64, u64, bool)> {
    let moves = matches!(request.op, Op::Read | Op::Access | Op::Write);
    let (first, blocks) = touched(request).filter(|(_, blocks)| moves && *blocks > 0)?;
    Some((request.volume, first, blocks, request.op == Op::Write))
}

/// Options of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// Memory for the followed blocks in bytes.
    pub memory_bytes: u64,
    /// Follow one block in 2^n from the beginning.
    pub sample_halvings: u32,
    /// What rows stand for.
    pub by: By,
    /// Classes by rules, the first that holds.
    pub rules: Vec<(String, Rule)>,
    /// Rules for classes, as pairs of class and rule; the first match counts.
    pub bypassed: Vec<String>,
    /// Processors for this trace. With several, blocks are followed by a thread of their own; the results are the same.
    pub processors: usize,
}

impl Default for Options {
    fn default() -> Self {
        let (rules, bypassed) = (Vec::new(), Vec::new());
        Self { memory_bytes: 1 << 30, sample_halvings: 0, by: By::Class, rules, bypassed, processors: 1 }
    }
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of requests.
    pub requests: u64,
    /// Bytes of these requests.
    pub bytes: u64,
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests;
