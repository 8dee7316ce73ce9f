//! The levels and their files, and the choice of the next compaction.

use super::plan::{L0_FILES, MERGED_LEVELS, Plan};
use crate::generate::parts::Carry;
use crate::generate::space::{Extent, Space};
use crate::{Lifetime, Names};
use std::collections::VecDeque;

/// A sorted file. A file from before the trace has no extents, since the trace only covers data that it wrote.
pub(super) struct File {
    pub blocks: u64,
    pub extents: Vec<Extent>,
    pub path: u32,
    pub inode: u64,
}

/// Files of one level in the order in which compactions take them: the oldest first.
#[derive(Default)]
struct Level {
    files: VecDeque<File>,
    blocks: u64,
    /// Blocks of files that a compaction into this level is replacing.
    merging_blocks: u64,
    /// Blocks of the file that a compaction takes to the next level.
    leaving_blocks: u64,
}

impl Level {
    fn push(&mut self, file: File) {
        self.blocks += file.blocks;
        self.files.push_back(file);
    }

    fn pop(&mut self) -> Option<File> {
        let file = self.files.pop_front()?;
        self.blocks -= file.blocks;
        Some(file)
    }
}

/// The input and output of one flush or compaction. The input files exist until it is installed.
pub(super) struct Merge {
    /// The level that it writes.
    pub level: usize,
    pub inputs: Vec<File>,
    pub outputs: Vec<File>,
}

/// All levels.
pub(super) struct Tree {
    levels: [Level; MERGED_LEVELS + 1],
    /// Number of L0's files, including those that are being written or compacted.
    l0_living: usize,
    space: Space,
    flushed: Carry,
    merged: [Carry; MERGED_LEVELS],
    /// Blocks that compactions into a level should have read of it and have not yet, since files are read as a whole.
    unread: [f64; MERGED_LEVELS],
    next_number: u64,
}

/// Number of the first file, and inode of number 0.
const FIRST_NUMBER: u64 = 10_000;
const INODES_FROM: u64 = 1_000;

/// The hint that RocksDB gives to a level's files (`ColumnFamilyData::CalculateSSTWriteHint`, `db/column_family.cc`); the base level is L1.
pub(super) fn lifetime(level: usize) -> Lifetime {
    match level {
        0 | 1 => Lifetime::Medium,
        2 => Lifetime::Long,
        _ => Lifetime::Extreme,
    }
}

impl Tree {
    /// A tree whose levels are full of files from before the trace.
    pub fn new(plan: &Plan, begin_block: u64) -> Self {
        let mut levels: [Level; MERGED_LEVELS + 1] = Default::default();
        for (level, planned) in levels.iter_mut().skip(1).zip(&plan.levels) {
            while level.blocks < planned.limit_blocks {
                let blocks = plan.file_blocks.min(planned.limit_blocks - level.blocks);
                level.push(File { blocks, extents: Vec::new(), path: 0, inode: 0 });
            }
        }
        Self {
            levels,
            l0_living: 0,
            space: Space::new(begin_block, plan.file_blocks, plan.slots),
            flushed: Carry::default(),
            merged: Default::default(),
            unread: Default::default(),
            next_number: FIRST_NUMBER,
        }
    }

    /// The block behind the last one of all files.
    pub fn end_block(&self) -> u64 {
        self.space.end_block()
    }

    /// The number of the next file: one counter serves all kinds of files, as in RocksDB.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// The inode of the file with this number.
    pub fn inode(number: u64) -> u64 {
        INODES_FROM + number
    }

    /// The flush of one memtable; `None` while L0 is full.
    pub fn flush(&mut self, plan: &Plan, names: &mut Names) -> Option<Merge> {
        let most = plan.flush_blocks.ceil() as u64 + 1;
        if self.l0_living >= L0_FILES || self.space.free_slots() < self.space.slots_for(most) {
            return None;
        }
        let blocks = self.flushed.take(plan.flush_blocks);
        self.l0_living += 1;
        let outputs = self.create(0, blocks, 1, names);
        Some(Merge { level: 0, inputs: Vec::new(), outputs })
    }

