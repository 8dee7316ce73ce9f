//! A life of a pool, written down before it is lived: all of it follows from a seed, and parts can be left out.

mod phase;
mod shape;
mod windows;

use crate::device::AfterDiscard;
use crate::fault::{Fault, FaultKind};
use crate::order::Hold;
use forebay_block::Random;
use phase::Phase;
pub use shape::{Kind, Shape};

/// Blocks of a leaf of the map: working sets are spread over leaves, so that paging and checkpoints have work.
pub const LEAF_BLOCKS: u64 = 400;
/// Blocks of the second disk that are written.
const SECOND_BLOCKS: u64 = 24;
/// Names of the classes whose policy changes.
pub const CLASSES: [&str; 4] = ["hot", "bulk", "cold", "log"];

/// Names of files; the first two are claimed by rules of classes.
pub const NAMES: [&str; 3] = ["/kept/a", "/passing/b", "/other/c"];

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Sectors are written.
    Write {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Class that the export gives.
        class: Option<u8>,
        /// Zeros instead of tags.
        zeros: bool,
    },
    /// Whole blocks are written, every other of them zeros.
    Patchwork {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Class that the export gives.
        class: Option<u8>,
    },
    /// Sectors are discarded or zeroed.
    Clear {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Discard, not write-zeroes.
        is_discard: bool,
    },
    /// Sectors are read.
    Read {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
    },
    /// Blocks become known to belong to a file.
    Reclass {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Which of [`NAMES`].
        file: u8,
    },
    /// A flush.
    Flush,
    /// The engine is asked for a checkpoint.
    Checkpoint,
    /// The policy of a class changes.
    Place {
        /// Which of [`CLASSES`].
        class: u8,
        /// Which policy, 0 to 3.
        place: u8,
    },
    /// The second disk is made, grown, shrunk or removed, whatever is possible.
    Disk {
        /// Size in blocks; 0 removes it.
        blocks: u64,
    },
    /// A block of the second disk is written, where there is one.
    WriteSecond {
        /// Block.
        block: u64,
    },
    /// The second disk is made or grown, and used before that is durable.
    DiskNow {
        /// Size in blocks.
        blocks: u64,
    },
    /// Blocks of the second disk are written, also where it is not durably there yet.
    WriteNow {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// Asks where sectors lie.
    Status {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
    },
    /// A connection dies, with requests in flight.
    HangUp {
        /// Which.
        connection: u8,
    },
    /// A block that may be damaged is overwritten whole, durably.
    Mend {
        /// Which of them, counted round and round.
        nth: u32,
    },
    /// From now on a device holds these requests back, too.
    Hold(Hold),
    /// From now on a device shows this fault, too.
    Fail(Fault),
    /// Waits until nothing is in progress.
    Settle,
    /// Nobody asks for anything for so many nanoseconds.
    Idle(u64),
    /// The clock that the engine is given jumps by so many nanoseconds.
    ClockStep(i64),
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power fails after the devices have carried out so many requests more.
    PowerCut {
        /// Requests after the last step was submitted.
        effects: u32,
    },
    /// A clean stop.
    Stop,
    /// Everything is flushed, nobody asks for anything for some seconds, and then the power fails.
    Rest,
    /// The power fails within a clean stop.
    PowerCutInStop {
        /// Requests after it was asked for.
        effects: u32,
    },
}

/// Sectors of hosts' blocks that are damaged at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wound {
    /// Device, from 0: the fast one.
    pub device: usize,
    /// How: [`FaultKind::Rot`] or [`FaultKind::DeadSector`].
    pub kind: FaultKind,
    /// How many.
    pub count: usize,
}

/// From switching on to the end of power.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For the devices' own choices.
    pub seed: u64,
    /// Power cuts within recovery, before the one that succeeds: each after so many requests.
    pub recovery_cuts: Vec<u32>,
    /// Least and most nanoseconds that a request takes, of the fast and of the capacity devices.
    pub timing_ns: [(u64, u64); 2],
    /// Chance in 256 of a cached sector to survive.
    pub keep: u64,
    /// What discarded ranges read as.
    pub after_discard: AfterDiscard,
    /// What goes wrong while the pool is opened; where that fails it is opened again without.
    pub opening_faults: Vec<Fault>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Requests in flight at most.
    pub depth: usize,
    /// What happens.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// Requests that devices hold back.
    pub holds: Vec<Hold>,
    /// Connections that requests come over.
    pub connections: u8,
    /// What is damaged afterwards, without power.
    pub wounds: Vec<Wound>,
    /// A bit rots afterwards, without power.
    pub rots: bool,
    /// What is left is verified offline.
    pub verify: bool,
}

