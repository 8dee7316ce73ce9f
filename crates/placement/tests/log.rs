//! Compares the log with a map of addresses, for every policy and every choice of victims.
#![forbid(unsafe_code)]
// In tests a panic reports the failure.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use forebay_placement::grouping::{
    AgeChain, ByOrigin, ByRate, Collected, Dac, Future, Grouping, Move, NOTES, NoSeparation, Placed, SepBit, Version,
    Write,
};
use forebay_placement::log::{Log, Op};
use forebay_placement::victim::{Candidate, Choice};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const ADDRESSES: u32 = 200;
const BAND_BLOCKS: u32 = 16;
const SPARE: f64 = 0.2;
const ALL_CHOICES: [Choice; 4] =
    [Choice::Greedy, Choice::CostBenefitRoot, Choice::CostBenefit, Choice::CostBenefitCapped];

/// The last operation on each address: a version is identified by the time of its writing, which no two share.
#[derive(Debug, Default)]
struct Seen {
    now: u64,
    /// Where each living version was placed, by the time of its writing.
    live: BTreeMap<u64, Placed>,
    moves: u64,
}

/// A policy that checks every fact that the log gives, and passes it on to the real policy.
struct Witness {
    policy: Box<dyn Grouping>,
    seen: Rc<RefCell<Seen>>,
}

impl Witness {
    fn was(seen: &Seen, version: Version) -> u64 {
        let written_at = seen.now - version.age;
        let placed = seen.live.get(&written_at).expect("a version that nobody wrote or that is dead");
        assert_eq!((placed.group, placed.note), (version.group, version.note.unwrap()), "not where it was placed");
        written_at
    }

    fn good(&self, placed: Placed) -> Placed {
        assert!(placed.group < self.policy.groups(), "{placed:?}");
        assert!(placed.note < NOTES, "{placed:?}");
        placed
    }
}

impl Grouping for Witness {
    fn groups(&self) -> u8 {
        self.policy.groups()
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        let placed = self.policy.of_write(write);
        let mut seen = self.seen.borrow_mut();
        if let Some(below) = write.below {
            Self::was(&seen, below);
        }
        assert_eq!((write.valid_blocks, write.blocks), (seen.live.len() as u64, 1));
        seen.now += 1;
        let now = seen.now;
        seen.live.insert(now, self.good(placed));
        placed
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        let placed = self.policy.of_move(moved);
        let mut seen = self.seen.borrow_mut();
        let written_at = Self::was(&seen, moved.version);
        seen.live.insert(written_at, self.good(placed));
        seen.moves += 1;
        placed
    }

    fn died(&mut self, version: &Version) {
        self.policy.died(version);
        let mut seen = self.seen.borrow_mut();
        let written_at = Self::was(&seen, *version);
        seen.live.remove(&written_at);
    }

    fn collected(&mut self, band: &Collected) {
        assert!(band.group < self.policy.groups());
        self.policy.collected(band);
    }
}

fn policies() -> Vec<Box<dyn Grouping>> {
    let band = u64::from(BAND_BLOCKS);
    vec![
        Box::new(NoSeparation),
        Box::new(ByOrigin),
        Box::new(Dac),
        Box::new(SepBit::default()),
        Box::new(AgeChain::new(band, SPARE)),
        Box::new(ByRate::new(band, SPARE)),
        Box::new(Future::new(6, band)),
    ]
}

/// Writes, most of them to a few addresses, and discards.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    let address = prop_oneof![3 => 0..ADDRESSES / 8, 1 => 0..ADDRESSES];
    prop::collection::vec((address, 0..12u8), 1..6000).prop_map(|ops| {
        ops.into_iter().map(|(at, kind)| if kind == 0 { Op::Discard(at) } else { Op::Write(at) }).collect()
    })
}

fn lives_of(ops: &[Op]) -> Vec<Option<u64>> {
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let mut now = ops.iter().filter(|op| matches!(op, Op::Write(_))).count() as u64;
    let mut lives: Vec<_> = ops
        .iter()
        .rev()
        .map(|op| match *op {
            Op::Write(at) => {
                now -= 1;
                next.insert(at, now).map(|end| end - now)
            }
            Op::Discard(at) => {
                next.insert(at, now);
                None
            }
        })
        .collect();
    lives.reverse();
    lives
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The valid blocks are those of the model, every fact about a version is true, and space stays bounded.
    #[test]
    fn log_is_a_map_of_bounded_space(ops in ops()) {
        let lives = lives_of(&ops);
        for choice in ALL_CHOICES {
            for policy in policies() {
                let groups = u64::from(policy.groups());
                let seen = Rc::new(RefCell::new(Seen::default()));
                let witness = Witness { policy, seen: Rc::clone(&seen) };
                let mut log = Log::new(witness, choice, ADDRESSES as usize, BAND_BLOCKS, SPARE);
                let mut model = std::collections::BTreeSet::new();
                for (op, life) in ops.iter().zip(&lives) {
                    match *op {
                        Op::Write(at) => {
                            log.write(at, *life);
                            model.insert(at);
                            let garbage = (log.stored_blocks() - log.valid_blocks()) as f64;
                            let open = groups * u64::from(BAND_BLOCKS);
                            prop_assert!(garbage <= SPARE * log.stored_blocks() as f64 + open as f64);
                        }
                        Op::Discard(at) => {
                            log.discard(at);
                            model.remove(&at);
                        }
                    }
                    prop_assert_eq!(log.valid_blocks(), model.len() as u64);
                }
                for at in 0..ADDRESSES {
                    prop_assert_eq!(log.holds(at), model.contains(&at));
                }
                let seen = seen.borrow();
                prop_assert_eq!(log.written().host_blocks, seen.now);
                prop_assert_eq!(log.written().moved_blocks, seen.moves);
                prop_assert_eq!(seen.live.len(), model.len());
            }
        }
    }
}

