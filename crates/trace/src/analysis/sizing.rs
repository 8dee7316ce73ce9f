//! How large a fast tier should be, and for which data. This is a second pass over the trace, or over what the first pass [kept](Writes) of
//! it, after the table of its rows is known.
//!
//! Rows are taken in the order of their beta. For each number of pinned rows, a stack of the writes of all other rows shows what staging
//! absorbs in the space that is left (algorithm: `models-and-placement.md`, "a rewrite is trapped if its write-stack distance fits the
//! tier"). Each size then gets the number of pinned rows that absorbs most.

mod outcome;
mod weighing;

pub use outcome::{Pinned, Sized, Sizes, Way};

use super::fetching::{Fetching, NEAR_BLOCKS};
use super::groups::{GROUPS, Groups};
use super::histogram::Histogram;
use super::hot::{Finder, Hot};
use super::report::Report;
use super::rows::{Part, Rows};
use super::sampling::{Sample, address};
use super::slots::{Extent, NEIGHBOURS, Slot, Slots};
use super::stack::{LIVE_MAX, Place, Stack};
use super::writes::{Step, Writes, whole_blocks};
use super::{Options, REQUESTS_FETCHED, moved, touched};
use crate::{Knows, Names, Op, Request};
use std::hint::black_box;
use weighing::{PARTS, Seen, Staged};

/// Approximate memory of a followed block in bytes: its number (if no neighbour is followed and the table has its worst load), and for each
/// count of pinned rows its place with its marks.
const NUMBER_BYTES: u64 = 96;
const PLACE_BYTES: u64 = 12;
/// Most rows that are tried as pinned.
const PINNED_MAX: usize = 16;
/// A row with a smaller share of the writes is not worth a class.
const ROW_SHARE_MIN: f64 = 0.0001;

/// How the writes of a row are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Pinned if the number of pinned rows is above its rank; otherwise staged.
    Ranked(usize),
    /// Always staged.
    Staged,
    /// Written past the fast tier.
    Bypassed,
}

impl Fate {
    /// Whether the row is staged if `pinned` rows are pinned.
    fn is_staged(self, pinned: usize) -> bool {
        match self {
            Self::Ranked(rank) => pinned <= rank,
            Self::Staged => true,
            Self::Bypassed => false,
        }
    }
}

/// The place of a block that is not staged.
const NOWHERE: Place = Place::MAX;

/// The place of the block at distance `blocks` behind the one at `place` in its extent.
fn ahead(place: Place, blocks: Place) -> Place {
    if place == NOWHERE { NOWHERE } else { place + blocks }
}

/// Copies places after an extent was cut: each part gets the places of its own first block, in `rests` stacks.
fn part_of(places: &mut Vec<Place>, rests: usize, part: &Extent) {
    if places.len() < part.end() * rests {
        places.resize(part.end() * rests, NOWHERE);
    }
    let Some((number, before)) = part.of else { return };
    for pinned in 0..rests {
        let all = places[number as usize * rests + pinned];
        if let Some((tail, before)) = part.tail {
            places[tail as usize * rests + pinned] = ahead(all, before);
        }
        places[part.number as usize * rests + pinned] = ahead(all, before);
    }
}

/// The writes of all rows that are not pinned, for one number of pinned rows.
struct Rest {
    stack: Stack,
    /// Distances in blocks for each part of the trace.
    distances: Vec<Histogram>,
    /// Weighted number of written blocks that were followed, for each part.
    followed: Vec<f64>,
    /// The groups that give the sample's error.
    groups: Groups,
    /// Blocks that are written most; they count whether or not they are in the sample.
    hot: Hot,
}

impl Rest {
    /// Takes a block out of the stack because it is no longer staged. The mark of a hot block does not count, so its gap must not either.
    fn leave(&mut self, place: Place, is_hot: bool) {
        if is_hot { self.stack.forget(place) } else { self.stack.remove(place) }
    }
}

/// A sizing in progress.
pub struct Sizing {
    rows: Rows,
    order: Vec<Pinned>,
    bypassed: Vec<Pinned>,
    /// Names of rows that are written past the fast tier.
    past: Vec<String>,
    /// Fates by row number, as far as they are known.
    fates: Vec<Fate>,
    /// One entry for 0, 1, 2, ... pinned rows.
    rests: Vec<Rest>,
    /// Blocks that are staged if nothing is pinned; with pinned rows, a subset is staged.
    slots: Slots,
    /// For each extent number, the places of its first block in the stacks of all `rests`. The blocks behind it have the following places.
    places: Vec<Place>,
    sample: Sample,
    find: Finder,
    fetching: Fetching,
    limit: usize,
    total_bytes: u64,
    footprint_bytes: u64,
    written_footprint_bytes: u64,
    written_bytes: u64,
    /// For each part: written blocks by row in the order, and in total.
    pinned_blocks: Vec<Vec<u64>>,
    blocks: Vec<u64>,
    bypassed_blocks: Vec<u64>,
    parts: Vec<Part>,
}