impl Round {
    /// Whether devices lie.
    #[must_use]
    pub fn is_silently_faulty(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.is_silent())
    }

    /// Whether devices lie so that nothing which follows can be judged: more than one lie, or one after which a lost
    /// write is no different from one that was never flushed.
    #[must_use]
    pub fn is_beyond_judgement(&self) -> bool {
        self.is_silently_faulty() && self.end != End::Rest
    }
}

impl Default for End {
    fn default() -> Self {
        Self::PowerCut { effects: 0 }
    }
}

/// A whole life.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where it came from.
    pub seed: u64,
    /// The pool.
    pub shape: Shape,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

fn pick<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())].clone()
}

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

impl Round {
    fn random(random: &mut Random, shape: &Shape, at: u64, count: u64) -> Self {
        if shape.kind.is_window() {
            return windows::round(random, shape, at);
        }
        let round = Self::any(random, shape, at + 1 == count);
        match shape.kind {
            Kind::Lying => round.with_one_lie(random, shape, at + 2 == count),
            Kind::Failing => round.with_failing_devices(random, shape),
            Kind::Tight => Self { verify: true, ..round },
            _ => round,
        }
    }

    /// The last round but one holds a lie, and all others nothing.
    fn with_one_lie(self, random: &mut Random, shape: &Shape, lies: bool) -> Self {
        use FaultKind::{DuplicatedWrite, LostWrite, MisdirectedWrite, Rot};
        if !lies {
            return Self { faults: Vec::new(), ..self };
        }
        let rots = random.chance(1, 2);
        let kinds = [LostWrite, LostWrite, MisdirectedWrite, DuplicatedWrite, Rot, Rot];
        let one =
            Fault { count: 1, ..faults(random, &kinds, 1 + shape.capacity_bytes.len(), self.steps.len() as u32)[0] };
        Self { faults: if rots { Vec::new() } else { vec![one] }, rots, end: End::Rest, ..self }
    }

    fn with_failing_devices(self, random: &mut Random, shape: &Shape) -> Self {
        use FaultKind::{FlushError, Hang, ReadError, Vanish, WriteError};
        let devices = 1 + shape.capacity_bytes.len();
        let opening = random.chance(1, 2);
        let opening_faults =
            faults(random, &[ReadError, WriteError, WriteError, FlushError, Hang, Vanish], devices, 12);
        let later = match random.below(3) {
            0 => faults(random, &[ReadError, WriteError, FlushError, FlushError], devices, self.steps.len() as u32),
            _ => Vec::new(),
        };
        // There are far fewer flushes than other requests.
        let sooner =
            |fault: Fault| if fault.kind == FlushError { Fault { skip: fault.skip % 12, ..fault } } else { fault };
        let later: Vec<Fault> = later.into_iter().map(sooner).collect();
        Self { opening_faults: if opening { opening_faults } else { Vec::new() }, faults: later, ..self }
    }

    fn any(random: &mut Random, shape: &Shape, is_last: bool) -> Self {
        use FaultKind::{
            DuplicatedWrite, FlushError, Hang, LostWrite, MisdirectedWrite, ReadError, Rot, Slow, TrimError, Vanish,
            WriteError,
        };
        let count = pick(random, &[5, 30, 60, 120]) + random.below(20) as u32;
        let devices = 1 + shape.capacity_bytes.len();
        let faults = match random.below(10) {
            0 | 1 => faults(random, &[Slow, Slow, TrimError, Hang], devices, count),
            2 | 3 => {
                faults(random, &[ReadError, WriteError, FlushError, TrimError, Slow, Hang, Vanish], devices, count)
            }
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
        Self {
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
            ..Self::default()
        }
    }
}

impl Scenario {
    /// The life that follows from a seed, in which its [`Kind`] stands too.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = Shape::of(Kind::of(seed), &mut random);
        let count = if shape.kind.is_window() { 2 + random.below(3) } else { 2 + random.below(7) };
        let rounds = (0..count).map(|at| Round::random(&mut random, &shape, at, count)).collect();
        Self { seed, shape, rounds }
    }

    /// The life of a number: of 32, seventeen are of the kinds that aim at one window, ten are rich in something, and
    /// five have a little of everything.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        let kind = match number % 32 {
            at if at % 2 == 0 => Kind::WINDOWS[(number / 2 % Kind::WINDOWS.len() as u64) as usize],
            1 => Kind::Patchwork,
            3 => Kind::Cramped,
            5 => Kind::Wide,
            7 | 15 | 23 => Kind::Lying,
            9 | 25 => Kind::Failing,
            11 => Kind::Tight,
            13 => Kind::Sweeping,
            17 => Kind::Forgetting,
            21 => Kind::Naming,
            _ => Kind::Mixed,
        };
        Self::random(kind.seed(number))
    }

    /// Steps of all rounds.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.rounds.iter().map(|round| round.steps.len()).sum()
    }
}
