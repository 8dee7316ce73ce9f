//! Disks that come, go, and change their size, step by step as a server does it: in short rounds, so that the power fails between any two of these steps.

use super::pick::pick;
use super::round::{End, Round};
use super::shape::Shape;
use super::step::{ADMINISTERED_RANGES, Step};
use crate::base::Condition;
use crate::fault::{Fault, FaultKind};
use crate::order::Region;
use forebay_block::Random;

/// Steps of a round, at most, that are not about this.
const STEPS_MAX: usize = 40;
/// Sizes of the administered disk in blocks: within a leaf of the map, and beyond it.
const SIZES: [u64; 6] = [8, 12, 44, 60, 420, 2000];

/// A range of blocks that are written.
fn blocks(random: &mut Random) -> (u64, u64) {
    let within = pick(random, &[0, 0, 0, 1, 2]);
    let range = &ADMINISTERED_RANGES[within];
    let first = range.start + random.below(range.end - range.start);
    (first, (1 + random.below(6)).min(range.end - first))
}

fn put(random: &mut Random) -> Step {
    let (block, blocks) = blocks(random);
    Step::Put { block, blocks, fua: random.chance(1, 4), class: pick(random, &[None, None, Some(1), Some(5)]) }
}

fn get(random: &mut Random) -> Step {
    let (block, blocks) = blocks(random);
    Step::Get { block, blocks }
}

/// A new disk, of which some lie over a base.
fn add(random: &mut Random) -> Step {
    let blocks = pick(random, &SIZES);
    Step::Add { blocks, over: if random.chance(1, 3) { pick(random, &[4, 12, 24]).min(blocks) } else { 0 } }
}

/// How a base of so many blocks is: mostly not well.
fn condition(random: &mut Random, blocks: u64) -> Condition {
    let block = random.below(blocks);
    match random.below(8) {
        0..=3 => Condition::Fails { block, blocks: pick(random, &[1, 1, 3, 1000]) },
        4 => Condition::IsSlow,
        5 => Condition::Hangs,
        _ => Condition::Well,
    }
}

/// A base is in a bad condition, or well again.
fn base_is(random: &mut Random, shape: &Shape) -> Step {
    let is_administered = random.chance(1, 2);
    let blocks = if is_administered { 24 } else { shape.base_blocks().unwrap_or(1) };
    Step::BaseIs { is_administered, condition: condition(random, blocks) }
}

fn change(random: &mut Random) -> Step {
    match random.below(9) {
        0..=2 => add(random),
        8 => Step::Detach,
        3..=5 => Step::Resize { blocks: pick(random, &SIZES), fua: random.chance(1, 2), back: 0 },
        _ => Step::Remove,
    }
}

/// Time in which a change becomes durable, or does not.
fn pause(random: &mut Random) -> Step {
    Step::Idle(pick(random, &[20_000, 200_000, 2_000_000, 20_000_000, 200_000_000]))
}

/// A base is to be detached, and what was copied of it is lost before a root says so.
fn call_off(random: &mut Random) -> Vec<Step> {
    let over = pick(random, &[4, 12, 24]);
    let mut steps = vec![Step::Remove, Step::Add { blocks: 44, over }, Step::Idle(200_000_000)];
    steps.extend((0..random.below(3)).map(|_| put(random)));
    steps.push(Step::CopyAll);
    let (device, skip) = (pick(random, &[0, 1, 1]), random.below(2) as u32);
    let fault = Fault { kind: FaultKind::FlushError, device, region: None, skip, count: pick(random, &[1, 1, 2]) };
    steps.push(Step::Fail(fault));
    if random.chance(2, 3) {
        // What the flush covered cannot be read to be written again.
        let count = pick(random, &[1, 2, 6]);
        let region = Some(pick(random, &[Region::Data, Region::Data, Region::Page]));
        steps.push(Step::Fail(Fault { kind: FaultKind::ReadError, device, region, skip: 0, count }));
    }
    steps.extend([Step::Detach, Step::Idle(pick(random, &[2_000_000, 200_000_000, 2_000_000_000, 12_000_000_000]))]);
    steps.extend((0..random.below(3)).map(|_| Step::Get { block: random.below(over), blocks: 1 }));
    steps.extend([Step::CopyAll, Step::Detach]);
    steps
}

