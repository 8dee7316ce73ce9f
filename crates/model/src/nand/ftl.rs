//! Place of each logical unit, and the state of all blocks: free, open, closed or victim. It knows no time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::config::Config;
use super::shape::{BUFFERED, NONE, Shape};
use super::victims::Victims;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Closed,
    /// Being collected or erased.
    Victim,
}

#[derive(Clone, Copy)]
struct Point {
    block: u32,
    next: u32,
}

#[derive(Clone, Copy)]
struct Block {
    valid: u32,
    wear: u32,
    /// Rows in flight to the flash.
    pending: u32,
    /// Units that collection has read and not yet written elsewhere.
    moving: u32,
    state: State,
    slc: bool,
    /// All rows of the block were given out.
    complete: bool,
}

/// A row to program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its first physical unit.
    pub base: u32,
    /// Whether it lies in a block in single-level mode.
    pub slc: bool,
}

/// Purpose of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Data of a host stream.
    Stream(u32),
    /// Host data for the single-level cache.
    Cache,
    /// Data that collection moves.
    Collect,
    /// Data that wear levelling moves; it is rarely overwritten.
    Level,
}

/// The translation layer.
pub(super) struct Ftl {
    pub shape: Shape,
    pub map: Vec<u32>,
    reverse: Vec<u32>,
    blocks: Vec<Block>,
    free: Vec<BinaryHeap<Reverse<(u32, u32)>>>,
    points: Vec<Point>,
    victims: Victims,
    /// Closed blocks in single-level mode of each group, oldest first.
    slc_closed: Vec<VecDeque<u32>>,
    slc_count: Vec<u32>,
    streams: u32,
    reserve: u32,
    collect_below: u32,
    level_spread: Option<u32>,
    /// Units programmed: the clock for block ages.
    written: u64,
    pub erases: u64,
    pub cycles_max: u32,
}

impl Ftl {
    pub(super) fn new(config: &Config, shape: Shape) -> Self {
        let blocks = shape.blocks();
        let units = blocks as usize * shape.block_units as usize;
        let classes = config.ftl.streams + 3;
        let free = (0..shape.groups)
            .map(|g| (0..shape.group_blocks).map(|b| Reverse((0, g * shape.group_blocks + b))).collect())
            .collect();
        let block = Block { valid: 0, wear: 0, pending: 0, moving: 0, state: State::Free, slc: false, complete: false };
        Self {
            shape,
            map: vec![NONE; shape.logical_units as usize],
            reverse: vec![NONE; units],
            blocks: vec![block; blocks as usize],
            free,
            points: vec![Point { block: NONE, next: 0 }; (shape.groups * classes) as usize],
            victims: Victims::new(config.ftl.policy, shape.groups, blocks, shape.block_units, config.seed),
            slc_closed: vec![VecDeque::new(); shape.groups as usize],
            slc_count: vec![0; shape.groups as usize],
            streams: config.ftl.streams,
            reserve: config.ftl.reserve_blocks,
            collect_below: config.ftl.collect_below_blocks,
            level_spread: config.ftl.level_spread,
            written: 0,
            erases: 0,
            cycles_max: 0,
        }
    }

    fn group_of(&self, block: u32) -> u32 {
        block / self.shape.group_blocks
    }

    /// Number of erased blocks of a group.
    pub(super) fn free_blocks(&self, group: u32) -> u32 {
        self.free[group as usize].len() as u32
    }

    /// Whether the group's erased blocks are so few that collection is due.
    pub(super) fn is_short(&self, group: u32) -> bool {
        self.free_blocks(group) <= self.collect_below
    }

    /// Whether the remaining erased blocks of a group are reserved for collection.
    pub(super) fn is_starved(&self, group: u32) -> bool {
        self.free_blocks(group) <= self.reserve
    }

    /// Collection effort per host write, times 256: 0 well above the threshold, 256 midway between threshold and reserve, 512 at the
    /// reserve.
    pub(super) fn pressure(&self, group: u32) -> i64 {
        let short = i64::from(self.collect_below) - i64::from(self.free_blocks(group)) + 1;
        let range = i64::from(self.collect_below - self.reserve) + 1;
        (short * 512 / range).clamp(0, 1024)
    }

    /// Whether a host row may go into the single-level cache of this group.
    pub(super) fn cache_open(&self, group: u32) -> bool {
        if self.shape.slc_most == 0 {
            return false;
        }
        let point = self.points[self.point(group, Purpose::Cache)];
        if point.block != NONE {
            return true;
        }
        let count = self.slc_count[group as usize];
        // The dynamic part shrinks while erased blocks are few.
        !self.is_starved(group)
            && (count < self.shape.slc_fixed
                || (count < self.shape.slc_most && self.free_blocks(group) > self.collect_below + 1))
    }

    /// Whether the group has closed cache blocks to fold.
    pub(super) fn can_fold(&self, group: u32) -> bool {
        !self.slc_closed[group as usize].is_empty()
    }

