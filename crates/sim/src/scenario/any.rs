//! Rounds of a little of everything, and what kinds of lives make of them.

use super::kind::Kind;
use super::phase::Phase;
use super::pick::pick;
use super::round::{End, Round};
use super::shape::Shape;
use crate::device::AfterDiscard;
use crate::fault::{Fault, FaultKind};
use forebay_block::Random;

fn faults(random: &mut Random, kinds: &[FaultKind], devices: usize, steps: u32) -> Vec<Fault> {
    (0..1 + random.below(3))
        .map(|_| Fault {
            kind: pick(random, kinds),
            device: random.index(devices),
            region: None,
            skip: random.below(u64::from(steps) * 2) as u32,
            count: pick(random, &[1, 1, 2, 6]),
        })
        .collect()
}

/// The last round but one holds a lie, and all others nothing.
pub(super) fn with_one_lie(round: Round, random: &mut Random, shape: &Shape, lies: bool) -> Round {
    use FaultKind::{DuplicatedWrite, LostWrite, MisdirectedWrite, Rot};
    if !lies {
        return Round { faults: Vec::new(), ..round };
    }
    let rots = random.chance(1, 2);
    let kinds = [LostWrite, LostWrite, MisdirectedWrite, DuplicatedWrite, Rot, Rot];
    let one = Fault { count: 1, ..faults(random, &kinds, 1 + shape.capacity_bytes.len(), round.steps.len() as u32)[0] };
    Round { faults: if rots { Vec::new() } else { vec![one] }, rots, end: End::Rest, ..round }
}

/// Devices fail while the pool is opened, and some later.
pub(super) fn with_failing_devices(round: Round, random: &mut Random, shape: &Shape) -> Round {
    use FaultKind::{FlushError, Hang, ReadError, Vanish, WriteError};
    let devices = 1 + shape.capacity_bytes.len();
    let opening = random.chance(1, 2);
    let opening_faults = faults(random, &[ReadError, WriteError, WriteError, FlushError, Hang, Vanish], devices, 12);
    let later = match random.below(3) {
        0 => faults(random, &[ReadError, WriteError, FlushError, FlushError], devices, round.steps.len() as u32),
        _ => Vec::new(),
    };
    // There are far fewer flushes than other requests.
    let sooner = |fault: Fault| if fault.kind == FlushError { Fault { skip: fault.skip % 12, ..fault } } else { fault };
    let later: Vec<Fault> = later.into_iter().map(sooner).collect();
    Round { opening_faults: if opening { opening_faults } else { Vec::new() }, faults: later, ..round }
}

/// A round of a little of everything.
pub(super) fn any(random: &mut Random, shape: &Shape, is_last: bool) -> Round {
    use FaultKind::{
        DuplicatedWrite, FlushError, Hang, LostWrite, MisdirectedWrite, ReadError, Rot, Slow, TrimError, Vanish,
        WriteError,
    };
    let count = pick(random, &[5, 30, 60, 120]) + random.below(20) as u32;
    let devices = 1 + shape.capacity_bytes.len();
    let faults = match random.below(10) {
        0 | 1 => faults(random, &[Slow, Slow, TrimError, Hang], devices, count),
        2 | 3 => faults(random, &[ReadError, WriteError, FlushError, TrimError, Slow, Hang, Vanish], devices, count),
        // Nothing that follows could be judged: a lie is the end of a life.
        4 if is_last => faults(random, &[LostWrite, MisdirectedWrite, DuplicatedWrite, Rot], devices, count),
        _ => Vec::new(),
    };
    // Which sectors a failed write left behind is known sector by sector, and torn blocks are not seen then: only
    // some kinds of lives take that into account.
    let is_any_size = matches!(shape.kind, Kind::Lying | Kind::Failing);
    let is_whole = !is_any_size && faults.iter().any(|fault| fault.kind.is_harmful());
    let phase = Phase::random(random, is_whole).of(shape.kind);
    let timings = [(1000, 1000), (1000, 20_000), (5_000, 200_000), (10_000, 5_000_000)];
    let effects = random.below(60) as u32;
    Round {
        seed: random.next_u64(),
        recovery_cuts: (0..pick(random, &[0, 0, 1, 1, 3])).map(|_| random.below(90) as u32).collect(),
        timing_ns: [pick(random, &timings), pick(random, &timings)],
        keep: pick(random, &[0, 64, 128, 192, 256]),
        after_discard: pick(random, &[AfterDiscard::Zeros, AfterDiscard::Old, AfterDiscard::Other]),
        opening_faults: Vec::new(),
        faults,
        depth: 1 + random.index(12),
        steps: (0..count).map(|_| phase.step(shape, random)).collect(),
        end: match random.below(10) {
            0 => End::Stop,
            1 => End::PowerCutInStop { effects },
            _ => End::PowerCut { effects },
        },
        rots: false,
        verify: random.chance(1, 6),
        ..Round::default()
    }
}
