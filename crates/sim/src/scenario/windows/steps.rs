//! What happens in a round: mostly single requests to the few blocks that are hot, and now and then a sequence.

use super::requests::{BULK, PINNED, block};
use super::sequences::{collect_slowly, empty_bands, fail_flush, lap, lose_leaf};
use crate::scenario::kind::Kind;
use crate::scenario::pick::pick;
use crate::scenario::shape::Shape;
use crate::scenario::step::{LEAF_BLOCKS, Step};
use forebay_block::Random;

/// What happens one after the other, at one time of a round.
pub(super) fn steps(shape: &Shape, at: u64, connections: u64, random: &mut Random) -> Vec<Step> {
    match shape.kind {
        Kind::Overtaking if random.chance(1, 8) => empty_bands(shape, random),
        Kind::Unmapping if random.chance(1, 8) => lose_leaf(shape, random),
        Kind::Reusing if random.chance(1, 8) => lap(shape, random),
        Kind::Forgetting if at > 0 && random.chance(1, 8) => fail_flush(shape, random),
        Kind::Rotting if at > 0 && random.chance(1, 12) => collect_slowly(random),
        Kind::Rotting if at > 0 && random.chance(1, 12) => vec![Step::Mend { nth: random.below(64) as u32 }],
        _ => vec![step(shape, at, connections, random)],
    }
}

fn step(shape: &Shape, at: u64, connections: u64, random: &mut Random) -> Step {
    let kind = shape.kind;
    let (first, left) = block(shape, random);
    let sector = first * 8;
    let blocks = (1 + random.below(4)).min(left);
    let is_second = kind == Kind::Growing && random.chance(1, 2);
    if is_second {
        return match random.below(6) {
            0 => Step::DiskNow { blocks: pick(random, &[8, 50, 420, 900]) },
            1 => Step::Flush,
            _ => Step::WriteNow {
                block: random.below(8) + pick(random, &[0, 0, 40, 400]),
                blocks: 1 + random.below(2),
                fua: random.chance(1, 2),
            },
        };
    }
    let class = match kind {
        Kind::Overtaking | Kind::Many => pick(random, &[BULK, BULK, None]),
        Kind::Reusing | Kind::Unmapping => None,
        Kind::Rotting | Kind::Misreading => pick(random, &[BULK, BULK, None]),
        _ => pick(random, &[BULK, None, None, PINNED]),
    };
    // The first round fills what later ones wear out.
    let fua_in = if at == 0 { 12 } else { pick(random, &[2, 4, 12]) };
    let fua = random.chance(1, fua_in);
    match random.below(40) {
        0 => Step::Checkpoint,
        1 | 2 => Step::Flush,
        3 => Step::Idle(pick(random, &[100_000, 2_000_000, 1_500_000_000, 11_000_000_000])),
        4 => Step::Settle,
        5 | 6 => Step::Read { sector, sectors: blocks * 8 },
        7 => Step::Clear { sector, sectors: blocks * 8, fua, is_discard: random.chance(1, 2) },
        // A part of a block: read, changed, written.
        8 => Step::Write { sector: sector + random.below(8), sectors: 1, fua, class, zeros: false },
        9 => Step::Status { sector: 0, sectors: shape.disk_bytes / 512 },
        10 if connections > 1 => Step::HangUp { connection: random.below(connections) as u8 },
        11..=20 if kind == Kind::Talking => {
            let first = random.below(shape.leaves) * LEAF_BLOCKS * 8;
            let sectors = (LEAF_BLOCKS * 8 * (1 + random.below(40))).min(shape.disk_bytes / 512 - first);
            match random.below(3) {
                0 => Step::Status { sector: first, sectors },
                // Most of a leaf: ranges that are uniform over leaves come of many of these.
                1 if random.chance(1, 4) => {
                    Step::Clear { sector: first, sectors: sectors.min(LEAF_BLOCKS * 8), fua, is_discard: false }
                }
                _ => Step::Flush,
            }
        }
        _ => Step::Write { sector, sectors: blocks * 8, fua, class, zeros: false },
    }
}

/// What a round ends with: the power fails soon after it.
pub(in crate::scenario) fn ending(shape: &Shape, random: &mut Random) -> Vec<Step> {
    match shape.kind {
        Kind::Overtaking => empty_bands(shape, random),
        Kind::Unmapping => lose_leaf(shape, random),
        Kind::Reusing => lap(shape, random),
        Kind::Forgetting => fail_flush(shape, random),
        _ => Vec::new(),
    }
}
