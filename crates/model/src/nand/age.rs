//! A past that takes no time: fills the map and the blocks as writes would, without simulating commands.

use super::Nand;
use super::ftl::{Ftl, Purpose};
use super::shape::NONE;
use crate::ssd::Past;
use forebay_block::Random;

/// A row that is being filled.
#[derive(Clone, Copy)]
struct Filling {
    base: u32,
    units: u32,
}

struct Aging<'a> {
    ftl: &'a mut Ftl,
    host: Vec<Filling>,
    collect: Vec<Filling>,
    /// Erased blocks that collection maintains.
    keep: u32,
    turn: u32,
}

impl Aging<'_> {
    fn place(&mut self, group: u32, unit: u32, purpose: Purpose) -> bool {
        let open = if purpose == Purpose::Collect { &mut self.collect } else { &mut self.host };
        let open = &mut open[group as usize];
        if open.base == NONE {
            let Some(row) = self.ftl.take_row(group, purpose) else { return false };
            *open = Filling { base: row.base, units: 0 };
        }
        let physical = open.base + open.units;
        open.units += 1;
        let full = open.units == self.ftl.shape.row_units;
        let base = open.base;
        if full {
            open.base = NONE;
        }
        let old = self.ftl.map[unit as usize];
        if old != NONE {
            self.ftl.invalidate(old);
        }
        self.ftl.bind(unit, physical);
        if full {
            self.ftl.finish_row(base);
        }
        true
    }

    fn write(&mut self, unit: u32) {
        // Groups take rows in turn; a group without an erased block for the write is skipped.
        for _ in 0..self.ftl.shape.groups {
            let group = self.turn;
            let placed = self.place(group, unit, Purpose::Stream(0));
            if !placed || self.host[group as usize].base == NONE {
                self.turn = (group + 1) % self.ftl.shape.groups;
                while self.ftl.free_blocks(group) <= self.keep && self.collect(group) {}
            }
            if placed {
                return;
            }
        }
    }

    /// Garbage-collects one block of a group; false where there is none to collect.
    fn collect(&mut self, group: u32) -> bool {
        let Some(block) = self.ftl.take_victim(group, false) else { return false };
        let base = block * self.ftl.shape.block_units;
        for physical in base..base + self.ftl.shape.block_units {
            if self.ftl.valid_of(block) == 0 {
                break;
            }
            if let Some(unit) = self.ftl.holds(physical) {
                self.place(group, unit, Purpose::Collect);
            }
        }
        self.ftl.begin_erase(block, 1);
        self.ftl.end_erase(block);
        true
    }

    /// Completes partly filled rows.
    fn complete(&mut self) {
        for open in self.host.iter_mut().chain(&mut self.collect) {
            if open.base == NONE {
                continue;
            }
            for physical in open.base + open.units..open.base + self.ftl.shape.row_units {
                self.ftl.leave(physical);
            }
            let base = std::mem::replace(&mut open.base, NONE);
            self.ftl.finish_row(base);
        }
    }
}

impl Nand {
    pub(super) fn live_through(&mut self, past: Past) {
        let counters = self.counters;
        let erases = self.erases().wrapping_sub(self.erases_before);
        // Nothing may be in flight, by the contract of [`Ssd::age`]: a new drive replaces this one.
        let Ok(mut fresh) = Self::new(self.config.clone()) else { return };
        let units = (f64::from(self.shape.logical_units) * past.filled.clamp(0.0, 1.0)) as u32;
        let random = (f64::from(units) * past.random_passes.clamp(0.0, 1000.0)) as u64;
        let none = Filling { base: NONE, units: 0 };
        let groups = self.shape.groups;
        let mut aging = Aging {
            ftl: &mut fresh.ftl,
            host: vec![none; groups as usize],
            collect: vec![none; groups as usize],
            keep: u32::midpoint(self.config.ftl.collect_below_blocks, self.config.ftl.reserve_blocks),
            turn: 0,
        };
        for unit in 0..units {
            aging.write(unit);
        }
        let mut draw = Random::new(self.config.seed ^ 0x0061_6765);
        for _ in 0..random {
            let unit = draw.below(u64::from(units)) as u32;
            aging.write(unit);
        }
        // The last rows may have taken a group below what collection maintains, and no later host write would trigger collection for it.
        for group in 0..groups {
            while aging.ftl.free_blocks(group) <= aging.keep && aging.collect(group) {}
        }
        aging.complete();
        fresh.ftl.forget_wear();
        fresh.counters = counters;
        for group in 0..groups {
            fresh.refresh(group);
        }
        // The erase counter must continue although the new drive counts from 0: the wrapping difference carries the old count over.
        fresh.erases_before = 0u64.wrapping_sub(erases);
        *self = fresh;
    }
}