    /// Number of closed cache blocks of a group.
    pub(super) fn foldable(&self, group: u32) -> u32 {
        self.slc_closed[group as usize].len() as u32
    }

    fn point(&self, group: u32, purpose: Purpose) -> usize {
        let class = match purpose {
            Purpose::Stream(stream) => stream,
            Purpose::Collect => self.streams,
            Purpose::Cache => self.streams + 1,
            Purpose::Level => self.streams + 2,
        };
        (group * (self.streams + 3) + class) as usize
    }

    /// Takes the next row of a write point; none where the group has no erased block for it.
    pub(super) fn take_row(&mut self, group: u32, purpose: Purpose) -> Option<Row> {
        let at = self.point(group, purpose);
        let slc = purpose == Purpose::Cache;
        if self.points[at].block == NONE {
            if !matches!(purpose, Purpose::Collect | Purpose::Level) && self.is_starved(group) {
                return None;
            }
            let block = self.take_free(group, purpose)?;
            let b = &mut self.blocks[block as usize];
            b.state = State::Open;
            b.slc = slc;
            b.complete = false;
            if slc {
                self.slc_count[group as usize] += 1;
            }
            self.points[at] = Point { block, next: 0 };
        }
        let Point { block, next } = self.points[at];
        let rows = if slc { self.shape.slc_rows } else { self.shape.block_rows };
        self.blocks[block as usize].pending += 1;
        if next + 1 == rows {
            self.points[at].block = NONE;
            self.blocks[block as usize].complete = true;
        } else {
            self.points[at].next = next + 1;
        }
        Some(Row { base: (block * self.shape.block_rows + next) * self.shape.row_units, slc })
    }

    /// Takes an erased block. Data that stays in place (wear levelling) gets the most worn block, which rests under it; all other data gets
    /// the least worn.
    fn take_free(&mut self, group: u32, purpose: Purpose) -> Option<u32> {
        let free = &mut self.free[group as usize];
        if purpose != Purpose::Level {
            return free.pop().map(|Reverse((_, block))| block);
        }
        let Reverse(most) = *free.iter().min()?;
        free.retain(|Reverse(other)| *other != most);
        Some(most.1)
    }

    /// Takes a victim for wear levelling: the least worn block with data, where the most worn block of the group is further ahead than the
    /// levelling allows. None while erased blocks are reserved for collection, because such a move gains no space.
    pub(super) fn take_unworn(&mut self, group: u32) -> Option<u32> {
        let spread = self.level_spread?;
        if self.is_starved(group) {
            return None;
        }
        let first = group * self.shape.group_blocks;
        let blocks = first..first + self.shape.group_blocks;
        let most = blocks.clone().map(|block| self.blocks[block as usize].wear).max()?;
        let with_data = blocks.filter(|&block| {
            let b = &self.blocks[block as usize];
            b.state == State::Closed && !b.slc
        });
        let block = with_data.min_by_key(|&block| self.blocks[block as usize].wear)?;
        let b = &mut self.blocks[block as usize];
        if most - b.wear <= spread {
            return None;
        }
        b.state = State::Victim;
        let valid = b.valid;
        self.victims.remove(group, block, valid);
        Some(block)
    }

    /// Largest difference of erases between the most and the least worn block within any group.
    #[cfg(test)]
    pub(super) fn wear_spread(&self) -> u32 {
        let spread = |blocks: &[Block]| {
            let wear = || blocks.iter().map(|block| block.wear);
            wear().max().unwrap_or(0) - wear().min().unwrap_or(0)
        };
        self.blocks.chunks(self.shape.group_blocks as usize).map(spread).max().unwrap_or(0)
    }

    /// A row is on the media; [`Ftl::bind`] or [`Ftl::leave`] was called for each of its units before.
    pub(super) fn finish_row(&mut self, base: u32) {
        self.written += u64::from(self.shape.row_units);
        let block = base / self.shape.block_units;
        let b = &mut self.blocks[block as usize];
        b.pending -= 1;
        if b.complete && b.pending == 0 {
            b.state = State::Closed;
            let (slc, valid) = (b.slc, b.valid);
            let group = self.group_of(block);
            if slc {
                self.slc_closed[group as usize].push_back(block);
            } else {
                self.victims.insert(group, block, valid, self.written);
            }
        }
    }

    /// Maps a logical unit to a physical unit.
    pub(super) fn bind(&mut self, logical: u32, physical: u32) {
        self.map[logical as usize] = physical;
        self.reverse[physical as usize] = logical;
        self.blocks[(physical / self.shape.block_units) as usize].valid += 1;
    }

    /// Marks a physical unit as unused.
    pub(super) fn leave(&mut self, physical: u32) {
        self.reverse[physical as usize] = NONE;
    }

    /// Invalidates the data of a physical unit. The caller updates the map.
    pub(super) fn invalidate(&mut self, physical: u32) {
        let block = physical / self.shape.block_units;
        let b = &mut self.blocks[block as usize];
        b.valid -= 1;
        if b.state == State::Closed && !b.slc {
            let valid = b.valid;
            self.victims.shrink(self.group_of(block), block, valid);
        }
    }

