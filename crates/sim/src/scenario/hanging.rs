//! Members that answer nothing for longer than others wait for them, beside others that fail, are missing or are rebuilt, and power that fails as they are
//! left behind.

use super::member::{Member, MemberRound};
use super::mirrored::{faults, idle};
use super::parity::SHOWN;
use super::pick::pick;
use super::round::{End, Round};
use super::shape::Shape;
use super::step::Step;
use crate::fault::{Fault, FaultKind};
use forebay_block::Random;

/// Steps of a round, at most, that are not about this.
const STEPS_MAX: usize = 30;
const SECOND_NS: u64 = 1_000_000_000;

fn member(random: &mut Random, hangs: bool, steps: u64) -> MemberRound {
    let is = pick(random, &[Member::Present, Member::Present, Member::Present, Member::Absent, Member::Replaced]);
    let later = match hangs {
        // Half of these hang for 30 s, which others wait for.
        true => vec![Fault {
            kind: FaultKind::Hang,
            device: 0,
            region: None,
            skip: random.below(steps) as u32,
            count: pick(random, &[1, 2, 4, 6]),
        }],
        false if random.chance(1, 2) => faults(random, &SHOWN, steps),
        false => Vec::new(),
    };
    let is = if hangs && random.chance(2, 3) { Member::Present } else { is };
    MemberRound { is, faults: [Vec::new(), later], is_another: random.chance(1, 2), ..MemberRound::default() }
}

/// A round in which devices are well but for as many members as the others hold everything of, and these hang.
pub(super) fn round(mut round: Round, random: &mut Random, shape: &Shape) -> Round {
    round.steps.truncate(STEPS_MAX);
    let steps = round.steps.len() as u64;
    let slots = usize::from(shape.members > 1) + shape.parity.map_or(0, |parity| parity.culprits());
    let hangs = random.index(slots);
    let mut members = Vec::new();
    for slot in 0..slots {
        let also_hangs = random.chance(1, 4);
        members.push(member(random, slot == hangs || also_hangs, 2 * steps + 1));
    }
    idle(&mut round, random);
    for _ in 0..random.below(3) {
        let at = random.index(round.steps.len() + 1);
        round.steps.insert(at, Step::Exchange { slot: random.below(4) as u8 });
    }
    let end = match random.below(6) {
        0 => End::Rest,
        1 => round.end,
        _ => {
            // Until just before those that hang are left behind, or just after it.
            round
                .steps
                .push(Step::Idle(pick(random, &[20, 178, 180, 181, 182, 183]) * SECOND_NS + random.below(SECOND_NS)));
            round.steps.extend(random.chance(1, 2).then_some(Step::Flush));
            End::PowerCut { effects: random.below(60) as u32 }
        }
    };
    let (opening_faults, faults, wounds) = (Vec::new(), Vec::new(), Vec::new());
    Round { faults, opening_faults, wounds, rots: false, end, members, ..round }
}
