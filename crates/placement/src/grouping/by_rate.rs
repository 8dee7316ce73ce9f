//! This project's policy: groups by the rate at which blocks are overwritten, as far as the history of each block
//! shows it, and as many groups as pay.
//!
//! A version carries a note of [`NOTES`] values: whether a host wrote it or collection moved it, and the interval
//! between its overwrites on a grid of powers of two. The versions with the same note are a cell. How fast the
//! versions of a cell die is measured, not inferred: overwrites and discards for each block and unit of time. Cells
//! with similar rates share a group.
//!
//! If bands are large in relation to the space, open bands may contain most of the invalid blocks. Then collection
//! finds nothing but bands that are almost full of valid blocks, and moves these blocks for next to no gain, again
//! and again. The blocks that it moves out of such bands go to the open band with the most invalid blocks instead, so
//! that this band is full soon and can be collected itself.

use super::open_bands::OpenBands;
use super::partition::{Cell, GROUPS_MAX, Partition};
use super::{Collected, Grouping, Move, NOTES, Placed, Version, Write};

const CELLS: usize = NOTES as usize;
/// Number of cells of blocks written by hosts; as many cells are for moved blocks.
const LEVELS: u8 = NOTES / 2;
/// The level of blocks written for the first time: nothing is known about them.
const UNKNOWN: u8 = LEVELS - 1;
/// The level of blocks written for the first time in sequence: separate files and copies of whole disks, not small
/// updates.
const UNKNOWN_RUN: u8 = LEVELS - 2;
/// The level of the longest intervals.
const LEVEL_MAX: u8 = LEVELS - 3;
/// The interval of level 0, in blocks written by hosts.
const SHORTEST_BLOCKS: f64 = 256.0;
/// Weight of the last lifetime in the interval of an address, the rest being that of all lifetimes before it.
const LAST_LIFE_WEIGHT: f64 = 0.5;
/// Spare space that an open band takes from the others, as a share of a band: the number of invalid blocks in it
/// grows with the square of the part that is written, and so is on average a third of the number in the full band,
/// and less in bands of moved blocks.
const OPEN_BAND_COST: f64 = 0.125;
/// The groups are formed anew whenever hosts have written this part of the valid blocks.
const REGROUP_PART: f64 = 0.25;
/// A write is sequential if the block below was written at most this long before.
const SEQUENCE_AGE: u64 = 256;
/// A band in which less than this part of the spare share is invalid is a poor victim: its blocks fill open bands.
const POOR_VICTIM: f64 = 0.35;
/// An open band is worth filling if more than this part of it is invalid.
const WORTH_FILLING: f64 = 0.05;

/// Statistics of the versions with one note.
#[derive(Clone, Copy, Debug, Default)]
struct History {
    valid: f64,
    deaths: f64,
    /// Sum over time of the valid blocks. This sum and the deaths are halved with each regrouping.
    block_time: f64,
}

impl History {
    /// A block no longer belongs to the versions of this note. Versions from before a restart were never counted, so
    /// that the number may be 0.
    fn forget(&mut self) {
        self.valid = (self.valid - 1.0).max(0.0);
    }
}

/// Groups by the rate at which a block is overwritten.
#[derive(Clone, Debug)]
pub struct ByRate {
    band_blocks: f64,
    spare: f64,
    cells: [History; CELLS],
    group_of: [u8; CELLS],
    since: u64,
    valid: f64,
    rounding: u64,
    now: u64,
    open: OpenBands,
    /// The group whose open band is being filled with moved blocks.
    filling: Option<u8>,
}

impl ByRate {
    /// Groups for a log in bands of `band_blocks` blocks, of which the share `spare` is spare.
    #[must_use]
    pub fn new(band_blocks: u64, spare: f64) -> Self {
        Self {
            band_blocks: band_blocks as f64,
            spare,
            cells: [History::default(); CELLS],
            group_of: std::array::from_fn(|cell| u8::from(cell >= usize::from(LEVELS))),
            since: 0,
            valid: 0.0,
            rounding: 0,
            now: 0,
            open: OpenBands::new(u32::try_from(band_blocks).unwrap_or(u32::MAX)),
            filling: None,
        }
    }

    /// The level of an interval, rounded up or down as often as preserves the mean of the logarithm, so that an
    /// interval that grows by less than a level still grows.
    fn level(&self, interval: f64) -> u8 {
        let level = (interval / SHORTEST_BLOCKS).log2().clamp(0.0, f64::from(LEVEL_MAX));
        let threshold = (self.rounding >> 11) as f64 / (1u64 << 53) as f64;
        let up = u8::from(threshold < level.fract());
        (level as u8 + up).min(LEVEL_MAX)
    }

    fn placed(&mut self, note: u8, blocks: u32) -> Placed {
        self.cells[usize::from(note)].valid += f64::from(blocks);
        let of_note = self.group_of[usize::from(note)];
        let filling = self.filling.filter(|_| note >= LEVELS);
        let group = filling.unwrap_or(of_note);
        let mut has_filled = false;
        for _ in 0..blocks {
            has_filled |= self.open.placed(group, self.now);
        }
        if has_filled && filling.is_some() {
            self.filling = self.worth_filling();
        }
        Placed { group, note }
    }

    /// A version died whose note is not known: distributes the death over the notes of its group in proportion to
    /// their versions.
    fn died_in_group(&mut self, group: u8) {
        let valid = |cells: &[History; CELLS], group_of: &[u8; CELLS]| -> f64 {
            cells.iter().zip(group_of).filter(|(_, of)| **of == group).map(|(cell, _)| cell.valid).sum()
        };
        let all = valid(&self.cells, &self.group_of);
        if all < 1.0 {
            return;
        }
        for (cell, _) in self.cells.iter_mut().zip(&self.group_of).filter(|(_, of)| **of == group) {
            let part = cell.valid / all;
            cell.valid -= part;
            cell.deaths += part;
        }
    }

