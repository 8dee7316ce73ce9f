//! What one member of a mirrored fast tier does wrong, while the others hold everything.

use super::member::{Member, MemberRound};
use super::pick::pick;
use super::round::{End, Round};
use super::step::Step;
use crate::fault::{Fault, FaultKind};
use forebay_block::Random;

/// Some faults of a member, among so many steps.
pub(super) fn faults(random: &mut Random, kinds: &[FaultKind], steps: u64) -> Vec<Fault> {
    let count = 1 + random.below(3);
    (0..count)
        .map(|_| {
            let kind = pick(random, kinds);
            // There are fewer flushes than other requests.
            let until = if kind == FaultKind::FlushError { 12 } else { 2 * steps };
            Fault {
                kind,
                device: 0,
                region: None,
                skip: random.below(until) as u32,
                count: pick(random, &[1, 1, 2, 6]),
            }
        })
        .collect()
}

/// Time in which a member is rebuilt.
pub(super) fn idle(round: &mut Round, random: &mut Random) {
    for _ in 0..random.below(4) {
        let at = random.index(round.steps.len() + 1);
        round.steps.insert(at, Step::Idle(pick(random, &[5_000_000, 20_000_000, 2_000_000_000])));
    }
}

/// A round in which all devices are well but for one member of the fast tier.
pub(super) fn round(mut round: Round, random: &mut Random) -> Round {
    let steps = round.steps.len() as u64;
    let kinds = &FaultKind::ALL;
    let opening = if random.chance(1, 4) { faults(random, kinds, 12) } else { Vec::new() };
    let later = if random.chance(1, 2) { faults(random, kinds, steps) } else { Vec::new() };
    let is = pick(
        random,
        &[Member::Present, Member::Present, Member::Present, Member::Absent, Member::Replaced, Member::Alone],
    );
    idle(&mut round, random);
    let end = if random.chance(1, 3) { End::Rest } else { round.end };
    let is_damaged = random.chance(1, 4);
    let mut wounds = || if is_damaged { random.index(4) } else { 0 };
    let wounds = [wounds(), wounds()];
    let member = MemberRound {
        is,
        faults: [opening, later],
        wounds,
        rots: random.chance(1, 6),
        dies: false,
        is_another: random.chance(1, 2),
    };
    let members = vec![member];
    Round { faults: Vec::new(), opening_faults: Vec::new(), wounds: Vec::new(), rots: false, end, members, ..round }
}