    /// The logical unit whose valid data a physical unit holds; none where it holds none.
    pub(super) fn holds(&self, physical: u32) -> Option<u32> {
        let logical = self.reverse[physical as usize];
        (logical != NONE && self.map[logical as usize] == physical).then_some(logical)
    }

    /// Takes a victim block: with `fold` the oldest cache block, otherwise the policy's choice, but cache blocks first while the cache
    /// exceeds its fixed part.
    pub(super) fn take_victim(&mut self, group: u32, fold: bool) -> Option<u32> {
        let above = self.slc_count[group as usize] > self.shape.slc_fixed;
        let mut block = None;
        if fold || above {
            block = self.slc_closed[group as usize].pop_front();
        }
        if block.is_none() && !fold {
            let blocks = &self.blocks;
            block = self.victims.take(group, |b| blocks[b as usize].valid, self.shape.block_units, self.written);
        }
        if let Some(block) = block {
            self.blocks[block as usize].state = State::Victim;
        }
        block
    }

    /// Rows of a block that can hold data, by its mode.
    pub(super) fn rows_of(&self, block: u32) -> u32 {
        if self.blocks[block as usize].slc { self.shape.slc_rows } else { self.shape.block_rows }
    }

    /// Whether the block of a physical unit is in single-level mode.
    pub(super) fn is_slc(&self, physical: u32) -> bool {
        self.blocks[(physical / self.shape.block_units) as usize].slc
    }

    /// Valid units of a block.
    pub(super) fn valid_of(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// Units of a victim are in transit to another block.
    pub(super) fn begin_moves(&mut self, block: u32, units: u32) {
        self.blocks[block as usize].moving += units;
    }

    /// One unit of a victim arrived or became invalid. True where it was the last in transit.
    pub(super) fn end_move(&mut self, block: u32) -> bool {
        let b = &mut self.blocks[block as usize];
        b.moving -= 1;
        b.moving == 0
    }

    /// Whether units of a victim are in transit.
    pub(super) fn is_moving(&self, block: u32) -> bool {
        self.blocks[block as usize].moving > 0
    }

    /// The erase of a victim begins on `dies` dies.
    pub(super) fn begin_erase(&mut self, block: u32, dies: u32) {
        self.blocks[block as usize].pending = dies;
    }

    /// A die has erased its part of a victim. True where all of the block is erased.
    pub(super) fn end_erase(&mut self, block: u32) -> bool {
        self.blocks[block as usize].pending -= 1;
        if self.blocks[block as usize].pending > 0 {
            return false;
        }
        self.erased(block);
        true
    }

    fn erased(&mut self, block: u32) {
        let group = self.group_of(block);
        let b = &mut self.blocks[block as usize];
        b.state = State::Free;
        b.wear += 1;
        self.erases += 1;
        self.cycles_max = self.cycles_max.max(b.wear);
        if b.slc {
            self.slc_count[group as usize] -= 1;
            b.slc = false;
        }
        self.free[group as usize].push(Reverse((b.wear, block)));
    }

    /// Resets all wear: a drive's past does not count for its life.
    pub(super) fn forget_wear(&mut self) {
        for b in &mut self.blocks {
            b.wear = 0;
        }
        for heap in &mut self.free {
            *heap = heap.drain().map(|Reverse((_, block))| Reverse((0, block))).collect();
        }
        self.cycles_max = 0;
        self.erases = 0;
    }

    /// Checks the conservation laws: each logical unit has one place, the place refers back to it, and the counts of the blocks add up.
    pub(super) fn check(&self) -> Result<(), String> {
        let mut valid = vec![0u32; self.blocks.len()];
        for (logical, &entry) in self.map.iter().enumerate() {
            if entry == NONE || entry & BUFFERED != 0 {
                continue;
            }
            if self.reverse[entry as usize] != logical as u32 {
                return Err(format!("unit {logical} is at {entry}, which holds {}", self.reverse[entry as usize]));
            }
            valid[(entry / self.shape.block_units) as usize] += 1;
        }
        let mut states = [0u32; 4];
        for (block, b) in self.blocks.iter().enumerate() {
            if b.valid != valid[block] {
                return Err(format!("block {block} counts {} valid units of {}", b.valid, valid[block]));
            }
            if b.state == State::Free && b.valid != 0 {
                return Err(format!("block {block} is free with {} valid units", b.valid));
            }
            states[b.state as usize] += 1;
        }
        let free: u32 = (0..self.shape.groups).map(|g| self.free_blocks(g)).sum();
        if free != states[State::Free as usize] {
            return Err(format!("{free} blocks in the lists of erased ones, {} erased", states[State::Free as usize]));
        }
        let open = self.points.iter().filter(|p| p.block != NONE).count() as u32;
        let filling = self.blocks.iter().filter(|b| b.state == State::Open && b.complete).count() as u32;
        if open + filling != states[State::Open as usize] {
            return Err(format!("{open} write points, {filling} being completed, {} open blocks", states[1]));
        }
        Ok(())
    }
}