    fn worth_filling(&self) -> Option<u8> {
        let (group, invalid) = self.open.most_invalid();
        (f64::from(invalid) > WORTH_FILLING * self.band_blocks).then_some(group)
    }

    /// Measures the rates and partitions the cells into groups anew.
    fn regroup(&mut self, passed: f64) {
        let mut cells = [Cell::default(); CELLS];
        for (note, (cell, history)) in (0..NOTES).zip(cells.iter_mut().zip(&mut self.cells)) {
            history.block_time = history.block_time / 2.0 + history.valid * passed;
            // As if one death had been observed in one interval: the note's own interval, until there is evidence.
            let rate = (history.deaths + 1.0) / (history.block_time + interval(note));
            history.deaths /= 2.0;
            *cell = Cell { note, rate, valid: history.valid };
        }
        let (of_hosts, of_moves) = cells.split_at(usize::from(LEVELS));
        let (of_hosts, of_moves) = (Partition::new(of_hosts), Partition::new(of_moves));
        let spare = self.spare / (1.0 - self.spare) * self.valid;
        // The blocks moved out of groups between which the spare space is shared for the least sum: each group i
        // moves about rate_i valid_i² / spare_i, and by Cauchy's inequality the sum is at least (Σ valid_i √rate_i)²
        // over all the space.
        let cost = |hosts: usize, moves: usize| {
            let left = spare - OPEN_BAND_COST * (hosts + moves) as f64 * self.band_blocks;
            let roots = of_hosts.cost(hosts) + of_moves.cost(moves);
            if left > 0.0 { roots * roots / left } else { f64::INFINITY }
        };
        let (mut hosts, mut moves) = (1, 1);
        for counts in (1..=GROUPS_MAX).flat_map(|hosts| (1..=GROUPS_MAX).map(move |moves| (hosts, moves))) {
            if cost(counts.0, counts.1) < cost(hosts, moves) {
                (hosts, moves) = counts;
            }
        }
        let of_hosts = of_hosts.groups(hosts).map(|(note, group)| (note, group as u8));
        let of_moves = of_moves.groups(moves).map(|(note, group)| (note, (hosts + group) as u8));
        for (note, group) in of_hosts.chain(of_moves) {
            self.group_of[usize::from(note)] = group;
        }
    }
}

/// The interval between overwrites that a note stands for, in blocks written by hosts.
fn interval(note: u8) -> f64 {
    SHORTEST_BLOCKS * f64::from(note % LEVELS).exp2()
}

fn is_known(note: u8) -> bool {
    note % LEVELS <= LEVEL_MAX
}

impl Grouping for ByRate {
    fn groups(&self) -> u8 {
        2 * GROUPS_MAX as u8
    }

    fn of_write(&mut self, write: &Write) -> Placed {
        self.valid = write.valid_blocks as f64 + 1.0;
        self.since += u64::from(write.blocks);
        self.now += u64::from(write.blocks);
        if self.since as f64 >= (self.valid * REGROUP_PART).max(self.band_blocks) {
            self.regroup(self.since as f64);
            self.since = 0;
        }
        let is_in_sequence = write.below.is_some_and(|below| below.age < SEQUENCE_AGE);
        if !is_in_sequence {
            // The multiples of the golden ratio are spread evenly over a unit (Knuth, volume 3, section 6.4): no
            // randomness is needed. The blocks of a sequential write are rounded alike: they are often overwritten in
            // sequence too, and belong together.
            self.rounding = self.rounding.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        let Some(version) = write.over else {
            return self.placed(if is_in_sequence { UNKNOWN_RUN } else { UNKNOWN }, write.blocks);
        };
        let life = version.age as f64;
        let known = version.note.filter(|note| is_known(*note));
        let seen = known.map_or(life, |note| (1.0 - LAST_LIFE_WEIGHT) * interval(note) + LAST_LIFE_WEIGHT * life);
        // A log that is written cyclically keeps its level, even if no level has exactly its interval.
        let near = known.filter(|note| is_in_sequence && (seen / interval(*note)).log2().abs() < 1.0);
        let level = near.map_or_else(|| self.level(seen), |note| note % LEVELS);
        self.placed(level, write.blocks)
    }

    fn of_move(&mut self, moved: &Move) -> Placed {
        let Version { note, age, .. } = moved.version;
        if let Some(note) = note {
            self.cells[usize::from(note % NOTES)].forget();
        }
        let age = age as f64;
        // A block that has lived for longer than its interval is overwritten less often than its history shows.
        let kept = note.filter(|note| is_known(*note) && age <= interval(*note));
        let level = kept.map_or_else(|| self.level(age), |note| note % LEVELS);
        self.placed(LEVELS + level, 1)
    }

    fn died(&mut self, version: &Version) {
        let Some(note) = version.note else { return self.died_in_group(version.group) };
        let cell = &mut self.cells[usize::from(note % NOTES)];
        cell.forget();
        cell.deaths += 1.0;
        if note < LEVELS {
            self.open.died(version, self.now);
        }
    }

    fn collected(&mut self, band: &Collected) {
        let invalid_share = 1.0 - f64::from(band.valid) / self.band_blocks;
        self.filling = if invalid_share < POOR_VICTIM * self.spare { self.worth_filling() } else { None };
    }
}
