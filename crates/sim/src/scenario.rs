//! A life of a pool, written down before it is lived: all of it follows from a seed, and parts can be left out.

mod any;
mod changing;
mod flickering;
mod kind;
mod member;
mod mirrored;
mod parity;
mod phase;
mod pick;
mod redundant;
mod round;
mod shape;
mod step;
mod windows;

use forebay_block::Random;

pub use kind::Kind;
pub use member::{Beyond, Member, MemberRound};
pub use round::{End, Round, Wound};
pub use shape::{Parity, Shape};
pub use step::{ADMINISTERED_RANGES, CLASSES, Chase, LEAF_BLOCKS, NAMES, Step};

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

/// The geometry of a life of this kind.
fn shape(kind: Kind, random: &mut Random) -> Shape {
    let shape = Shape::of(kind, random);
    if kind.is_window() { windows::shape(shape, random) } else { shape }
}

/// Round `at` of `count`.
fn round(random: &mut Random, shape: &Shape, at: u64, count: u64) -> Round {
    if shape.kind.is_window() {
        return windows::round(random, shape, at);
    }
    // A lie of a member of several is not the end of a life, and what disks there are is not known after one.
    let has_members = matches!(shape.kind, Kind::Mirrored | Kind::Parity | Kind::Changing) || shape.kind.is_scrubbed();
    let round = any::any(random, shape, at + 1 == count && !has_members);
    match shape.kind {
        Kind::Lying => any::with_one_lie(round, random, shape, at + 2 == count),
        Kind::Failing => any::with_failing_devices(round, random, shape),
        Kind::Tight => Round { verify: true, ..round },
        Kind::Mirrored => mirrored::round(round, random),
        Kind::Parity => parity::round(round, random, shape),
        Kind::Redundant | Kind::Packed => redundant::round(round, random, shape),
        Kind::Changing => changing::round(round, random, shape),
        _ => round,
    }
}

impl Scenario {
    /// The life that follows from a seed, in which its [`Kind`] stands too.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        if Kind::of(seed) == Kind::Flickering {
            // None of its rounds is a last one: that may hold a lie.
            let round_of = |random: &mut Random, shape: &Shape, at| round(random, shape, at, u64::MAX);
            let (shape, rounds) = flickering::life(&mut random, shape, round_of);
            return Self { seed, shape, rounds };
        }
        let shape = shape(Kind::of(seed), &mut random);
        let count = if shape.kind.is_window() { 2 + random.below(3) } else { 2 + random.below(7) };
        let rounds = (0..count).map(|at| round(&mut random, &shape, at, count)).collect();
        Self { seed, shape, rounds }
    }

    /// The life of a number: of 32, seventeen are of the kinds that aim at one window, fourteen are rich in something, and
    /// one has a little of everything. [`Kind::Flickering`] is not among them: these lives are for numbers of power cuts.
    #[must_use]
    pub fn numbered(number: u64) -> Self {
        let kind = match number % 32 {
            at if at % 2 == 0 => Kind::WINDOWS[(number / 2 % Kind::WINDOWS.len() as u64) as usize],
            1 => Kind::Patchwork,
            3 => Kind::Cramped,
            5 => Kind::Wide,
            7 | 15 => Kind::Lying,
            9 => Kind::Failing,
            25 => Kind::Changing,
            11 => Kind::Tight,
            13 => Kind::Sweeping,
            17 => Kind::Forgetting,
            19 => Kind::Mirrored,
            23 => Kind::Redundant,
            29 => Kind::Packed,
            21 => Kind::Naming,
            27 => Kind::Parity,
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