    /// The next compaction into `level` (from 1); `None` if the level above has nothing to compact.
    pub fn compaction(&mut self, level: usize, plan: &Plan, names: &mut Names) -> Option<Merge> {
        let index = level - 1;
        let planned = &plan.levels[index];
        let is_due = match index {
            // L0 waits until L1 has room.
            0 => {
                let below = &self.levels[1];
                self.levels[0].files.len() >= L0_FILES
                    && below.blocks + below.leaving_blocks <= plan.levels[0].limit_blocks
            }
            above => {
                let level = &self.levels[above];
                level.blocks + level.merging_blocks > plan.levels[above - 1].limit_blocks
            }
        };
        // The output files take at most one slot more for each file.
        let most_slots = 2 * self.space.slots_for(planned.job_blocks);
        if !is_due || self.space.free_slots() < most_slots {
            return None;
        }
        let source = self.levels[index].pop()?;
        self.levels[index].leaving_blocks = source.blocks;
        let kept = source.blocks as f64 * planned.kept;
        let blocks = self.merged[index].take(kept * (1.0 + planned.rewritten));
        self.unread[index] += kept * planned.read;
        let mut inputs = vec![source];
        while let Some(first) = self.levels[level].files.front()
            && first.blocks as f64 <= self.unread[index]
        {
            self.unread[index] -= first.blocks as f64;
            inputs.extend(self.levels[level].pop());
        }
        self.levels[level].merging_blocks = inputs.iter().skip(1).map(|file| file.blocks).sum();
        let outputs = self.create(level, blocks, blocks.div_ceil(plan.file_blocks), names);
        Some(Merge { level, inputs, outputs })
    }

    /// Replaces the input of a merge by its output; returns the files that are gone.
    pub fn install(&mut self, merge: Merge) -> Vec<File> {
        self.levels[merge.level].merging_blocks = 0;
        for file in merge.outputs {
            self.levels[merge.level].push(file);
        }
        if let Some(above) = merge.level.checked_sub(1) {
            self.levels[above].leaving_blocks = 0;
        }
        if merge.level == 1 {
            self.l0_living -= 1;
        }
        for file in &merge.inputs {
            self.space.take_back(&file.extents);
        }
        merge.inputs
    }

    /// A block of a file that the trace wrote; `at` must be below [`Tree::blocks`], `pick` is arbitrary.
    pub fn block(&self, mut at: u64, pick: u64) -> Option<(&File, u64)> {
        for level in &self.levels {
            if at >= level.blocks {
                at -= level.blocks;
                continue;
            }
            // The files of a level have about equal sizes.
            let file = level.files.get((at as usize * level.files.len()) / level.blocks.max(1) as usize)?;
            let mut block = pick % file.blocks.max(1);
            for extent in &file.extents {
                if block < extent.blocks {
                    return Some((file, extent.begin_block + block));
                }
                block -= extent.blocks;
            }
            return None;
        }
        None
    }

    /// Blocks of all files except those that are being compacted.
    pub fn blocks(&self) -> u64 {
        self.levels.iter().map(|level| level.blocks).sum()
    }

    /// Creates `count` files of equal size, as far as there is room.
    fn create(&mut self, level: usize, blocks: u64, count: u64, names: &mut Names) -> Vec<File> {
        let count = count.clamp(1, blocks.max(1));
        let mut files = Vec::with_capacity(count as usize);
        for index in 0..count {
            let here = blocks / count + u64::from(index < blocks % count);
            let Some(extents) = self.space.place(here).filter(|extents| !extents.is_empty()) else { continue };
            let number = self.number();
            let path = names.paths.number(&format!("db/L{level}/{number:06}.sst"));
            // As a real database's LOG reports it. Path 0 stands for all names that the table has no room for.
            if path > 0 {
                names.levels.set(path, level as u8);
            }
            files.push(File { blocks: here, extents, path, inode: Self::inode(number) });
        }
        files
    }
}
