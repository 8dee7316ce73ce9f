//! Lives that aim at one window each: small geometry, so that it opens often, and requests of one kind held back, so that
//! it stays open. Each goes after what 2 million lives of a little of everything had not met.

mod faults;
mod geometry;
mod holds;
mod requests;
mod sequences;
mod steps;

use super::kind::Kind;
use super::pick::pick;
use super::round::{End, Round, Wound};
use super::shape::Shape;
use super::step::Step;
use crate::device::AfterDiscard;
use crate::fault::FaultKind;
use faults::faults;
use forebay_block::Random;
use holds::holds;

pub(super) use geometry::shape;
pub(super) use steps::ending;

/// Whether devices keep their power as a round ends. Drawn for the one kind that is about it: the draws of other kinds stay
/// as they were.
pub(super) fn stays_on(shape: &Shape, random: &mut Random) -> bool {
    shape.kind == Kind::Forgetting && random.chance(1, 4)
}

/// A round of such a life.
pub(super) fn round(random: &mut Random, shape: &Shape, at: u64) -> Round {
    let kind = shape.kind;
    let devices = 1 + shape.capacity_bytes.len();
    let connections = pick(random, &[1, 2, 4]);
    let count = match kind {
        Kind::Reusing => 30 + random.below(30),
        Kind::Rotting | Kind::Misreading => 40 + random.below(80),
        _ => 20 + random.below(50),
    };
    let timings = [(1000, 1000), (1000, 20_000), (5_000, 200_000)];
    let is_faulty = at > 0 && random.chance(3, 4);
    let mut steps: Vec<Step> = (0..count).flat_map(|_| steps::steps(shape, at, connections, random)).collect();
    steps.extend(ending(shape, random));
    let end = match random.below(12) {
        0 => End::Stop,
        1 => End::PowerCutInStop { effects: random.below(40) as u32 },
        2 | 3 => End::Rest,
        _ => End::PowerCut { effects: random.below(30) as u32 },
    };
    let kinds = &[FaultKind::DeadSector, FaultKind::Rot][..];
    let wounds = match kind {
        Kind::Rotting => (0..1 + random.below(2))
            .map(|_| Wound { device: 1, kind: pick(random, kinds), count: pick(random, &[1, 3, 8]) })
            .collect(),
        _ => Vec::new(),
    };
    Round {
        seed: random.next_u64(),
        recovery_cuts: (0..pick(random, &[0, 0, 0, 1])).map(|_| random.below(60) as u32).collect(),
        // A round through the tier takes less time than a page that is held.
        timing_ns: [pick(random, if kind == Kind::Reusing { &timings[..2] } else { &timings }), pick(random, &timings)],
        keep: if kind == Kind::Overtaking { pick(random, &[0, 0, 64]) } else { pick(random, &[0, 0, 128, 256]) },
        after_discard: pick(random, &[AfterDiscard::Zeros, AfterDiscard::Other, AfterDiscard::Old]),
        // Also a misread of what recovery verifies.
        opening_faults: if kind == Kind::Misreading && at > 0 { faults(kind, random, devices) } else { Vec::new() },
        faults: if is_faulty { faults(kind, random, devices) } else { Vec::new() },
        depth: 1 + random.index(12),
        steps,
        end,
        holds: holds(kind, random, devices),
        connections: connections as u8,
        wounds,
        rots: false,
        verify: random.chance(1, 4),
        members: Vec::new(),
        beyond: None,
        stays_on: stays_on(shape, random),
    }
}