/// Random addresses: a hot eighth gets seven of eight writes.
fn hot_and_cold(writes: usize, blocks: u32) -> impl Iterator<Item = u32> {
    let mut random = forebay_block::Random::new(7);
    (0..writes).map(move |_| match random.next_u64() % 8 {
        0 => blocks / 8 + (random.next_u64() % u64::from(blocks * 7 / 8)) as u32,
        _ => (random.next_u64() % u64::from(blocks / 8)) as u32,
    })
}

fn amplification(policy: impl Grouping, addresses: impl Iterator<Item = u32>, blocks: u32) -> f64 {
    let mut log = Log::new(policy, Choice::CostBenefit, blocks as usize, 64, 0.15);
    (0..blocks).chain(addresses).for_each(|address| log.write(address, None));
    log.written().amplification()
}

#[test]
fn groups_by_rate_part_hot_from_cold() {
    const BLOCKS: u32 = 1 << 14;
    let of = |policy: Box<dyn Grouping>| amplification(policy, hot_and_cold(20 * BLOCKS as usize, BLOCKS), BLOCKS);
    let (none, sepbit, ours) =
        (of(Box::new(NoSeparation)), of(Box::<SepBit>::default()), of(Box::new(ByRate::new(64, 0.15))));
    assert!(ours < 0.75 * none, "ours {ours}, nothing parted {none}");
    assert!(ours < 0.95 * sepbit, "ours {ours}, SepBIT {sepbit}");
}

/// The bands are so large that most invalid blocks lie in open bands: two groups move nearly full bands all the time,
/// while `ByRate` fills the open bands.
#[test]
fn open_bands_that_hide_the_spare_space_are_filled_up() {
    const BLOCKS: u32 = 1 << 13;
    let run = |policy: Box<dyn Grouping>| {
        let mut log = Log::new(policy, Choice::CostBenefitCapped, BLOCKS as usize, 1024, 0.1);
        hot_and_cold(10 * BLOCKS as usize, BLOCKS).for_each(|address| log.write(address, None));
        log.written().amplification()
    };
    let ours = run(Box::new(ByRate::new(1024, 0.1)));
    let by_origin = run(Box::new(ByOrigin));
    assert!(ours < 0.8 * by_origin, "ours {ours}, by origin {by_origin}");
}

/// Cyclic writes over a number of blocks that is no power of two: one group, and nothing to move, whatever the
/// rounding.
#[test]
fn a_recycled_log_is_not_spread_over_groups() {
    const BLOCKS: u32 = 360;
    let mut log = Log::new(ByRate::new(64, 0.2), Choice::CostBenefitCapped, BLOCKS as usize, 64, 0.2);
    (0..500).flat_map(|_| 0..BLOCKS).for_each(|address| log.write(address, None));
    assert!(log.written().moved_blocks <= u64::from(BLOCKS), "{:?}", log.written());
}

#[test]
fn nothing_is_moved_where_everything_is_overwritten_in_turn() {
    const BLOCKS: u32 = 4096;
    let rounds = (0..10).flat_map(|_| 0..BLOCKS);
    assert!((amplification(NoSeparation, rounds, BLOCKS) - 1.0).abs() < 1e-12);
}

#[test]
fn victims_are_chosen_as_published() {
    let band = |band, valid, age| Candidate { band, group: 0, valid, blocks: 100, age, log_valid: 10 };
    // The emptiest is young; (1 - u) / u is 4, 3 and 1; with the root of the age 4, 9 and 10; with the age 4, 27 and
    // 100.
    let bands = [band(1, 20, 0), band(2, 25, 8), band(3, 50, 99)];
    assert_eq!(Choice::Greedy.best(bands.into_iter()), Some(1));
    assert_eq!(Choice::CostBenefitRoot.best(bands.into_iter()), Some(3));
    assert_eq!(Choice::CostBenefitRoot.best(bands[..2].iter().copied()), Some(2));
    assert_eq!(Choice::CostBenefit.best(bands.into_iter()), Some(3));
    // 10 blocks are valid in the log: an age of 99 counts as 20, which gives 4, 27 and 21.
    assert_eq!(Choice::CostBenefitCapped.best(bands.into_iter()), Some(2));
    // A band without valid blocks is chosen at once; the first of equals.
    let empty = [band(1, 20, 1 << 40), band(2, 0, 0), band(3, 0, 0)];
    for choice in ALL_CHOICES {
        assert_eq!(choice.best(empty.into_iter()), Some(2), "{choice:?}");
        assert_eq!(choice.best(std::iter::empty()), None, "{choice:?}");
    }
}
