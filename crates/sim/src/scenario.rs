//! A life of a pool, written down before it is lived: all of it follows from a seed, and parts can be left out.

use crate::device::AfterDiscard;
use crate::fault::{Fault, FaultKind};
use forebay_block::Random;

/// Blocks of a leaf of the map: working sets are spread over leaves, so that paging and checkpoints have work.
pub const LEAF_BLOCKS: u64 = 400;
/// Blocks of the second disk that are written.
const SECOND_BLOCKS: u64 = 24;
/// Where in a seed the kind of life stands.
const KIND_SHIFT: u32 = 40;
/// Names of the classes whose policy changes.
pub const CLASSES: [&str; 4] = ["hot", "bulk", "cold", "log"];

/// What a life is rich in. Most lives have a little of everything; some corners are not reached that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Mixed,
    /// Hundreds of map pages with few blocks in each: checkpoints of more pages than are written at once.
    Wide,
    /// Large writes in which every other block is zeros: records that fill journal batches.
    Patchwork,
    /// A tiny fast tier from which everything is destaged, and whose slots are used again at once.
    Cramped,
}

impl Kind {
    /// Of the life with this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        match seed >> KIND_SHIFT & 3 {
            1 => Self::Wide,
            2 => Self::Patchwork,
            3 => Self::Cramped,
            _ => Self::Mixed,
        }
    }
}

/// Geometry and settings of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What its life is rich in.
    pub kind: Kind,
    /// Bytes of the fast device.
    pub fast_bytes: u64,
    /// Bytes of each capacity device.
    pub capacity_bytes: Vec<u64>,
    /// Band in bytes.
    pub band_bytes: u64,
    /// Journal in bytes.
    pub journal_bytes: u64,
    /// Logical block of the fast device, and of the capacity devices.
    pub sector_bytes: [u32; 2],
    /// Whether the fast device, and the capacity devices, have a volatile cache.
    pub is_volatile: [bool; 2],
    /// Whether the capacity devices take discards.
    pub discards: bool,
    /// Bytes of the first disk.
    pub disk_bytes: u64,
    /// Leaves of the map that may be resident.
    pub frames: usize,
    /// Blocks of one destage or collection job.
    pub job_blocks: u32,
    /// See `EngineOptions`.
    pub destage_above_percent: u64,
    /// See `EngineOptions`.
    pub bypass_below_percent: u64,
    /// See `EngineOptions`.
    pub unflushed_limit_bytes: u64,
    /// Leaves that requests go to.
    pub leaves: u64,
    /// Blocks of each that they go to.
    pub blocks: u64,
}

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
    /// Waits until nothing is under way.
    Settle,
    /// Nobody asks for anything for so many nanoseconds.
    Idle(u64),
    /// The clock that the engine is told jumps by so many nanoseconds.
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
    /// The power fails within a clean stop.
    PowerCutInStop {
        /// Requests after it was asked for.
        effects: u32,
    },
}

/// From switching on to the end of power.
#[derive(Clone, Debug, PartialEq)]
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
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// Requests under way at most.
    pub depth: usize,
    /// What happens.
    pub steps: Vec<Step>,
    /// How it ends.
    pub end: End,
    /// What is left is verified offline.
    pub verify: bool,
}

impl Round {
    /// Whether devices lie.
    #[must_use]
    pub fn is_silently_faulty(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.is_silent())
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

/// Blocks that requests may touch so that all of them fit at once: part of what the capacity tier can promise.
fn blocks_that_fit(band_bytes: u64, capacity_bytes: &[u64]) -> u64 {
    let bands: u64 = capacity_bytes.iter().map(|bytes| bytes / band_bytes).sum();
    // A block of each band holds its summary, some bands are the collector's reserve, and ends of devices are lost.
    let usable = bands.saturating_sub((bands * 7 / 100).max(2) + 3);
    usable * (band_bytes / 4096 - 2) * 8 / 10
}

fn pick<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    choices[random.index(choices.len())].clone()
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        let band_bytes = pick(random, &[32 << 10, 64 << 10, 64 << 10, 128 << 10]);
        let bands = 16 + random.below(40);
        let capacity: u64 = bands * band_bytes;
        let capacity_bytes = match random.below(4) {
            0 if bands >= 24 => vec![capacity / 2, capacity / 2 + 4 * band_bytes],
            _ => vec![capacity],
        };
        let frames = pick(random, &[5, 6, 8, 16, 32]);
        let leaves = 1 + random.below(10);
        let fitting = blocks_that_fit(band_bytes, &capacity_bytes).saturating_sub(SECOND_BLOCKS);
        let blocks = (4 + random.below(40)).min(fitting / leaves).max(1);
        Self {
            kind: Kind::Mixed,
            fast_bytes: pick(random, &[1664 << 10, 1800 << 10, 2 << 20, 3 << 20]),
            capacity_bytes,
            band_bytes,
            journal_bytes: pick(random, &[128 << 10, 128 << 10, 192 << 10, 256 << 10]),
            sector_bytes: pick(random, &[[512, 512], [512, 512], [512, 4096], [4096, 4096]]),
            is_volatile: pick(random, &[[true, true], [true, true], [false, true], [true, false], [false, false]]),
            discards: random.chance(3, 4),
            disk_bytes: 16 << 20,
            frames,
            job_blocks: pick(random, &[4, 24, 24, 64]),
            destage_above_percent: pick(random, &[5, 40, 40, 75]),
            bypass_below_percent: pick(random, &[5, 15, 15, 40]),
            unflushed_limit_bytes: pick(random, &[64 << 10, 512 << 10, 4 << 20]),
            leaves,
            blocks,
        }
    }
}

