//! S3-FIFO: a small queue that most blocks leave again before they are read a second time, a main queue whose blocks get
//! as many further rounds as they were read, and ghosts of what left (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023,
//! algorithm 1; its authors' code is `libCacheSim/cache/eviction/S3FIFO.c` of github.com/1a1a11a/libCacheSim).
//!
//! What is ours:
//!
//! * The size of the small queue follows the ghosts, as ARC's first list does: a block that comes back from the small queue's
//!   ghosts makes it larger, one that comes back from the main queue's makes it smaller. The paper's tenth of all places is what
//!   it begins with. With that alone, block traces in which a block is read twice and never again keep a third less
//!   than LRU does.
//! * What leaves the main queue has ghosts, too, half as many as there are places, and comes back to the main queue.
//! * One more read promotes a block, not two.
//! * An eviction chooses between the queues anew after each block that it promotes, and ends after [`ROUNDS_MAX`] of them.
//! * A run of blocks in sequence passes by where runs have not come back lately ([`Seen::Passed`]). It leaves ghosts only, so that
//!   what is read a second time soon is admitted. Places that nobody has used yet it may fill, as many in all as there are.
//! * A sample of what leaves the small queue unread is kept in the main one, as long as that pays ([`Sample`]).
//! * The second read of a block that was read just now, by one reader, promotes nothing ([`Step::Again`]).

use super::ghosts::Ghosts;
use super::key::Key;
use super::nodes::Nodes;
use super::runs::{Runs, Step};
use super::sample::Sample;

/// The small queue and the main one.
pub(super) const SMALL: usize = 0;
pub(super) const MAIN: usize = 1;
/// Reads of a block that are counted.
const READS_MAX: u8 = 3;
/// Beside them in its note: it belongs to the sample, and was not read since it was kept.
const KEPT: u8 = 4;
/// The part of the places that the small queue begins with, and between which it stays, in percent.
const SMALL_PERCENT: u32 = 10;
const SMALL_PERCENT_MIN: u32 = 1;
const SMALL_PERCENT_MAX: u32 = 95;
/// Ghosts of what left the small queue and the main one, in percent of the places.
const SMALL_GHOSTS_PERCENT: u32 = 90;
const MAIN_GHOSTS_PERCENT: u32 = 50;
/// Rounds that one eviction grants at most: then the oldest goes, whatever it was read. It bounds the time of a call.
const ROUNDS_MAX: u32 = 256;
/// By how much a block that comes back changes the small queue at least: two places, but in a small cache, where that is much, no more than
/// the queue has at least.
const STEP_PLACES: u32 = 2;

/// A share of the places: in parts of 2^40, so that the two queues' steps are not rounded differently (in whole places the small queue
/// of `ycsb:?workload=b` drifted until there were 11 % fewer hits than ARC has), and the share stays what it is however the number of places changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share(u64);

impl Share {
    const ONE: u64 = 1 << 40;

    /// Rounded up, so that a tenth of twenty is two.
    const fn percent(percent: u32) -> Self {
        Self((Self::ONE * percent as u64).div_ceil(100))
    }

    fn of(self, places: u32) -> u64 {
        ((u128::from(self.0) * u128::from(places)) >> 40) as u64
    }

    /// By how much a ghost changes it, beside so many ghosts of the other queue and of its own: the fewer there are of its own, the more
    /// one of them says (ARC, FAST 2003, figure 4).
    fn step(places: u32, others: u32, own: u32) -> u64 {
        let two_places = Self::ONE * u64::from(STEP_PLACES) / u64::from(places.max(1));
        let least = two_places.min(Self::percent(SMALL_PERCENT_MIN).0);
        let step = u128::from(least) * u128::from(others) / u128::from(own.max(1));
        step.clamp(u128::from(least), u128::from(Self::ONE)) as u64
    }

    /// Larger and smaller by so much, within what it may be.
    fn moved(self, up: u64, down: u64) -> Self {
        let (least, most) = (Self::percent(SMALL_PERCENT_MIN).0, Self::percent(SMALL_PERCENT_MAX).0);
        Self((self.0 + up).saturating_sub(down).clamp(least, most))
    }
}

