//! Selects the part of a result that a promise is about.

use super::measure::Op;
use crate::run::{Direction, IntervalRow, JobResult, KindResult, Latencies};
use crate::stats::clustering::Blocks;
use forebay_block::OpKind;
use hdrhistogram::Histogram;

impl Op {
    /// Whether figures of these operations count I/Os of this kind.
    #[must_use]
    pub fn takes(self, kind: OpKind) -> bool {
        match kind {
            OpKind::Read => matches!(self, Self::All | Self::Read),
            OpKind::Write | OpKind::WriteFua => matches!(self, Self::All | Self::Write),
            OpKind::Trim | OpKind::Flush | OpKind::Fsync => false,
        }
    }
}

fn kinds(result: &JobResult, op: Op) -> impl Iterator<Item = &KindResult> {
    result.kinds.iter().filter(move |found| op.takes(found.kind))
}

/// Total latencies of these operations.
pub(super) fn latencies(result: &JobResult, op: Op) -> Latencies {
    let mut all = Latencies::new();
    kinds(result, op).for_each(|found| all.merge(&found.total));
    all
}

/// Number of I/Os to which rates refer.
pub(super) fn rated_ios(result: &JobResult, op: Op) -> u64 {
    kinds(result, op).map(KindResult::rated_ios).sum()
}

/// Bytes of the I/Os to which rates refer.
pub(super) fn rated_bytes(result: &JobResult, op: Op) -> u64 {
    kinds(result, op).map(KindResult::rated_bytes).sum()
}

/// Latencies by blocks of time; `None` if the blocks of the kinds do not cover the same times.
pub(super) fn blocks(result: &JobResult, op: Op) -> Option<Blocks> {
    let parts: Vec<&Blocks> = kinds(result, op).map(|found| &found.blocks).collect();
    let (first, others) = parts.split_first()?;
    if others.is_empty() {
        return Some((*first).clone());
    }
    let alike = |other: &&Blocks| other.len() == first.len() && other.pushes_per_block() == first.pushes_per_block();
    if !others.iter().all(alike) {
        return None;
    }
    // Room for one block more than there are, so that none are merged.
    let mut together = Blocks::new(first.len() + 2);
    let mut histogram: Histogram<u64> = Latencies::new().histogram;
    let mut sides: Vec<_> = parts.iter().map(|blocks| blocks.iter()).collect();
    for _ in 0..first.len() {
        histogram.reset();
        let mut sum_ns = 0;
        for block in sides.iter_mut().filter_map(Iterator::next) {
            sum_ns += block.sum_ns();
            block.cells().iter().for_each(|cell| histogram.saturating_record_n(cell.value, cell.count));
        }
        together.push(&histogram, sum_ns);
    }
    Some(together)
}

/// I/Os, or bytes, of each complete interval in order.
pub(super) fn counts(result: &JobResult, op: Op, bytes: bool) -> Vec<u64> {
    result.counts(|row| count_of(row, op, bytes))
}

fn count_of(row: &IntervalRow, op: Op, bytes: bool) -> u64 {
    let of = |side: Direction| if bytes { side.bytes } else { side.ios };
    match op {
        Op::All => of(row.read) + of(row.write),
        Op::Read => of(row.read),
        Op::Write => of(row.write),
    }
}
