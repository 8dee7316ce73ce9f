//! What a trace tells, in one pass: the table "workload through the PRISM", miss ratios, depths, sizes, bursts, lives.
//!
//! Exact as long as all blocks fit the memory limit; beyond, of a sample of neighbouring blocks, and the report says so. What is
//! counted by requests (bytes, sizes, depths, times) is exact always.

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

/// Largest request that is believed, in bytes; discards may be larger. Block layers split at 32 MiB and less. Each block of a
/// request is looked at, so that a line of a text must not stand for too many.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
/// Requests whose blocks are fetched at once.
const REQUESTS_FETCHED: usize = 64;
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
    /// Processors for this trace: where it has several, what is followed of blocks is on a thread of its own. Results are the same.
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
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[cfg(test)]
// Here a panic is the finding.
#[allow(clippy::unwrap_used)]
mod tests;