impl Sizing {
    /// Begins a sizing, with the report of a first pass with the same options.
    #[must_use]
    pub fn new(options: &Options, report: &Report) -> Self {
        let total_bytes: u64 = report.rows.iter().map(|row| row.written_bytes).sum();
        let worth = |bytes: u64| bytes as f64 >= total_bytes as f64 * ROW_SHARE_MIN;
        let mut order: Vec<Pinned> = report
            .rows
            .iter()
            .filter(|row| worth(row.written_bytes))
            .filter_map(|row| {
                let (name, occupancy_bytes) = (row.name.clone(), row.occupancy_bytes);
                row.beta.map(|beta| Pinned { name, occupancy_bytes, beta })
            })
            .collect();
        let mut bypassed = order.clone();
        bypassed.retain(|row| options.bypassed.contains(&row.name));
        order.retain(|row| !options.bypassed.contains(&row.name));
        order.sort_by(|a, b| b.beta.total_cmp(&a.beta));
        order.truncate(PINNED_MAX);
        let rests = (0..=order.len())
            .map(|_| Rest {
                stack: Stack::default(),
                distances: vec![Histogram::default(); PARTS],
                followed: vec![0.0; PARTS],
                groups: Groups::default(),
                hot: Hot::default(),
            })
            .collect::<Vec<_>>();
        let block_bytes = NUMBER_BYTES + PLACE_BYTES * rests.len() as u64;
        let limit = usize::try_from(options.memory_bytes / block_bytes).unwrap_or(usize::MAX);
        Self {
            rows: Rows::new(options.by, &options.rules),
            fates: Vec::new(),
            past: options.bypassed.clone(),
            bypassed,
            sample: Sample::one_in_power(options.sample_halvings),
            find: Finder::default(),
            fetching: Fetching::default(),
            limit: limit.clamp(1024, LIVE_MAX),
            total_bytes,
            footprint_bytes: report.footprint_bytes,
            written_footprint_bytes: report.written_footprint_bytes,
            written_bytes: 0,
            pinned_blocks: vec![vec![0; order.len()]; PARTS],
            blocks: vec![0; PARTS],
            bypassed_blocks: vec![0; PARTS],
            parts: Vec::new(),
            slots: Slots::default(),
            places: Vec::new(),
            rests,
            order,
        }
    }

    /// Handles the next requests of the trace, which must be the same as in the first pass.
    pub fn add(&mut self, requests: &[Request], names: &Names, knows: Knows) {
        for requests in requests.chunks(REQUESTS_FETCHED) {
            self.fetch(requests.iter().filter_map(moved).filter(|(_, _, _, is_write)| *is_write));
            requests.iter().for_each(|request| self.one(request, names, knows));
        }
    }

    /// Handles the whole trace from what the first pass [kept](super::Analysis::keeping_writes) of it.
    pub fn repeat(&mut self, writes: &Writes) {
        self.find_fates(&writes.names);
        let mut at = 0;
        for steps in writes.steps(REQUESTS_FETCHED) {
            self.fetch(steps.clone().filter_map(|step| match step {
                Step::Part(volume, first, blocks, _) => Some((volume, first, blocks, true)),
                _ => None,
            }));
            for step in steps {
                match step {
                    Step::Begin(len_bytes) => at = self.begin(len_bytes),
                    Step::Part(volume, first, blocks, row) => self.write_part((volume, first, blocks), row, at),
                    Step::Discard(volume, first, blocks) => self.discard(volume, first, blocks),
                }
            }
        }
    }

    fn one(&mut self, request: &Request, names: &Names, knows: Knows) {
        let Some((first, blocks @ 1..)) = touched(request) else { return };
        match request.op {
            Op::Write => self.write(request, (first, blocks), names, knows),
            // Behaviour must see the same requests as in the first pass.
            Op::Read | Op::Access => {
                self.rows.read(request, first, blocks, names, knows);
            }
            Op::Discard | Op::WriteZeroes => {
                self.rows.discard(request);
                if let Some((first, blocks)) = whole_blocks(request) {
                    self.discard(request.volume, first, blocks);
                }
            }
            Op::Flush => {}
        }
    }