fn percent(places: u32, percent: u32) -> u32 {
    (u64::from(places) * u64::from(percent) / 100) as u32
}

/// What is known of a block that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has a copy in this place.
    Hit(u32),
    /// It has none; [`S3Fifo::admit`] it when it was read.
    Miss,
    /// It has none, and is not worth one.
    Passed,
}

/// A block that gets a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Where it goes.
    pub place: u32,
    /// Whose copy was there.
    pub evicted: Option<Key>,
}

/// A block that has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The block.
    pub key: Key,
    /// Where its copy is.
    pub place: u32,
    /// Whether it was read again since it came.
    pub is_main: bool,
    /// How often it was read since, as far as that is counted: up to 3.
    pub reads: u8,
}

/// What happened, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Read, with a copy.
    pub hits: u64,
    /// Read, without.
    pub misses: u64,
    /// Those of the misses that would have been hits with more places: their ghosts were there.
    pub returned: u64,
    /// Those of the misses that were not worth a copy.
    pub passed: u64,
    /// Copied.
    pub admitted: u64,
}

/// The policy. Places are numbers below those that it was made with; what they are is up to who asks.
///
/// Nothing is allocated after it was made, and the time of a call does not depend on the number of places.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    nodes: Nodes<2>,
    /// Places that may be taken.
    places: u32,
    places_max: u32,
    /// Size of the small queue that is aimed at.
    small_share: Share,
    small_ghosts: Ghosts,
    main_ghosts: Ghosts,
    runs: Runs,
    /// What is kept of what leaves the small queue; nothing where filling the cache costs nothing.
    sample: Option<Sample>,
    seed: u64,
    /// Whether runs pass by.
    lets_runs_pass: bool,
    /// So many blocks of runs may still be admitted to places that are free, though nothing is to be expected of them: a loop that fits is
    /// there in its first round. It is as much as the cache holds, so that what frees places all the time does not let every scan in.
    first_turn_left: u32,
    counts: Counts,
}

impl S3Fifo {
    /// Over so many places, all of which may be taken. `seed`: whoever does not know it cannot choose blocks that are slow to find.
    #[must_use]
    pub fn new(places_max: u32, seed: u64) -> Self {
        Self {
            nodes: Nodes::new(places_max, seed),
            places: places_max,
            places_max,
            small_share: Share::percent(SMALL_PERCENT),
            small_ghosts: Ghosts::new(percent(places_max, SMALL_GHOSTS_PERCENT), seed),
            main_ghosts: Ghosts::new(percent(places_max, MAIN_GHOSTS_PERCENT), seed),
            runs: Runs::new(places_max, seed),
            sample: Some(Sample::default()),
            seed,
            lets_runs_pass: true,
            first_turn_left: places_max,
            counts: Counts::default(),
        }
    }

    /// The same for a cache that costs nothing to fill, as memory is: runs do not pass by ([`Seen::Passed`] is said of nothing). What is read
    /// twice at once, by requests that are not aligned, is a hit the second time. It keeps no sample: what lies behind it does.
    #[must_use]
    pub fn of_all_reads(places_max: u32, seed: u64) -> Self {
        Self { lets_runs_pass: false, sample: None, ..Self::new(places_max, seed) }
    }

    /// Memory over so many places: 23 bytes for each, and 15 for each of 1.4 ghosts.
    #[must_use]
    pub fn memory_bytes(places_max: u32) -> u64 {
        Nodes::<2>::memory_bytes(places_max)
            + Ghosts::memory_bytes(percent(places_max, SMALL_GHOSTS_PERCENT))
            + Ghosts::memory_bytes(percent(places_max, MAIN_GHOSTS_PERCENT))
            + size_of::<Self>() as u64
    }

