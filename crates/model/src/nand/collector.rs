//! Progress of garbage collection in each group, and the units in transit.

use super::shape::NONE;

/// Collection of one group.
#[derive(Clone, Copy)]
pub(super) struct Collector {
    /// The victim block, its next row to read, and the number of its valid units at the start.
    pub victim: u32,
    pub row: u32,
    pub victim_units: u32,
    /// Units that collection owes for the host's writes; negative where collection is ahead.
    pub debt: i64,
    /// Units that were read and are not yet in a program.
    pub head: u32,
    pub tail: u32,
    pub gathered: u32,
    pub reading: u32,
    pub rows: u32,
    /// Host rows in flight.
    pub host_rows: u32,
    /// Whether the current victim, or the last one, was chosen for its wear.
    pub levels: bool,
    /// Whether the victim is folded while the host has commands.
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

/// Units in transit from a victim to another block.
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
