//! What goes wrong within what redundancy covers, of whatever kind that is, while scrubs go on beside hosts.

use super::member::{Member, MemberRound};
use super::mirrored::{faults, idle};
use super::parity::SHOWN;
use super::pick::pick;
use super::round::{End, Round, Wound};
use super::shape::Shape;
use super::step::{Chase, Step};
use crate::fault::FaultKind;
use forebay_block::Random;
use forebay_prism::Compress;

/// Steps of a round, at most, that are not about scrubs.
const STEPS_MAX: usize = 70;

fn member(random: &mut Random, is_quiet: bool, is_liar: bool, steps: u64) -> MemberRound {
    let mut does = MemberRound {
        wounds: [pick(random, &[0, 1, 3, 8]), pick(random, &[0, 0, 0, 2])],
        is_another: random.chance(2, 3),
        ..MemberRound::default()
    };
    if is_quiet {
        return does;
    }
    does.is = pick(random, &[Member::Present, Member::Present, Member::Present, Member::Absent, Member::Replaced]);
    let kinds: &[FaultKind] = if is_liar && random.chance(1, 3) { &FaultKind::ALL } else { &SHOWN };
    let mut some = |one_in: u64, steps: u64| match random.chance(1, one_in) {
        true => faults(random, kinds, steps),
        false => Vec::new(),
    };
    does.faults = [some(8, 12), some(3, steps)];
    does
}

fn chase(random: &mut Random, shape: &Shape) -> Step {
    Step::Chase(Chase {
        turns: pick(random, &[0, 1, 2, 3, 4, 6, 8, 12, 20, 40]),
        block: random.below(32) as u8,
        blocks: pick(random, &[1, 1, 2, 8, 32]),
        used: shape.blocks,
        fua: random.chance(1, 4),
        // Mostly what goes past the fast tier: each class there is read anew for each copy.
        class: pick(random, &[Some(5), Some(5), Some(5), Some(1), None]),
        is_discard: random.chance(1, 6),
    })
}

/// Scrubs among the steps of a round, with hosts that change what they read, and what rots meanwhile.
fn scrubs(steps: &mut Vec<Step>, slots: u64, random: &mut Random, shape: &Shape) {
    let mut at = random.index(steps.len() + 1);
    let mut add = |random: &mut Random, step: Step| {
        steps.insert(at, step);
        at += 1 + random.index(3).min(steps.len() - at - 1);
    };
    let rots = random.chance(1, 2);
    if slots > 0 && rots {
        // What rots is where it lies for long: hosts come to rest.
        add(random, Step::Settle);
        let (slot, some, seed) = (random.below(slots) as u8, 1 + random.below(12) as u8, random.next_u64());
        // Of what was drawn, so that lives of old keep their numbers.
        let count = if shape.compress() != Compress::Off && seed.is_multiple_of(4) { u8::MAX } else { some };
        add(random, Step::Rot { slot, count, seed });
    }
    add(random, Step::Scrub);
    for _ in 0..2 + random.below(14) {
        let step = match random.below(24) {
            0 if slots > 0 => {
                Step::Rot { slot: random.below(slots) as u8, count: 1 + random.below(6) as u8, seed: random.next_u64() }
            }
            1 => Step::PauseScrub,
            2 => Step::Scrub,
            3 => Step::Checkpoint,
            4 => Step::Flush,
            _ => chase(random, shape),
        };
        add(random, step);
    }
    if random.chance(1, 2) {
        add(random, Step::Scrub);
        add(random, Step::EndScrub);
    }
}

/// A round in which devices are well but for as many members as the others hold everything of; where there are none a few blocks of hosts are
/// damaged at rest.
pub(super) fn round(mut round: Round, random: &mut Random, shape: &Shape) -> Round {
    let (mirrored, parity) = (usize::from(shape.members > 1), shape.parity);
    let (culprits, liars) = parity.map_or((0, 0), |parity| (parity.culprits(), parity.liars));
    let slots = mirrored + culprits;
    round.steps.truncate(STEPS_MAX);
    let steps = round.steps.len() as u64;
    let is_quiet = random.chance(1, 2);
    let is_liar = |slot: usize| slot < mirrored + liars;
    let members = (0..slots).map(|slot| member(random, is_quiet, is_liar(slot), steps)).collect();
    idle(&mut round, random);
    for _ in 0..1 + random.below(2) {
        scrubs(&mut round.steps, slots as u64, random, shape);
    }
    for _ in 0..if is_quiet { 0 } else { random.below(3) } {
        let at = random.index(round.steps.len() + 1);
        round.steps.insert(at, Step::Exchange { slot: random.below(4) as u8 });
    }
    let end = if random.chance(1, 2) { pick(random, &[End::Rest, End::Rest, End::Stop]) } else { round.end };
    if matches!(end, End::Rest | End::Stop) && random.chance(2, 3) {
        // A whole pass after all that has rotted.
        round.steps.extend([Step::Settle, Step::Scrub, Step::EndScrub, Step::Scrub, Step::EndScrub]);
    }
    let mut plain: Vec<usize> = Vec::new();
    plain.extend((mirrored == 0).then_some(0));
    plain.extend((parity.is_none()).then_some(1));
    let wounds = match plain.is_empty() || random.chance(2, 3) {
        true => Vec::new(),
        false => vec![Wound {
            device: pick(random, &plain),
            kind: pick(random, &[FaultKind::Rot, FaultKind::DeadSector]),
            count: 1 + random.index(3),
        }],
    };
    Round { faults: Vec::new(), opening_faults: Vec::new(), wounds, rots: false, end, members, ..round }
}