impl Shape {
    fn wide(random: &mut Random) -> Self {
        let leaves = 80 + random.below(120);
        Self {
            kind: Kind::Wide,
            fast_bytes: (8 + random.below(4)) << 20,
            capacity_bytes: vec![6 << 20],
            band_bytes: 64 << 10,
            journal_bytes: 256 << 10,
            disk_bytes: leaves * LEAF_BLOCKS * 4096,
            frames: pick(random, &[180, 256]),
            leaves,
            blocks: 1 + random.below(4),
            ..Self::random(random)
        }
    }

    fn patchwork(random: &mut Random) -> Self {
        Self {
            kind: Kind::Patchwork,
            fast_bytes: (6 + random.below(8)) << 20,
            capacity_bytes: vec![12 << 20],
            band_bytes: 128 << 10,
            journal_bytes: 1 << 20,
            frames: 32,
            leaves: 3,
            blocks: 390,
            ..Self::random(random)
        }
    }

    fn cramped(random: &mut Random) -> Self {
        let leaves = 1 + random.below(3);
        Self {
            kind: Kind::Cramped,
            fast_bytes: pick(random, &[1600 << 10, 1664 << 10]),
            capacity_bytes: vec![5 << 20],
            band_bytes: 64 << 10,
            journal_bytes: 128 << 10,
            is_volatile: pick(random, &[[true, true], [true, false]]),
            frames: 16,
            job_blocks: pick(random, &[4, 8, 24]),
            destage_above_percent: pick(random, &[1, 10]),
            bypass_below_percent: 5,
            leaves,
            blocks: 300 / leaves,
            ..Self::random(random)
        }
    }
}

/// What kinds of things a round has.
struct Mood {
    is_whole: bool,
    fua_in: u64,
    write: u64,
    clear: u64,
    flush: u64,
    read: u64,
    large_in: u64,
    admin: u64,
    zeros_in: u64,
    class: Option<u8>,
}

impl Mood {
    fn random(random: &mut Random, is_whole: bool) -> Self {
        Self {
            is_whole,
            fua_in: pick(random, &[3, 10, 40]),
            write: pick(random, &[6, 12, 20]),
            clear: pick(random, &[0, 2, 6]),
            flush: pick(random, &[0, 2, 8]),
            read: pick(random, &[1, 4]),
            large_in: pick(random, &[3, 8, 30]),
            admin: pick(random, &[0, 1, 3]),
            zeros_in: pick(random, &[6, 40]),
            class: random.chance(1, 3).then(|| pick(random, &[1, 2, 5])),
        }
    }

    /// What a kind of life is rich in.
    fn of(self, kind: Kind) -> Self {
        match kind {
            Kind::Mixed | Kind::Wide => self,
            Kind::Patchwork => Self { write: 20, clear: 1, admin: 1, ..self },
            Kind::Cramped => Self { write: 30, clear: 1, admin: 0, large_in: 3, zeros_in: 1000, ..self },
        }
    }

    fn step(&self, shape: &Shape, random: &mut Random) -> Step {
        match self.any_step(shape, random) {
            Step::Write { sector, class, fua: false, .. } if shape.kind == Kind::Patchwork => {
                let first = sector / 8 / LEAF_BLOCKS * LEAF_BLOCKS * 8 + random.below(90) * 8;
                Step::Patchwork { sector: first, sectors: 8 * (200 + random.below(100)), class }
            }
            Step::Write { sector, sectors, fua, zeros, .. } if shape.kind == Kind::Cramped => {
                Step::Write { sector, sectors, fua, class: None, zeros }
            }
            step => step,
        }
    }