    /// A block of the capacity tier is to be read. To be called in the order in which reads come, for that says who reads in sequence.
    pub fn seen(&mut self, key: Key) -> Seen {
        let step = self.runs.step(key);
        let found = self.nodes.find(key);
        self.counts.hits += u64::from(found.is_some());
        self.counts.misses += u64::from(found.is_none());
        let blocks = match (step, found) {
            // The second read of a block that was read just now says no more than the first: a scan would fill the main queue.
            (Step::Again { .. }, Some(number)) => return Seen::Hit(number),
            (Step::Again { passed: true }, None) => return Seen::Passed,
            (Step::Again { passed: false }, None) => return Seen::Miss,
            (Step::Next { blocks }, _) => blocks,
        };
        if let Some(number) = found {
            if self.is_kept(number)
                && let Some(sample) = &mut self.sample
            {
                sample.hit();
            }
            self.nodes.set_note(number, (self.reads(number) + 1).min(READS_MAX));
            self.runs.is_hopeless(blocks, true);
            return Seen::Hit(number);
        }
        let is_ghost = self.small_ghosts.find(key).or_else(|| self.main_ghosts.find(key)).is_some();
        self.counts.returned += u64::from(is_ghost);
        if self.lets_runs_pass && self.runs.is_hopeless(blocks, is_ghost) && !is_ghost {
            if self.held() < self.places && self.first_turn_left > 0 {
                self.first_turn_left -= 1;
                return Seen::Miss;
            }
            self.runs.passed();
            self.small_ghosts.push(key, true);
            self.counts.passed += 1;
            return Seen::Passed;
        }
        Seen::Miss
    }

    /// A block that [`Seen::Miss`] was said of was read: it gets a copy, unless it has one by now or there are no places. Between the
    /// two calls others may come. A block that was written meanwhile must not be admitted.
    pub fn admit(&mut self, key: Key) -> Option<Admitted> {
        if self.places == 0 || self.nodes.find(key).is_some() {
            return None;
        }
        let came_back = self.returns(key);
        let evicted = if self.held() >= self.places { self.evict() } else { None };
        let place = evicted.map(|(_, place)| place).or_else(|| self.nodes.free())?;
        self.nodes.add(place, key, if came_back { MAIN } else { SMALL });
        self.counts.admitted += 1;
        Some(Admitted { place, evicted: evicted.map(|(key, _)| key) })
    }

    /// A block was written or discarded: its copy is worth nothing, and its place is free. Whether it would come back is not known
    /// any more.
    pub fn remove(&mut self, key: Key) -> Option<u32> {
        for ghosts in [&mut self.small_ghosts, &mut self.main_ghosts] {
            if let Some(ghost) = ghosts.find(key) {
                ghosts.remove(ghost);
            }
        }
        let place = self.nodes.find(key)?;
        if self.is_kept(place)
            && let Some(sample) = &mut self.sample
        {
            sample.removed();
        }
        self.nodes.remove(place);
        Some(place)
    }

    /// How often the block in a place was read since it came, as far as that is counted.
    fn reads(&self, place: u32) -> u8 {
        self.nodes.note(place) & READS_MAX
    }

    fn is_kept(&self, place: u32) -> bool {
        self.nodes.note(place) & KEPT != 0
    }

    /// Gives up the block of least use, and says in which place its copy was.
    pub fn give_up_one(&mut self) -> Option<(Key, u32)> {
        self.evict()
    }

    /// Blocks that had a copy not long ago and are remembered.
    #[must_use]
    pub fn ghosts(&self) -> u32 {
        self.small_ghosts.len() + self.main_ghosts.len()
    }

    /// Where the copy of a block is; it does not count as read.
    #[must_use]
    pub fn place_of(&self, key: Key) -> Option<u32> {
        self.nodes.find(key)
    }