    /// Prefetches the state of blocks that are written next.
    fn fetch(&mut self, writes: impl Iterator<Item = (u32, u64, u64, bool)>) {
        if self.sample.weight() > 1 || self.slots.len() < NEAR_BLOCKS {
            return;
        }
        let Self { fetching, slots, places, rests, .. } = self;
        let count = rests.len();
        let found = fetching.entries(slots, writes);
        let of_block = |slot: Slot| places.get(slot as usize * count..).unwrap_or_default();
        // The places of a block lie side by side.
        let first = |slot| of_block(slot).first().unwrap_or(&NOWHERE);
        black_box(found.iter().fold(0, |sum, &(slot, _)| sum ^ first(slot)));
        let looked = found.iter().fold(0, |sum, &(slot, _)| {
            rests.iter().zip(of_block(slot)).fold(sum, |sum, (rest, &place)| sum ^ rest.stack.look(place))
        });
        black_box(looked);
    }

    fn write(&mut self, request: &Request, (first, blocks): (u64, u64), names: &Names, knows: Knows) {
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        self.rows.write(request, first, blocks, names, knows, &mut parts);
        let at = self.begin(request.len_bytes);
        let mut block = first;
        for part in &parts {
            self.write_part((request.volume, block, part.blocks), part.row, at);
            block += part.blocks;
        }
        self.parts = parts;
    }

    /// Begins a write of `len_bytes`; returns the part of the trace that it belongs to.
    fn begin(&mut self, len_bytes: u64) -> usize {
        let at = self.part();
        self.written_bytes += len_bytes;
        at
    }

    /// Handles a part of a write (volume, first block, blocks) that belongs to one row.
    fn write_part(&mut self, (volume, first, blocks): (u32, u64, u64), row: u16, at: usize) {
        let fate = self.fate(row);
        self.blocks[at] += blocks;
        match fate {
            Fate::Ranked(rank) => self.pinned_blocks[at][rank] += blocks,
            Fate::Bypassed => self.bypassed_blocks[at] += blocks,
            Fate::Staged => {}
        }
        self.follow_hot((volume, first, blocks), fate, at);
        let done = self.follow_alike(address(volume, first), blocks, fate, at);
        let sample = self.sample;
        sample.each(volume, first + done, blocks - done, |key| {
            if self.sample.keeps(key, sample) {
                self.follow(key, fate, at);
            }
        });
        self.find_hot((volume, first, blocks), fate);
    }

    /// Handles writes of the hot blocks among these blocks, by a row with this fate.
    fn follow_hot(&mut self, (volume, first, count): (u32, u64, u64), fate: Fate, at: usize) {
        let weight = self.sample.weight();
        for (pinned, rest) in self.rests.iter_mut().enumerate() {
            for key in rest.hot.among(address(volume, first), count) {
                if let Some(distance) = rest.hot.take(key, &rest.stack, weight) {
                    rest.distances[at].add_weighted(distance, 1.0);
                }
                if fate.is_staged(pinned) {
                    rest.followed[at] += 1.0;
                    rest.hot.put(key, &rest.stack, self.sample.has(key));
                }
            }
        }
    }

    /// Counts writes of these blocks by a row with this fate, to find hot blocks.
    fn find_hot(&mut self, (volume, first, count): (u32, u64, u64), fate: Fate) {
        if count == 0 || self.sample.weight() == 1 {
            return;
        }
        let Self { find, rests, slots, places, sample, .. } = self;
        let enough = find.enough();
        find.count(volume, first, count, |key| {
            let slot = slots.get(key).filter(|_| sample.has(key));
            let places = slot.map(|slot| &places[slot as usize * rests.len()..][..rests.len()]);
            for (pinned, rest) in rests.iter_mut().enumerate() {
                if fate.is_staged(pinned) {
                    let place = places.map(|places| places[pinned]).filter(|place| *place != NOWHERE);
                    rest.hot.add(key, &rest.stack, place, enough);
                } else {
                    rest.hot.name(key, enough);
                }
            }
        });
    }

