//! How far garbage collection of each group has come, and the units that it holds.

use super::shape::NONE;

/// Collection of one group.
#[derive(Clone, Copy)]
pub(super) struct Collector {
    /// The block that is being emptied, its next row, and the valid units it had.
    pub victim: u32,
    pub row: u32,
    pub victim_units: u32,
    /// Units that collection owes for what the host wrote; below 0 it is ahead.
    pub debt: i64,
    /// Units read and not yet handed to a program.
    pub head: u32,
    pub tail: u32,
    pub gathered: u32,
    pub reading: u32,
    pub rows: u32,
    /// Rows of the host on their way.
    pub host_rows: u32,
    /// Whether the victim, or the last one, was chosen for its wear.
    pub levels: bool,
    /// Whether the victim is folded beside the host's commands.
    pub folds: bool,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            victim: NONE,
            row: 0,
            victim_units: 0,
            debt: 0,
            head: NONE,
            tail: NONE,
            gathered: 0,
            reading: 0,
            rows: 0,
            host_rows: 0,
            levels: false,
            folds: false,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Move {
    pub logical: u32,
    pub from: u32,
    pub next: u32,
}

/// Units on their way from a victim to another block.
pub(super) struct Moves {
    pub list: Vec<Move>,
    pub free: u32,
}

impl Default for Moves {
    fn default() -> Self {
        Self { list: Vec::new(), free: NONE }
    }
}

impl Moves {
    pub fn add(&mut self, logical: u32, from: u32, next: u32) -> u32 {
        let item = Move { logical, from, next };
        if self.free == NONE {
            self.list.push(item);
            (self.list.len() - 1) as u32
        } else {
            let at = self.free;
            self.free = self.list[at as usize].next;
            self.list[at as usize] = item;
            at
        }
    }

    pub fn release(&mut self, at: u32) -> Move {
        let item = self.list[at as usize];
        self.list[at as usize].next = self.free;
        self.free = at;
        item
    }
}