/// What has to come in this order to mean anything.
fn sequence(random: &mut Random, shape: &Shape) -> Vec<Step> {
    let mut steps = Vec::new();
    match random.below(8) {
        // A disk of the name of one that is being removed.
        0 => {
            steps.push(add(random));
            steps.push(Step::Idle(200_000_000));
            steps.extend((0..1 + random.below(6)).map(|_| put(random)));
            steps.extend(random.chance(1, 2).then_some(Step::Flush));
            steps.extend([Step::Remove, pause(random)]);
            steps.push(add(random));
            steps.push(pause(random));
            steps.extend((0..random.below(4)).map(|_| put(random)));
            steps.extend((0..random.below(4)).map(|_| get(random)));
        }
        // An end that comes back to where it was.
        1 => {
            steps.extend((0..1 + random.below(6)).map(|_| put(random)));
            steps.extend(random.chance(1, 2).then_some(Step::Flush));
            let back = if random.chance(1, 3) { pick(random, &SIZES[2..]) } else { 0 };
            steps.push(Step::Resize { blocks: pick(random, &SIZES[..3]), fua: random.chance(1, 2), back });
            steps.push(pause(random));
            steps.push(Step::Resize { blocks: pick(random, &SIZES[2..]), fua: false, back: 0 });
            steps.push(pause(random));
            steps.extend((0..random.below(3)).map(|_| put(random)));
            steps.extend((0..random.below(4)).map(|_| get(random)));
        }
        // A base that is read by hosts and copied, and is not well.
        2 | 3 => {
            if random.chance(2, 3) {
                let over = pick(random, &[4, 12, 24]);
                steps.extend([Step::Remove, Step::Add { blocks: 44, over }]);
                // All of it is copied at once as soon as it is served.
                steps.push(Step::BaseIs { is_administered: true, condition: condition(random, over) });
                steps.push(Step::Idle(pick(random, &[2_000_000, 200_000_000])));
                steps.extend((0..random.below(3)).map(|_| Step::Get { block: random.below(over), blocks: 1 }));
            }
            steps.push(Step::Idle(pick(random, &[200_000_000, 2_000_000_000, 12_000_000_000])));
            for _ in 0..1 + random.below(5) {
                let block = random.below(shape.blocks);
                steps.push(match random.below(6) {
                    0 => put(random),
                    1 | 2 => get(random),
                    3 => Step::Read { sector: block * 8, sectors: 8 },
                    // A part of a block: what its base has is read.
                    4 => Step::Write {
                        sector: block * 8 + random.below(8),
                        sectors: 1,
                        fua: false,
                        class: None,
                        zeros: false,
                    },
                    _ => base_is(random, shape),
                });
            }
            steps.extend(random.chance(1, 2).then_some(Step::CopyAll));
            steps.push(pause(random));
            steps.push(Step::Detach);
        }
        // Policies that change between writes that are not flushed.
        4 => {
            let write = |random: &mut Random| {
                let (block, blocks) = (random.below(shape.blocks), 1 + random.below(12));
                Step::Write {
                    sector: block * 8,
                    sectors: blocks.min(shape.blocks - block) * 8,
                    fua: random.chance(1, 8),
                    class: pick(random, &[Some(5), Some(5), Some(1), None]),
                    zeros: random.chance(1, 12),
                }
            };
            for _ in 0..1 + random.below(3) {
                steps.extend((0..random.below(4)).map(|_| write(random)));
                steps.push(match random.below(3) {
                    0 => Step::Reload { class: random.below(4) as u8, policy: random.below(24) as u8 },
                    _ => Step::WriteThrough(random.chance(2, 3)),
                });
                steps.extend((0..1 + random.below(4)).map(|_| write(random)));
                steps.push(pick(random, &[Step::Settle, Step::Settle, Step::Checkpoint, Step::Flush]));
            }
        }
        5 => steps = call_off(random),
        6 => {
            steps.extend((0..1 + random.below(4)).map(|_| put(random)));
            steps.push(change(random));
            steps.push(pause(random));
        }
        _ => {
            let (block, blocks) = blocks(random);
            steps.push(Step::Drop { block, blocks, fua: random.chance(1, 2) });
            steps.push(get(random));
        }
    }
    steps
}

/// A round in which the administered disk is changed.
pub(super) fn round(mut round: Round, random: &mut Random, shape: &Shape) -> Round {
    let is_short = random.chance(2, 3);
    round.steps.truncate(if is_short { 8 } else { STEPS_MAX });
    for _ in 0..1 + random.below(3) {
        let mut at = random.index(round.steps.len() + 1);
        for step in sequence(random, shape) {
            round.steps.insert(at, step);
            at += 1 + random.index(2).min(round.steps.len() - at - 1);
        }
    }
    if let Some(blocks) = shape.base_blocks()
        && random.chance(1, 2)
    {
        round.steps.insert(0, Step::BaseIs { is_administered: false, condition: condition(random, blocks) });
        let at = 1 + random.index(round.steps.len());
        round.steps.insert(at, Step::CopyAll);
    }
    if random.chance(1, 2) {
        round.steps.push(change(random));
    }
    let end = match random.below(8) {
        0 => End::Rest,
        1 => round.end,
        _ => End::PowerCut { effects: random.below(90) as u32 },
    };
    Round { end, rots: false, wounds: Vec::new(), ..round }
}