    /// Blocks that have a copy.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.nodes.len(SMALL) + self.nodes.len(MAIN)
    }

    /// Places that may be taken.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.places
    }

    /// What happened up to now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Only so many places may be taken from now on, at most as many as it was made with. `given_back` hears of those that are
    /// free by that, the block of least use first. Whoever may not wait does it in steps.
    pub fn resize(&mut self, places: u32, mut given_back: impl FnMut(Key, u32)) {
        self.places = places.min(self.places_max);
        while self.held() > self.places
            && let Some((key, place)) = self.evict()
        {
            given_back(key, place);
        }
        self.small_ghosts.resize(percent(self.places, SMALL_GHOSTS_PERCENT));
        self.main_ghosts.resize(percent(self.places, MAIN_GHOSTS_PERCENT));
        self.runs.resize(self.places);
    }

    /// The blocks that have a copy, those first that would stay longest: as far as this is kept, it is what is worth most.
    pub fn warm(&self) -> impl Iterator<Item = Warm> + '_ {
        [MAIN, SMALL].into_iter().flat_map(move |list| {
            std::iter::successors(self.nodes.newest(list), |&number| self.nodes.older(number))
                .map(move |place| self.at(place))
        })
    }

    /// The block that has its copy in a place; of one that is free, whatever was there last.
    #[must_use]
    pub fn at(&self, place: u32) -> Warm {
        let (is_main, reads) = (self.nodes.list(place) == MAIN, self.reads(place));
        Warm { key: self.nodes.key(place), place, is_main, reads }
    }

    /// Takes over a block of a list that [`Self::warm`] gave, in its order. False where there is no room, or the place or the
    /// block is there already: it is not taken over then.
    pub fn restore(&mut self, warm: Warm) -> bool {
        let Warm { key, place, is_main, reads } = warm;
        let is_free = place < self.places_max && self.nodes.is_free(place);
        if !is_free || self.held() >= self.places || self.nodes.find(key).is_some() {
            return false;
        }
        self.nodes.add_oldest(place, key, if is_main { MAIN } else { SMALL });
        self.nodes.set_note(place, reads.min(READS_MAX));
        true
    }

    /// What it has learned of how large the small queue should be, to be gone on with after a restart.
    #[must_use]
    pub fn learned(&self) -> u64 {
        self.small_share.0
    }

    /// Goes on with that; what cannot be is brought within what can.
    pub fn relearn(&mut self, learned: u64) {
        self.small_share = Share(learned.min(Share::ONE)).moved(0, 0);
    }

    /// Whether a block comes back that has a ghost, which is not needed any more. The queue that it left should have been larger.
    fn returns(&mut self, key: Key) -> bool {
        let (small, main) = (self.small_ghosts.len(), self.main_ghosts.len());
        if let Some(ghost) = self.small_ghosts.find(key) {
            if !ghost.was_passed {
                self.sample.iter_mut().for_each(|sample| sample.returned(true));
                self.small_share = self.small_share.moved(Share::step(self.places, main, small), 0);
            }
            self.small_ghosts.remove(ghost);
            return true;
        }
        let found = self.main_ghosts.find(key);
        if let Some(ghost) = found {
            self.sample.iter_mut().for_each(|sample| sample.returned(false));
            self.small_share = self.small_share.moved(0, Share::step(self.places, small, main));
            self.main_ghosts.remove(ghost);
        }
        found.is_some()
    }

    /// Frees the place of least use.
    fn evict(&mut self) -> Option<(Key, u32)> {
        let mut rounds = 0;
        let small_target = self.small_share.of(self.places).max(1);
        loop {
            let small = self.nodes.len(SMALL);
            let is_small = small > 0 && (u64::from(small) >= small_target || self.nodes.len(MAIN) == 0);
            let number = self.nodes.oldest(if is_small { SMALL } else { MAIN })?;
            let (key, reads, is_kept) = (self.nodes.key(number), self.reads(number), self.is_kept(number));
            let is_out = reads == 0 || rounds == ROUNDS_MAX;
            if let Some(sample) = &mut self.sample
                && is_out
            {
                // As long as nothing in the main queue has to go for it.
                let has_room = is_small && u64::from(small) > small_target && rounds < ROUNDS_MAX;
                if has_room && sample.keeps(key, self.seed, self.places) {
                    rounds += 1;
                    self.nodes.renew(number, MAIN);
                    self.nodes.set_note(number, KEPT);
                    continue;
                }
                sample.left(is_small);
                if is_kept {
                    sample.lost();
                }
            }
            if is_out {
                self.nodes.remove(number);
                if is_small { &mut self.small_ghosts } else { &mut self.main_ghosts }.push(key, false);
                return Some((key, number));
            }
            // Another round; in the small queue, where all begin, it was a trial.
            rounds += 1;
            self.nodes.renew(number, MAIN);
            self.nodes.set_note(number, if is_small { 0 } else { reads - 1 });
        }
    }
}

#[cfg(test)]
mod tests;