    /// While all blocks are followed and there is room for more: handles a write of `count` blocks from an address by a row with this fate,
    /// a whole extent at a time (as in [`Blocks`](super::blocks::Blocks)). Returns the number of blocks done; the others are left to
    /// [`Self::follow`], one by one.
    fn follow_alike(&mut self, begin: u64, count: u64, fate: Fate, at: usize) -> u64 {
        let (mut done, rests) = (0, self.rests.len());
        // The previous extent, and its number of blocks.
        let mut last: Option<(Slot, u64)> = None;
        while done < count && self.has_extents() && fate.is_staged(0) {
            for (pinned, rest) in self.rests.iter_mut().enumerate() {
                if rest.stack.has_no_room_for(NEIGHBOURS as usize) {
                    let of_rest = self.places.iter_mut().skip(pinned).step_by(rests);
                    rest.stack.pack(of_rest.filter(|place| **place != NOWHERE));
                }
            }
            let address = begin + done;
            if !self.is_simple(address, fate) {
                self.follow(address, fate, at);
                (done, last) = (done + 1, None);
                continue;
            }
            let part = self.slots.cut(address, count - done);
            part_of(&mut self.places, rests, &part);
            let own = part.number as usize * rests;
            for (pinned, rest) in self.rests.iter_mut().enumerate().filter(|(pinned, _)| fate.is_staged(*pinned)) {
                rest.followed[at] += part.len as f64;
                let place = &mut self.places[own + pinned];
                *place = match *place {
                    NOWHERE => rest.stack.push_all(part.len as usize),
                    known => {
                        rest.distances[at].add_repeatedly(rest.stack.above(known) as u64, 1.0, part.len);
                        rest.stack.raise_all(known, part.len as usize)
                    }
                };
            }
            match &mut last {
                Some((number, blocks))
                    if !address.is_multiple_of(NEIGHBOURS)
                        && (0..rests).all(|pinned| {
                            let before = self.places[*number as usize * rests + pinned];
                            self.places[own + pinned] == ahead(before, *blocks as Place)
                        }) =>
                {
                    self.slots.join(address, part.len, *number);
                    self.places[own..own + rests].fill(NOWHERE);
                    *blocks += part.len;
                }
                _ => last = Some((part.number, part.len)),
            }
            done += part.len;
        }
        done
    }

    /// Whether similar neighbours share one number. This ends when the table, which may then be full, is converted to single blocks.
    fn has_extents(&mut self) -> bool {
        let may_be_full = self.sample.weight() > 1 || self.slots.len() + NEIGHBOURS as usize > self.limit;
        let Self { slots, places, rests, .. } = self;
        slots.has_extents(may_be_full, |part| part_of(places, rests.len(), &part))
    }

    /// Whether the blocks of an extent stay staged wherever they are, and fill no gaps: only then are they handled alike.
    fn is_simple(&mut self, address: u64, fate: Fate) -> bool {
        let Some((number, blocks)) = self.slots.extent(address) else { return true };
        let places = &self.places[number as usize * self.rests.len()..];
        self.rests.iter().zip(places).enumerate().all(|(pinned, (rest, &place))| {
            place == NOWHERE || fate.is_staged(pinned) && !rest.stack.has_gap_above(place + blocks)
        })
    }

    /// Handles a write of one block by a row with this fate.
    fn follow(&mut self, key: u64, fate: Fate, at: usize) {
        let weight = self.sample.weight();
        let group = (weight > 1).then(|| self.sample.group(key, GROUPS));
        let count = self.rests.len();
        if let Some(part) = self.slots.part(key) {
            part_of(&mut self.places, count, &part);
        }
        let slot = if fate.is_staged(0) { Some(self.slots.follow(key).0) } else { self.slots.remove(key) };
        let Some(slot) = slot else { return };
        let begin = slot as usize * count;
        if self.places.len() <= begin {
            self.places.resize(begin + count, NOWHERE);
        }
        for (pinned, rest) in self.rests.iter_mut().enumerate() {
            let is_hot = rest.hot.has(key);
            let place = self.places[begin + pinned];
            let known = (place != NOWHERE).then_some(place);
            if let Some(place) = known.filter(|_| !is_hot) {
                // The staged version is dead: if it was still on the fast tier, the capacity tier is spared it.
                let distance = rest.hot.distance(place, &rest.stack, weight);
                rest.distances[at].add_weighted(distance, weight as f64);
                if let Some(group) = group {
                    rest.groups.again(group, distance, weight);
                }
            }
            if !fate.is_staged(pinned) {
                known.into_iter().for_each(|place| rest.leave(place, is_hot));
                self.places[begin + pinned] = NOWHERE;
                continue;
            }
            if !is_hot {
                rest.followed[at] += weight as f64;
                if let Some(group) = group {
                    rest.groups.access(group, weight);
                }
            }
            if rest.stack.is_full() {
                let of_rest = self.places.iter_mut().skip(pinned).step_by(count);
                rest.stack.pack(of_rest.filter(|place| **place != NOWHERE).chain(rest.hot.places()));
            }
            let place = &mut self.places[begin + pinned];
            *place = match *place {
                NOWHERE => rest.stack.push(),
                known => rest.stack.raise(known),
            };
        }
        while self.slots.len() > self.limit {
            self.sample.halve();
            let sample = self.sample;
            let Self { slots, places, rests, .. } = self;
            rests.iter_mut().for_each(|rest| rest.hot.retain_sampled(|key| sample.has(key)));
            slots.retain(|key, slot| {
                let stays = sample.has(key);
                if !stays {
                    for (rest, place) in rests.iter_mut().zip(&mut places[slot as usize * count..]) {
                        if *place != NOWHERE {
                            rest.stack.forget(std::mem::replace(place, NOWHERE));
                        }
                    }
                }
                stays
            });
            rests.iter_mut().for_each(|rest| rest.stack.forget_half_of_gaps());
        }
    }

