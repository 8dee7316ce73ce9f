//! What members of a capacity tier with parity do wrong, as many of them as redundancy covers, and what goes beyond that.

use super::member::{Beyond, Member, MemberRound};
use super::mirrored::{faults, idle};
use super::pick::pick;
use super::round::{End, Round};
use super::shape::Shape;
use super::step::Step;
use crate::fault::FaultKind;
use forebay_block::Random;

/// What a member says of itself that it failed.
pub(super) const SHOWN: [FaultKind; 10] = [
    FaultKind::ReadError,
    FaultKind::WriteError,
    FaultKind::WriteError,
    FaultKind::FlushError,
    FaultKind::TrimError,
    FaultKind::Slow,
    FaultKind::Hang,
    FaultKind::Vanish,
    FaultKind::Vanish,
    FaultKind::DeadSector,
];

fn member(random: &mut Random, is_liar: bool, steps: u64) -> MemberRound {
    let kinds: &[FaultKind] = if is_liar { &FaultKind::ALL } else { &SHOWN };
    let opening = if random.chance(1, 6) { faults(random, kinds, 12) } else { Vec::new() };
    let later = if random.chance(1, 2) { faults(random, kinds, steps) } else { Vec::new() };
    let is = pick(random, &[Member::Present, Member::Present, Member::Present, Member::Absent, Member::Replaced]);
    let is_damaged = random.chance(1, 4);
    let mut wounds = || if is_damaged { random.index(4) } else { 0 };
    let wounds = [wounds(), wounds()];
    MemberRound {
        is,
        faults: [opening, later],
        wounds: if is_liar { wounds } else { [0, wounds[1]] },
        rots: is_liar && random.chance(1, 6),
        dies: random.chance(1, 6),
        is_another: random.chance(1, 2),
    }
}

fn beyond(random: &mut Random, steps: u64) -> Option<Beyond> {
    match random.below(12) {
        0 | 1 => Some(Beyond::TooFew),
        2 => Some(Beyond::Rows(1 + random.index(4))),
        3 => Some(Beyond::Fails(faults(random, &SHOWN, steps))),
        _ => None,
    }
}

/// A round in which all devices are well but for some members of the capacity tier.
pub(super) fn round(mut round: Round, random: &mut Random, shape: &Shape) -> Round {
    let Some(parity) = shape.parity else { return round };
    let steps = round.steps.len() as u64;
    let members: Vec<_> = (0..parity.culprits()).map(|slot| member(random, slot < parity.liars, steps)).collect();
    idle(&mut round, random);
    for _ in 0..random.below(3) {
        let at = random.index(round.steps.len() + 1);
        round.steps.insert(at, Step::Exchange { slot: random.below(3) as u8 });
    }
    let end = if random.chance(1, 3) { End::Rest } else { round.end };
    let beyond = beyond(random, steps);
    Round {
        faults: Vec::new(),
        opening_faults: Vec::new(),
        wounds: Vec::new(),
        rots: false,
        end,
        members,
        beyond,
        ..round
    }
}
