//! Where each logical unit is, and which blocks are free, open, closed or being emptied. Knows no time.

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
    /// Being emptied or erased.
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
    /// Rows that are on their way to the flash.
    pending: u32,
    /// Units that collection has read and not yet written elsewhere.
    moving: u32,
    state: State,
    slc: bool,
    /// No further row will be given out.
    complete: bool,
}

/// A row to be programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// Its first physical unit.
    pub base: u32,
    /// Whether it lies in a block in single-level mode.
    pub slc: bool,
}

/// What a row is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Data of a stream of the host.
    Stream(u32),
    /// Data of the host into the single-level cache.
    Cache,
    /// Data that collection moves.
    Collect,
    /// Data that wear levelling moves, which nobody overwrites.
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
    /// Closed blocks in single-level mode, the oldest first, for each group.
    slc_closed: Vec<VecDeque<u32>>,
    slc_count: Vec<u32>,
    streams: u32,
    reserve: u32,
    collect_below: u32,
    level_spread: Option<u32>,
    /// Units programmed: the clock of ages.
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

    /// Erased blocks of a group.
    pub(super) fn free_blocks(&self, group: u32) -> u32 {
        self.free[group as usize].len() as u32
    }

    /// Whether a group has so few erased blocks that collection is due.
    pub(super) fn is_short(&self, group: u32) -> bool {
        self.free_blocks(group) <= self.collect_below
    }

    /// Whether only collection may take erased blocks of a group.
    pub(super) fn is_starved(&self, group: u32) -> bool {
        self.free_blocks(group) <= self.reserve
    }

    /// How hard collection must work for the host's writes, times 256: 0 well above the threshold, 256 in the middle
    /// between it and the reserve, 512 at the reserve.
    pub(super) fn pressure(&self, group: u32) -> i64 {
        let short = i64::from(self.collect_below) - i64::from(self.free_blocks(group)) + 1;
        let range = i64::from(self.collect_below - self.reserve) + 1;
        (short * 512 / range).clamp(0, 1024)
    }

    /// Whether a host row may go into a block in single-level mode of this group.
    pub(super) fn cache_open(&self, group: u32) -> bool {
        if self.shape.slc_most == 0 {
            return false;
        }
        let point = self.points[self.point(group, Purpose::Cache)];
        if point.block != NONE {
            return true;
        }
        let count = self.slc_count[group as usize];
        // The dynamic part shrinks away while erased blocks are few.
        !self.is_starved(group)
            && (count < self.shape.slc_fixed
                || (count < self.shape.slc_most && self.free_blocks(group) > self.collect_below + 1))
    }

    /// Whether there are blocks in single-level mode to fold.
    pub(super) fn can_fold(&self, group: u32) -> bool {
        !self.slc_closed[group as usize].is_empty()
    }

    /// Full blocks in single-level mode of a group.
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

    /// The next row of a write point; none where the group has no erased block for it.
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

    /// An erased block: the least worn, and for data that stay where they are the most worn, which rests under them.
    fn take_free(&mut self, group: u32, purpose: Purpose) -> Option<u32> {
        let free = &mut self.free[group as usize];
        if purpose != Purpose::Level {
            return free.pop().map(|Reverse((_, block))| block);
        }
        let Reverse(most) = *free.iter().min()?;
        free.retain(|Reverse(other)| *other != most);
        Some(most.1)
    }

    /// Takes a block whose data are to be moved so that it is worn like the others: the least worn with data, where the
    /// most worn of its group is further ahead than the levelling allows. None while erased blocks are short even for
    /// collection, as such a move gains no space.
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

    /// Erases by which the most worn block of any group is ahead of the least worn one of the same group.
    #[cfg(test)]
    pub(super) fn wear_spread(&self) -> u32 {
        let spread = |blocks: &[Block]| {
            let wear = || blocks.iter().map(|block| block.wear);
            wear().max().unwrap_or(0) - wear().min().unwrap_or(0)
        };
        self.blocks.chunks(self.shape.group_blocks as usize).map(spread).max().unwrap_or(0)
    }

    /// The media hold a row; `units` were bound with [`Ftl::bind`] or [`Ftl::leave`] before.
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

    /// A physical unit holds a logical one from now on.
    pub(super) fn bind(&mut self, logical: u32, physical: u32) {
        self.map[logical as usize] = physical;
        self.reverse[physical as usize] = logical;
        self.blocks[(physical / self.shape.block_units) as usize].valid += 1;
    }

    /// A physical unit holds nothing of use.
    pub(super) fn leave(&mut self, physical: u32) {
        self.reverse[physical as usize] = NONE;
    }

    /// What a physical unit held is no longer of use. The map is the caller's.
    pub(super) fn invalidate(&mut self, physical: u32) {
        let block = physical / self.shape.block_units;
        let b = &mut self.blocks[block as usize];
        b.valid -= 1;
        if b.state == State::Closed && !b.slc {
            let valid = b.valid;
            self.victims.shrink(self.group_of(block), block, valid);
        }
    }

    /// The logical unit that a physical one holds; none where it holds nothing of use.
    pub(super) fn holds(&self, physical: u32) -> Option<u32> {
        let logical = self.reverse[physical as usize];
        (logical != NONE && self.map[logical as usize] == physical).then_some(logical)
    }

    /// Takes a block to be emptied: with `fold` the oldest in single-level mode, else the policy's choice, and those in
    /// single-level mode above the fixed part first.
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

    /// Rows of a block that hold or held data.
    pub(super) fn rows_of(&self, block: u32) -> u32 {
        if self.blocks[block as usize].slc { self.shape.slc_rows } else { self.shape.block_rows }
    }

    /// Whether a block is in single-level mode.
    pub(super) fn is_slc(&self, physical: u32) -> bool {
        self.blocks[(physical / self.shape.block_units) as usize].slc
    }

    /// Valid units of a block.
    pub(super) fn valid_of(&self, block: u32) -> u32 {
        self.blocks[block as usize].valid
    }

    /// Units of a victim are on their way to another place.
    pub(super) fn begin_moves(&mut self, block: u32, units: u32) {
        self.blocks[block as usize].moving += units;
    }

    /// One of them got there, or is no longer of use. True where it was the last.
    pub(super) fn end_move(&mut self, block: u32) -> bool {
        let b = &mut self.blocks[block as usize];
        b.moving -= 1;
        b.moving == 0
    }

    /// Whether units of a victim are on their way.
    pub(super) fn is_moving(&self, block: u32) -> bool {
        self.blocks[block as usize].moving > 0
    }

    /// The erase of a victim begins on that many dies.
    pub(super) fn begin_erase(&mut self, block: u32, dies: u32) {
        self.blocks[block as usize].pending = dies;
    }

    /// A die has erased its part of a victim. True where the block is free then.
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

    /// Forgets all wear: what came before is no part of the drive's life that is counted.
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

    /// Checks the laws of conservation: each logical unit has one place, that place knows it, and the counts of blocks
    /// add up.
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