    /// The part of the trace, by the bytes written so far.
    fn part(&self) -> usize {
        let at = u128::from(self.written_bytes) * PARTS as u128 / u128::from(self.total_bytes.max(1));
        (at as usize).min(PARTS - 1)
    }

    fn fate(&mut self, row: u16) -> Fate {
        let at = usize::from(row);
        if self.fates.len() <= at {
            let names = self.rows.names().to_vec();
            self.find_fates(&names);
        }
        self.fates.get(at).copied().unwrap_or(Fate::Staged)
    }

    /// Finds the fates of the rows with these names.
    fn find_fates(&mut self, names: &[String]) {
        let fate = |name: &String| match self.order.iter().position(|row| row.name == *name) {
            Some(rank) => Fate::Ranked(rank),
            None if self.past.contains(name) => Fate::Bypassed,
            None => Fate::Staged,
        };
        self.fates = names.iter().map(fate).collect();
    }

    /// Handles a discard of `count` blocks of a volume.
    fn discard(&mut self, volume: u32, first: u64, count: u64) {
        let known = (self.slots.len(), self.slots.addresses());
        let followed = self.sample.among(volume, first, count, known);
        for &key in &followed {
            if let Some(part) = self.slots.part(key) {
                part_of(&mut self.places, self.rests.len(), &part);
            }
        }
        let slots: Vec<(u64, Slot)> =
            followed.into_iter().filter_map(|key| Some((key, self.slots.remove(key)?))).collect();
        let at = self.part();
        let weight = self.sample.weight();
        let rests = self.rests.len();
        for (pinned, rest) in self.rests.iter_mut().enumerate() {
            // A block that is discarded while it is staged never reaches the capacity tier either.
            for key in rest.hot.among(address(volume, first), count) {
                if let Some(distance) = rest.hot.take(key, &rest.stack, weight) {
                    rest.distances[at].add_weighted(distance, 1.0);
                }
            }
            for &(key, slot) in &slots {
                let of_block = &mut self.places[slot as usize * rests + pinned];
                let place = std::mem::replace(of_block, NOWHERE);
                if place == NOWHERE {
                    continue;
                }
                let is_hot = rest.hot.has(key);
                if !is_hot {
                    let distance = rest.hot.distance(place, &rest.stack, weight);
                    rest.distances[at].add_weighted(distance, weight as f64);
                    if weight > 1 {
                        rest.groups.again(self.sample.group(key, GROUPS), distance, weight);
                    }
                }
                rest.leave(place, is_hot);
            }
        }
    }

    /// Ends the sizing: the effect of tiers from 1 MiB (or less, if hardly more is written) to the footprint, and of the sizes in
    /// `more_bytes`.
    #[must_use]
    pub fn finish(self, more_bytes: &[u64]) -> Sizes {
        let staged = |rest: Rest| Staged {
            sums: rest.distances.into_iter().map(Histogram::sums).collect(),
            followed: rest.followed,
            groups: rest.groups,
        };
        let seen = Seen {
            order: self.order,
            bypassed: self.bypassed,
            pinned_blocks: self.pinned_blocks,
            blocks: self.blocks,
            bypassed_blocks: self.bypassed_blocks,
            rests: self.rests.into_iter().map(staged).collect(),
            one_block_in: self.sample.weight(),
            footprint_bytes: self.footprint_bytes,
            written_footprint_bytes: self.written_footprint_bytes,
        };
        seen.sizes(more_bytes)
    }
}

#[cfg(test)]
mod tests;
