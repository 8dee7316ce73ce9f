//! S3-FIFO: a small queue that most blocks leave before they are read a second time, a main queue whose blocks get as
//! many further rounds as they were read, and ghosts of evicted blocks (Yang and others, "FIFO queues are all you
//! need for cache eviction", SOSP 2023, algorithm 1; its authors' code is `libCacheSim/cache/eviction/S3FIFO.c` of
//! github.com/1a1a11a/libCacheSim).
//!
//! What differs from the paper:
//!
//! * The size of the small queue follows the ghosts, as the size of ARC's first list does: a block that returns from
//!   the ghosts of the small queue enlarges it, and one that returns from the ghosts of the main queue shrinks it. It
//!   begins with the paper's tenth of all places. If the size stayed at that, block traces in which each block is
//!   read twice and never again would have a third fewer hits than with LRU.
//! * Blocks evicted from the main queue have ghosts, too, half as many as there are places, and return to the main
//!   queue.
//! * One further read promotes a block, not two.
//! * An eviction chooses between the queues anew after each block that it promotes, and ends after [`ROUNDS_MAX`]
//!   promotions.
//! * A run of blocks in sequence passes the cache if runs have not returned lately ([`Seen::Passed`]). It leaves
//!   ghosts only, so that a block read again soon is admitted. A run may fill places that were never used, as many in
//!   all as there are.
//! * A sample of the blocks that leave the small queue unread stays in the main queue, as long as that pays
//!   ([`Sample`]).
//! * If one reader reads a block twice in immediate succession, the second read promotes nothing ([`Step::Again`]).

use super::ghosts::Ghosts;
use super::key::Key;
use super::nodes::Nodes;
use super::runs::{Runs, Step};
use super::sample::Sample;

/// The lists: the small queue and the main queue.
pub(super) const SMALL: usize = 0;
pub(super) const MAIN: usize = 1;
/// Reads of a block are counted up to this.
const READS_MAX: u8 = 3;
/// A further bit of a node's note: the block belongs to the sample, and was not read since it joined.
const KEPT: u8 = 4;
/// Initial, least and greatest size of the small queue, in percent of the places.
const SMALL_PERCENT: u32 = 10;
const SMALL_PERCENT_MIN: u32 = 1;
const SMALL_PERCENT_MAX: u32 = 95;
/// Ghosts of the small queue and of the main queue, in percent of the places.
const SMALL_GHOSTS_PERCENT: u32 = 90;
const MAIN_GHOSTS_PERCENT: u32 = 50;
/// Most rounds that one eviction grants: then the oldest block is evicted, however often it was read. This bounds the
/// time of a call.
const ROUNDS_MAX: u32 = 256;
/// Least change of the small queue by a block that returns: two places; in a small cache, where two places are much,
/// no more than the least size of the queue.
const STEP_PLACES: u32 = 2;

/// A share of the places, in parts of 2^40, so that the steps of both queues are not rounded differently (in whole
/// places the small queue of `ycsb:?workload=b` drifted until it had 11 % fewer hits than ARC), and the share stays
/// the same however the number of places changes.
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

    /// How much a returning ghost changes the share, with `others` ghosts of the other queue and `own` of its own:
    /// the fewer ghosts its own queue has, the more one of them means (ARC, FAST 2003, figure 4).
    fn step(places: u32, others: u32, own: u32) -> u64 {
        let two_places = Self::ONE * u64::from(STEP_PLACES) / u64::from(places.max(1));
        let least = two_places.min(Self::percent(SMALL_PERCENT_MIN).0);
        let step = u128::from(least) * u128::from(others) / u128::from(own.max(1));
        step.clamp(u128::from(least), u128::from(Self::ONE)) as u64
    }

    /// The share plus `up` minus `down`, within its limits.
    fn moved(self, up: u64, down: u64) -> Self {
        let (least, most) = (Self::percent(SMALL_PERCENT_MIN).0, Self::percent(SMALL_PERCENT_MAX).0);
        Self((self.0 + up).saturating_sub(down).clamp(least, most))
    }
}

fn percent(places: u32, percent: u32) -> u32 {
    (u64::from(places) * u64::from(percent) / 100) as u32
}

/// The cache's answer about a block that is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The block has a copy in this place.
    Hit(u32),
    /// The block has no copy; call [`S3Fifo::admit`] once it has been read.
    Miss,
    /// The block has no copy, and is not worth one.
    Passed,
}

/// An admitted block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The place for its copy.
    pub place: u32,
    /// The block whose copy was in that place before; `None` if the place was free.
    pub evicted: Option<Key>,
}

/// A block with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The block.
    pub key: Key,
    /// The place of its copy.
    pub place: u32,
    /// Whether the copy is in the main queue.
    pub is_main: bool,
    /// Further rounds that the block's reads have earned in its queue, 0 to 3: each read adds one, each round granted in
    /// the main queue uses one up.
    pub reads: u8,
}

/// Counters since the cache was created, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of blocks with a copy.
    pub hits: u64,
    /// Reads of blocks without a copy.
    pub misses: u64,
    /// Misses that would have been hits with more places: these blocks had ghosts.
    pub returned: u64,
    /// Misses of blocks that were not worth a copy.
    pub passed: u64,
    /// Blocks that got a copy.
    pub admitted: u64,
}

