//! What one member of a mirrored fast tier does wrong, while the others hold everything.

use super::pick::pick;
use super::round::{End, Round};
use super::step::Step;
use crate::fault::{Fault, FaultKind};
use forebay_block::Random;

/// Whether the member is there when the pool is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Member {
    /// As it was.
    #[default]
    Present,
    /// It is not there.
    Absent,
    /// Another device is in its place, which is blank.
    Replaced,
}

/// What the member does in a round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberRound {
    /// Whether it is there.
    pub is: Member,
    /// What it does wrong while the pool is opened, and later; the device in them says nothing.
    pub faults: [Vec<Fault>; 2],
    /// Sectors of hosts' blocks that rot on it afterwards, and that cannot be read any more.
    pub wounds: [usize; 2],
    /// A bit of whatever it holds rots afterwards.
    pub rots: bool,
    /// From here on it is another one, where this one holds everything.
    pub is_another: bool,
}

fn faults(random: &mut Random, steps: u64) -> Vec<Fault> {
    let count = 1 + random.below(3);
    (0..count)
        .map(|_| {
            let kind = pick(random, &FaultKind::ALL);
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

/// A round in which all devices are well but for one member of the fast tier.
pub(super) fn round(mut round: Round, random: &mut Random) -> Round {
    let steps = round.steps.len() as u64;
    let opening = if random.chance(1, 4) { faults(random, 12) } else { Vec::new() };
    let later = if random.chance(1, 2) { faults(random, steps) } else { Vec::new() };
    let is = pick(
        random,
        &[Member::Present, Member::Present, Member::Present, Member::Present, Member::Absent, Member::Replaced],
    );
    // Time in which a member is rebuilt.
    for _ in 0..random.below(4) {
        let at = random.index(round.steps.len() + 1);
        round.steps.insert(at, Step::Idle(pick(random, &[5_000_000, 20_000_000, 2_000_000_000])));
    }
    let end = if random.chance(1, 3) { End::Rest } else { round.end };
    let is_damaged = random.chance(1, 4);
    let mut wounds = || if is_damaged { random.index(4) } else { 0 };
    let wounds = [wounds(), wounds()];
    let member = MemberRound {
        is,
        faults: [opening, later],
        wounds,
        rots: random.chance(1, 6),
        is_another: random.chance(1, 2),
    };
    Round { faults: Vec::new(), opening_faults: Vec::new(), wounds: Vec::new(), rots: false, end, member, ..round }
}
