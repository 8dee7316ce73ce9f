//! Lives in which the power fails every few requests. Such a life is one of another kind, with each of its rounds cut into
//! many short ones, so that it meets what that kind is rich in, and a power cut at any step of it.

use super::kind::Kind;
use super::pick::pick;
use super::round::{End, Round};
use super::shape::Shape;
use super::step::{LEAF_BLOCKS, Step};
use super::windows;
use crate::fault::Fault;
use crate::order::{Hold, Region, What};
use forebay_block::Random;

/// Kinds that it may be like. Not those in which devices lie or fail while the pool is opened: what that excuses would be
/// excused in many rounds.
const LIKE: [Kind; 20] = [
    Kind::Mixed,
    Kind::Wide,
    Kind::Patchwork,
    Kind::Cramped,
    Kind::Cramped,
    Kind::Tight,
    Kind::Sweeping,
    Kind::Sweeping,
    Kind::Naming,
    Kind::Overtaking,
    Kind::Reusing,
    Kind::Rotting,
    Kind::Misreading,
    Kind::Growing,
    Kind::Growing,
    Kind::Unmapping,
    Kind::Many,
    Kind::Talking,
    Kind::Forgetting,
    Kind::Forgetting,
];

/// Rounds, at least: making the pool is to take a small part of the time.
const ROUNDS: usize = 40;
/// Leaves of the disk, at most, where requests may be discards of many leaves: all that was ever discarded is read after
/// each cut.
const LEAVES_MAX: u64 = 8;

/// Such a life: its shape and its rounds, of one like it whose shape and rounds `shape_of` and `round_of` give.
pub(super) fn life(
    random: &mut Random,
    shape_of: impl Fn(Kind, &mut Random) -> Shape,
    round_of: impl Fn(&mut Random, &Shape, u64) -> Round,
) -> (Shape, Vec<Round>) {
    let shape = small(shape_of(pick(random, &LIKE), random));
    // What fills the pool; and never the last round of a life, which may hold a lie.
    let mut rounds = vec![Round { wounds: Vec::new(), opening_faults: Vec::new(), ..round_of(random, &shape, 0) }];
    for at in 1.. {
        if rounds.len() >= ROUNDS {
            break;
        }
        cut(&round_of(random, &shape, at), &shape, random, &mut rounds);
    }
    (shape, rounds)
}

/// The same with a disk that is read in little time.
fn small(shape: Shape) -> Shape {
    match shape.kind {
        Kind::Mixed | Kind::Cramped | Kind::Tight | Kind::Sweeping | Kind::Naming => {
            let leaves = shape.leaves.min(LEAVES_MAX);
            Shape { leaves, disk_bytes: leaves * LEAF_BLOCKS * 4096, ..shape }
        }
        _ => shape,
    }
}

/// Some leaves are discarded, which frees bands: they are trimmed when a checkpoint has come after that.
fn discard(shape: &Shape, random: &mut Random) -> Vec<Step> {
    let count = pick(random, &[1, shape.leaves.min(LEAVES_MAX)]);
    let first = random.below(shape.leaves - count + 1);
    let sector = |leaf: u64| leaf * LEAF_BLOCKS * 8;
    let clear = |leaf| Step::Clear { sector: sector(leaf), sectors: shape.blocks * 8, fua: false, is_discard: true };
    let mut steps: Vec<Step> = (first..first + count).map(clear).collect();
    let device = 1 + random.index(shape.capacity_bytes.len());
    let (what, hold_ns) = (What::Discard, pick(random, &[200_000, 2_000_000, 20_000_000]));
    let hold = Hold { device, what, region: None, skip: 0, count: 8, hold_ns, is_early: false };
    steps.extend([Step::Hold(hold), Step::Settle, Step::Flush, Step::Settle, Step::Checkpoint]);
    steps.push(Step::Idle(pick(random, &[200_000, 2_000_000, 20_000_000])));
    steps
}

/// The second disk comes or grows, and is written at once.
fn grow(random: &mut Random) -> [Step; 2] {
    let blocks = pick(random, &[8, 50, 420, 900]);
    [Step::DiskNow { blocks }, Step::WriteNow { block: random.below(8), blocks: 1, fua: random.chance(1, 2) }]
}

/// Requests of one kind take long, so that the power fails while they are in flight.
fn hold(random: &mut Random, devices: usize) -> Hold {
    use Region::{Data, Header, Journal, Page, Root, Summary};
    use What::{Discard, Flush, Read, Write};
    let kinds = [
        (false, Discard, None),
        (false, Discard, None),
        (false, Flush, None),
        (false, Read, Some(Data)),
        (false, Write, Some(Data)),
        (false, Write, Some(Summary)),
        (true, Flush, None),
        (true, Read, Some(Page)),
        (true, Write, Some(Header)),
        (true, Write, Some(Journal)),
        (true, Write, Some(Page)),
        (true, Write, Some(Root)),
    ];
    let (is_fast, what, region) = pick(random, &kinds);
    let device = if is_fast { 0 } else { 1 + random.index(devices - 1) };
    let (skip, count) = (random.below(3) as u32, pick(random, &[1, 1, 2, 8]));
    let hold_ns = pick(random, &[200_000, 2_000_000, 20_000_000]);
    Hold { device, what, region, skip, count, hold_ns, is_early: random.chance(1, 4) }
}

/// Cuts a round into short ones, each of which ends while something is in progress. The last ends as the whole did.
fn cut(whole: &Round, shape: &Shape, random: &mut Random, rounds: &mut Vec<Round>) {
    let mut steps = &whole.steps[..];
    while !steps.is_empty() {
        let (now, later) = steps.split_at(pick(random, &[1, 2, 4, 6, 10, 16, 30, 80]).min(steps.len()));
        steps = later;
        let mut now = now.to_vec();
        match random.below(16) {
            0..=6 => now.insert(now.len() - random.index(now.len().min(4)), Step::Checkpoint),
            7..=9 => now.push(Step::Flush),
            10 | 11 => now.extend(windows::ending(shape, random)),
            12 => now.extend(discard(shape, random)),
            13 | 14 if shape.kind == Kind::Growing => now.extend(grow(random)),
            _ => {}
        }
        let within = pick(random, &[8, 30, 60]);
        let effects = random.below(within) as u32;
        let end = match random.below(10) {
            _ if later.is_empty() => whole.end,
            0 => End::PowerCutInStop { effects },
            _ => End::PowerCut { effects },
        };
        let mut sooner = |skip: u32| random.below(u64::from(skip).min(8) + 1) as u32;
        let faults = whole.faults.iter().map(|fault| Fault { skip: sooner(fault.skip), ..*fault }).collect();
        let mut holds: Vec<Hold> = whole.holds.iter().map(|hold| Hold { skip: sooner(hold.skip), ..*hold }).collect();
        if random.chance(1, 2) {
            holds.push(hold(random, 1 + shape.capacity_bytes.len()));
        }
        rounds.push(Round {
            seed: random.next_u64(),
            recovery_cuts: (0..pick(random, &[0, 0, 1])).map(|_| random.below(90) as u32).collect(),
            faults: if random.chance(1, 4) { faults } else { Vec::new() },
            holds,
            steps: now,
            end,
            verify: whole.verify && later.is_empty(),
            stays_on: windows::stays_on(shape, random),
            opening_faults: Vec::new(),
            wounds: Vec::new(),
            ..whole.clone()
        });
    }
}
