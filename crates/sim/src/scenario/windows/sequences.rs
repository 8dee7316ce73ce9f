//! Sequences of steps that open a window, one after the other as they have to come.

use super::requests::{BULK, block, hold_now, write};
use crate::fault::{Fault, FaultKind};
use crate::order::{Region, What};
use crate::scenario::pick::pick;
use crate::scenario::shape::Shape;
use crate::scenario::step::{LEAF_BLOCKS, Step};
use forebay_block::Random;

/// Bands are filled and flushed; then all that lives in them is overwritten in one burst, first what is staged and ends
/// late, and then what goes to bands again: a band is emptied by a batch older than others that gave up its blocks.
pub(super) fn empty_bands(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let count = shape.blocks.min(9);
    let first = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks - count + 1);
    let staged = 1 + random.below(count.min(4));
    let hold_ns = pick(random, &[500_000, 2_000_000]);
    let mut steps = vec![write(first, count, false, BULK), Step::Settle, Step::Flush, Step::Settle];
    let region = pick(random, &[Region::Data, Region::Data, Region::Journal]);
    steps.push(hold_now(0, What::Write, region, staged as u32, hold_ns));
    let mut left: Vec<u64> = (first..first + count).collect();
    for at in 0..count {
        let block = left.swap_remove(random.index(left.len()));
        if at == staged {
            // What is late has a batch of its own.
            steps.push(Step::Idle(1000));
        }
        steps.push(write(block, 1, false, if at < staged { None } else { BULK }));
    }
    steps.push(Step::Idle(hold_ns + random.below(hold_ns)));
    steps
}

/// A few blocks are written again and again while a job that has taken them waits for a map page, and for the capacity
/// tier: after a round through the tier one of them is back in the slot that the job copies from.
pub(super) fn lap(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let page_ns = pick(random, &[30_000, 100_000]);
    let mut steps =
        vec![hold_now(0, What::Read, Region::Page, 4, page_ns), hold_now(1, What::Write, Region::Data, 4, 4_000_000)];
    for _ in 0..random.below(shape.leaves) {
        steps.push(write(random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks), 1, false, None));
    }
    // The end comes anywhere in a round through the tier.
    for _ in 0..40 + random.below(80) {
        steps.push(write(random.below(shape.blocks), 1, random.chance(1, 16), None));
    }
    steps.push(Step::Idle(8_000_000));
    steps
}

/// Blocks of one leaf are staged and destaged slowly, while other leaves are touched until that one is no longer in
/// memory; then it cannot be read.
pub(super) fn lose_leaf(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let leaf = random.below(shape.leaves);
    let mut steps = vec![
        hold_now(1, What::Write, Region::Data, 1 + random.below(8) as u32, 2_000_000),
        write(leaf * LEAF_BLOCKS, shape.blocks, random.chance(1, 2), None),
        Step::Checkpoint,
    ];
    for _ in 0..3 + random.below(12) {
        let other = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks);
        steps.push(Step::Read { sector: other * 8, sectors: 8 });
    }
    steps.push(Step::Settle);
    steps.push(Step::Fail(Fault {
        kind: FaultKind::ReadError,
        device: 0,
        region: Some(Region::Page),
        skip: random.below(2) as u32,
        count: 1 + random.below(3) as u32,
    }));
    steps.push(hold_now(0, What::Write, Region::Root, 4, 20_000_000));
    steps.push(Step::Idle(pick(random, &[1_000_000, 4_000_000])));
    steps
}

/// A flush of hosts, of a job or of a checkpoint fails, with requests in flight beside it; some of what it covered may
/// fail to be written again. After a while flushes are good again, and the power may fail at any time from then on.
pub(super) fn fail_flush(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let devices = 1 + shape.capacity_bytes.len();
    let mut steps = Vec::new();
    let writes = |steps: &mut Vec<Step>, random: &mut Random| {
        for _ in 0..random.below(6) {
            let (first, left) = block(shape, random);
            let class = pick(random, &[BULK, None, None]);
            steps.push(write(first, (1 + random.below(4)).min(left), random.chance(1, 8), class));
        }
    };
    writes(&mut steps, random);
    if random.chance(1, 2) {
        steps.push(Step::Settle);
    }
    for _ in 0..1 + random.below(2) {
        let (skip, count) = (random.below(3) as u32 / 2, pick(random, &[1, 1, 2, 3]));
        let fault = Fault { kind: FaultKind::FlushError, device: random.index(devices), region: None, skip, count };
        steps.push(Step::Fail(fault));
    }
    if random.chance(1, 4) {
        // A durable write is what hears of it instead of the last of these flushes: a host's, or that of a root header.
        let device = random.index(devices);
        let is_header = random.chance(1, 2);
        let (device, region) = match device {
            _ if is_header => (0, Region::Header),
            0 => (0, Region::Journal),
            _ => (device, Region::Data),
        };
        let (kind, skip) = (FaultKind::WriteError, random.below(2) as u32);
        steps.pop();
        steps.push(Step::Fail(Fault { kind, device, region: Some(region), skip, count: 1 }));
        let (first, _) = block(shape, random);
        steps.push(if is_header { Step::Checkpoint } else { write(first, 1, true, pick(random, &[BULK, None])) });
    }
    steps.push(pick(random, &[Step::Flush, Step::Flush, Step::Checkpoint]));
    writes(&mut steps, random);
    if random.chance(1, 6) {
        let device = random.index(devices);
        let region = Some(pick(random, &[Region::Data, Region::Journal, Region::Page]));
        steps.push(Step::Idle(90_000_000));
        steps.push(Step::Fail(Fault { kind: FaultKind::WriteError, device, region, skip: 0, count: 1 }));
    }
    steps.push(Step::Idle(pick(random, &[50_000, 101_000_000, 400_000_000, 2_000_000_000])));
    writes(&mut steps, random);
    steps.push(Step::Flush);
    steps
}

/// What a collection reads or writes takes long.
pub(super) fn collect_slowly(random: &mut Random) -> Vec<Step> {
    let what = pick(random, &[What::Read, What::Write]);
    vec![hold_now(1, what, Region::Data, 1 + random.below(4) as u32, pick(random, &[500_000, 2_000_000]))]
}