    fn any_step(&self, shape: &Shape, random: &mut Random) -> Step {
        let block = random.below(shape.leaves) * LEAF_BLOCKS + random.below(shape.blocks);
        let is_aligned = self.is_whole || random.chance(3, 4);
        let sector = block * 8 + if is_aligned { 0 } else { random.below(8) };
        // Within the leaf's working set, so that what lives is bounded.
        let room = (block / LEAF_BLOCKS * LEAF_BLOCKS + shape.blocks) * 8 - sector;
        let wanted = match (is_aligned, random.chance(1, self.large_in)) {
            (true, true) => 8 * (1 + random.below(40)),
            (true, false) => 8 * (1 + random.below(4)),
            (false, _) => 1 + random.below(20),
        };
        let sectors = wanted.min(room);
        let fua = random.chance(1, self.fua_in);
        let class = self.class.or_else(|| pick(random, &[Some(1), Some(2), Some(5), None, None]));
        let kinds = [self.write, self.clear, self.flush, self.read, self.admin, 1];
        let mut at = random.below(kinds.iter().sum());
        let kind = kinds.iter().position(|&weight| {
            let here = at < weight;
            at = at.saturating_sub(weight);
            here
        });
        match kind {
            Some(0) => Step::Write { sector, sectors, fua, class, zeros: random.chance(1, self.zeros_in) },
            Some(1) if random.chance(1, 12) => {
                // Over several leaves, up to all of the disk.
                let first = random.below(shape.leaves) * LEAF_BLOCKS * 8 + random.below(64);
                let first = if self.is_whole { first / 8 * 8 } else { first };
                let end = (shape.disk_bytes / 512).min(first + LEAF_BLOCKS * 8 * (1 + random.below(6)));
                Step::Clear { sector: first, sectors: end - first, fua, is_discard: true }
            }
            Some(1) => Step::Clear { sector, sectors, fua, is_discard: random.chance(1, 2) },
            Some(2) => Step::Flush,
            Some(3) => Step::Read { sector, sectors },
            Some(4) => match random.below(8) {
                0..=2 => Step::Checkpoint,
                3 | 4 => Step::Place { class: random.below(4) as u8, place: random.below(4) as u8 },
                5 => Step::Disk { blocks: pick(random, &[0, 50, 400, 900]) },
                _ => Step::WriteSecond { block: random.below(SECOND_BLOCKS) },
            },
            _ => match random.below(8) {
                0 => Step::Settle,
                1 => {
                    Step::ClockStep(pick(random, &[-3_600_000_000_000, -1_000_000, 60_000_000_000, 86_400_000_000_000]))
                }
                2 => Step::Idle(2_000_000_000),
                _ => Step::Idle(random.below(20_000_000)),
            },
        }
    }
}

fn faults(random: &mut Random, kinds: &[FaultKind], devices: usize, steps: u32) -> Vec<Fault> {
    (0..1 + random.below(3))
        .map(|_| Fault {
            kind: pick(random, kinds),
            device: random.index(devices),
            skip: random.below(u64::from(steps) * 2) as u32,
            count: pick(random, &[1, 1, 2, 6]),
        })
        .collect()
}

impl Round {
    fn random(random: &mut Random, shape: &Shape, is_last: bool) -> Self {
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
        let is_whole = faults.iter().any(|fault| fault.kind.is_harmful());
        let mood = Mood::random(random, is_whole).of(shape.kind);
        let timings = [(1000, 1000), (1000, 20_000), (5_000, 200_000), (10_000, 5_000_000)];
        let effects = random.below(60) as u32;
        Self {
            seed: random.next_u64(),
            recovery_cuts: (0..pick(random, &[0, 0, 1, 1, 3])).map(|_| random.below(90) as u32).collect(),
            timing_ns: [pick(random, &timings), pick(random, &timings)],
            keep: pick(random, &[0, 64, 128, 192, 256]),
            after_discard: pick(random, &[AfterDiscard::Zeros, AfterDiscard::Old, AfterDiscard::Other]),
            faults,
            depth: 1 + random.index(12),
            steps: (0..count).map(|_| mood.step(shape, random)).collect(),
            end: match random.below(10) {
                0 => End::Stop,
                1 => End::PowerCutInStop { effects },
                _ => End::PowerCut { effects },
            },
            verify: random.chance(1, 6),
        }
    }
}

impl Scenario {
    /// The life that follows from a seed, in which its [`Kind`] stands too.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = match Kind::of(seed) {
            Kind::Mixed => Shape::random(&mut random),
            Kind::Wide => Shape::wide(&mut random),
            Kind::Patchwork => Shape::patchwork(&mut random),
            Kind::Cramped => Shape::cramped(&mut random),
        };
        let count = 2 + random.below(7);
        let rounds = (0..count).map(|at| Round::random(&mut random, &shape, at + 1 == count)).collect();
        Self { seed, shape, rounds }
    }

    /// The life of a number: of eight one is wide, one cramped and one patchwork.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        let kind = match number % 8 {
            3 => 2,
            5 => 3,
            7 => 1,
            _ => 0,
        };
        Self::random(number | kind << KIND_SHIFT)
    }

    /// Steps of all rounds.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.rounds.iter().map(|round| round.steps.len()).sum()
    }
}