/// The replacement policy of the read cache. A place is a number below `places_max`; the caller decides what a place
/// is.
///
/// The policy allocates nothing after its creation, and the time of a call does not depend on the number of places.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    nodes: Nodes<2>,
    /// Number of places that may be used.
    places: u32,
    places_max: u32,
    /// Target size of the small queue.
    small_share: Share,
    small_ghosts: Ghosts,
    main_ghosts: Ghosts,
    runs: Runs,
    /// The sample of blocks that leave the small queue; `None` for a cache that costs nothing to fill.
    sample: Option<Sample>,
    seed: u64,
    /// Whether runs pass the cache.
    lets_runs_pass: bool,
    /// How many more blocks of runs may be admitted to free places, although they are not expected to be read again:
    /// so a loop that fits is in the cache after its first round. It starts with the size of the cache, so that a
    /// workload which keeps freeing places does not let every scan in.
    first_turn_left: u32,
    counts: Counts,
}

impl S3Fifo {
    /// An empty cache of `places_max` places, all of which may be used. Only somebody who knows `seed` can choose
    /// blocks that are slow to find.
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

    /// The same for a cache that costs nothing to fill, such as memory: runs do not pass it ([`Self::seen`] never
    /// returns [`Seen::Passed`]). If requests that are not aligned read a block twice at once, the second read is a
    /// hit. It keeps no sample: the cache behind it does.
    #[must_use]
    pub fn of_all_reads(places_max: u32, seed: u64) -> Self {
        Self { lets_runs_pass: false, sample: None, ..Self::new(places_max, seed) }
    }

    /// Memory for `places_max` places: 23 bytes for each, and 15 for each of 1.4 times as many ghosts.
    #[must_use]
    pub fn memory_bytes(places_max: u32) -> u64 {
        Nodes::<2>::memory_bytes(places_max)
            + Ghosts::memory_bytes(percent(places_max, SMALL_GHOSTS_PERCENT))
            + Ghosts::memory_bytes(percent(places_max, MAIN_GHOSTS_PERCENT))
            + size_of::<Self>() as u64
    }

    /// A block of the capacity tier is about to be read. Call this in the order in which reads arrive, since this
    /// order shows sequential reads.
    pub fn seen(&mut self, key: Key) -> Seen {
        let step = self.runs.step(key);
        let found = self.nodes.find(key);
        self.counts.hits += u64::from(found.is_some());
        self.counts.misses += u64::from(found.is_none());
        let blocks = match (step, found) {
            // The second read of a block in immediate succession means no more than the first: otherwise a scan would
            // fill the main queue.
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

    /// Admits a block for which [`Self::seen`] returned [`Seen::Miss`] and which has been read; `None` if it has a
    /// copy by now, or if there are no places. Other calls may come between these two. A block that was written
    /// meanwhile must not be admitted.
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

    /// A block was written or discarded: removes its copy and its ghost, and returns the place that becomes free;
    /// `None` if it had no copy.
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

    /// Further rounds that the reads of the block in a place have earned, 0 to 3.
    fn reads(&self, place: u32) -> u8 {
        self.nodes.note(place) & READS_MAX
    }

    fn is_kept(&self, place: u32) -> bool {
        self.nodes.note(place) & KEPT != 0
    }

    /// Evicts the least useful block; returns it and the place of its copy. `None` if the cache is empty.
    pub fn give_up_one(&mut self) -> Option<(Key, u32)> {
        self.evict()
    }

    /// Number of ghosts: blocks that are remembered but have no copy.
    #[must_use]
    pub fn ghosts(&self) -> u32 {
        self.small_ghosts.len() + self.main_ghosts.len()
    }

    /// The place of a block's copy; does not count as a read. `None` if it has no copy.
    #[must_use]
    pub fn place_of(&self, key: Key) -> Option<u32> {
        self.nodes.find(key)
    }

    /// Number of blocks with a copy.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.nodes.len(SMALL) + self.nodes.len(MAIN)
    }

    /// Number of places that may be used.
    #[must_use]
    pub fn places(&self) -> u32 {
        self.places
    }

    /// The counters since the cache was created.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// From now on at most `places` places may be used, and at most as many as the cache was created with.
    /// `given_back` is called for each block that is evicted for this, the least useful first. A caller that may not
    /// wait shrinks the cache in steps.
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

    /// The blocks with a copy, starting with those that would stay the longest: a caller that keeps only the first of
    /// them keeps the most useful.
    pub fn warm(&self) -> impl Iterator<Item = Warm> + '_ {
        [MAIN, SMALL].into_iter().flat_map(move |list| {
            std::iter::successors(self.nodes.newest(list), |&number| self.nodes.older(number))
                .map(move |place| self.at(place))
        })
    }

    /// The block whose copy is in a place; for a free place, its last block.
    #[must_use]
    pub fn at(&self, place: u32) -> Warm {
        let (is_main, reads) = (self.nodes.list(place) == MAIN, self.reads(place));
        Warm { key: self.nodes.key(place), place, is_main, reads }
    }

    /// Restores a block from the list that [`Self::warm`] gave, in its order. Returns false, and changes nothing, if
    /// there is no room, or if the place is occupied or the block is present.
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

    /// The learned size of the small queue, to be continued after a restart with [`Self::relearn`].
    #[must_use]
    pub fn learned(&self) -> u64 {
        self.small_share.0
    }

    /// Continues with a learned size; a value out of range is clamped.
    pub fn relearn(&mut self, learned: u64) {
        self.small_share = Share(learned.min(Share::ONE)).moved(0, 0);
    }

    /// Whether a block has a ghost, which is then removed. The queue that the block left should have been larger, and
    /// is enlarged.
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

    /// Frees the place of the least useful block.
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
                // Only as long as nothing in the main queue has to be evicted for it.
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
            // Another round. In the small queue, where all blocks begin, the time was a trial: the block's reads
            // start at 0 again.
            rounds += 1;
            self.nodes.renew(number, MAIN);
            self.nodes.set_note(number, if is_small { 0 } else { reads - 1 });
        }
    }
}

#[cfg(test)]
mod tests;
