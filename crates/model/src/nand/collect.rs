//! Garbage collection and folding: which rows are read and where their units go, paced by the host's writes.

use super::Nand;
use super::collector::{Collector, Move};
use super::config::UNIT_BYTES;
use super::flash::{Op as FlashOp, OpKind};
use super::ftl::Purpose;
use super::shape::NONE;

impl Nand {
    /// The host has written a row into a group. Collection then owes units in proportion to the victim's valid share, and more with fewer
    /// erased blocks.
    pub(super) fn owe(&mut self, group: u32) {
        let c = &mut self.collectors[group as usize];
        if !self.ftl.is_short(group) {
            c.debt = 0;
            return;
        }
        let (used, all) = (i64::from(c.victim_units), i64::from(self.shape.block_units));
        let share = i64::from(self.shape.row_units) * used * self.ftl.pressure(group);
        c.debt += share / ((all - used).max(1) * 256);
    }

    /// Whether a group should begin to fold a block of its single-level cache while the host has commands. Once begun, the fold runs to the
    /// end of the block as fast as the die can.
    fn fold_due(&self, group: u32) -> bool {
        self.config.slc.is_some_and(|slc| {
            self.folding < slc.fold_groups && slc.fold_above_blocks.is_some_and(|most| self.ftl.foldable(group) > most)
        })
    }

    /// Whether collection of a group should read another row.
    fn should_collect(&self, group: u32) -> bool {
        let c = &self.collectors[group as usize];
        if self.idle && (c.victim != NONE || self.ftl.can_fold(group)) {
            return true;
        }
        if (c.victim != NONE && c.folds) || (c.victim == NONE && self.fold_due(group)) {
            return true;
        }
        if c.victim != NONE && self.ftl.valid_of(c.victim) == 0 {
            return true;
        }
        self.ftl.is_short(group) && (c.debt >= 0 || self.idle || self.ftl.is_starved(group))
    }

    /// Continues the collection of a group as far as possible now.
    pub(super) fn collect(&mut self, group: u32, now_ns: u64) {
        let rows_max = 2 * self.shape.wide;
        let gather_max = (rows_max + 1) * self.shape.row_units;
        loop {
            let c = self.collectors[group as usize];
            if c.gathered >= self.shape.row_units && c.rows < rows_max {
                if self.write_gathered(group, now_ns) {
                    continue;
                }
                return;
            }
            if c.gathered + c.reading + self.shape.row_units > gather_max {
                return;
            }
            if !self.should_collect(group) {
                break;
            }
            if c.victim != NONE {
                self.read_on(group, now_ns);
                continue;
            }
            // At most every second victim is chosen for its wear, because moving it gains no space.
            let unworn = if c.levels { None } else { self.ftl.take_unworn(group) };
            if let Some(block) = unworn {
                // `victim_units` stays that of the last victim chosen for space, so that the pace of collection does not change.
                let c = &mut self.collectors[group as usize];
                (c.victim, c.row, c.levels) = (block, 0, true);
                continue;
            }
            let fold = !self.ftl.is_short(group);
            let folds = fold && !self.idle;
            let Some(block) = self.ftl.take_victim(group, fold) else { break };
            let units = self.ftl.valid_of(block);
            self.folding += u32::from(folds);
            let c = &mut self.collectors[group as usize];
            c.folds = folds;
            c.victim = block;
            c.row = 0;
            c.victim_units = units;
            c.levels = false;
        }
        // No more units will be gathered soon: a partly filled row is written, so that the victim blocks can be erased.
        let c = self.collectors[group as usize];
        let last = c.gathered > 0 && c.reading == 0 && c.rows == 0;
        if last && (self.idle || self.ftl.is_starved(group)) {
            self.write_gathered(group, now_ns);
        }
    }

    /// Reads the next row of the victim, or ends the victim.
    fn read_on(&mut self, group: u32, now_ns: u64) {
        let Collector { victim, mut row, .. } = self.collectors[group as usize];
        let rows = if self.ftl.valid_of(victim) == 0 { 0 } else { self.ftl.rows_of(victim) };
        while row < rows {
            let page_row = victim * self.shape.block_rows + row;
            let base = page_row * self.shape.row_units;
            row += 1;
            let mut head = NONE;
            let (mut units, mut pages, mut page) = (0u32, 0u64, NONE);
            for physical in (base..base + self.shape.row_units).rev() {
                if let Some(logical) = self.ftl.holds(physical) {
                    head = self.moves.add(logical, physical, head);
                    units += 1;
                    pages += u64::from(physical / self.shape.page_units != page);
                    page = physical / self.shape.page_units;
                }
            }
            if units == 0 {
                continue;
            }
            let mut time_ns = self.flash.read_time_ns(base, self.shape.page_of(page_row), self.ftl.is_slc(base));
            if self.config.ftl.collect_by_page {
                time_ns *= pages;
            }
            let mut op = FlashOp::new(OpKind::CollectRead, self.shape.die_of(page_row), time_ns);
            op.owner = group;
            op.head = head;
            op.units = units as u16;
            self.ftl.begin_moves(victim, units);
            let c = &mut self.collectors[group as usize];
            c.row = row;
            c.reading += units;
            // Collection that ran far ahead because blocks were short must not pause for long afterwards: the credit is limited.
            c.debt = (c.debt - i64::from(units)).max(-i64::from(8 * self.shape.row_units));
            self.flash.submit(op, now_ns, &mut self.events);
            return;
        }
        let c = &mut self.collectors[group as usize];
        c.victim = NONE;
        self.folding -= u32::from(std::mem::take(&mut c.folds));
        if !self.ftl.is_moving(victim) {
            self.erase(victim, now_ns);
        }
    }

    fn erase(&mut self, block: u32, now_ns: u64) {
        self.ftl.begin_erase(block, self.shape.wide);
        let group = block / self.shape.group_blocks;
        for die in 0..self.shape.wide {
            let mut op = FlashOp::new(OpKind::Erase, group * self.shape.wide + die, self.flash.erase_ns);
            op.owner = group;
            op.base = block;
            self.flash.submit(op, now_ns, &mut self.events);
        }
    }

    /// Sends a row of gathered units to a die; false where there is no erased block for it.
    fn write_gathered(&mut self, group: u32, now_ns: u64) -> bool {
        let level =
            if self.collectors[group as usize].levels { self.ftl.take_row(group, Purpose::Level) } else { None };
        let Some(row) = level.or_else(|| self.ftl.take_row(group, Purpose::Collect)) else { return false };
        let c = &mut self.collectors[group as usize];
        let head = c.head;
        let units = c.gathered.min(self.shape.row_units);
        let mut last = NONE;
        let mut at = head;
        for _ in 0..units {
            last = at;
            at = self.moves.list[at as usize].next;
        }
        if last != NONE {
            self.moves.list[last as usize].next = NONE;
        }
        c.head = at;
        if at == NONE {
            c.tail = NONE;
        }
        c.gathered -= units;
        c.rows += 1;
        let page_row = row.base / self.shape.row_units;
        let time_ns = self.flash.program_time_ns(self.shape.page_of(page_row), false);
        let mut op = FlashOp::new(OpKind::CollectProgram, self.shape.die_of(page_row), time_ns);
        op.owner = group;
        op.base = row.base;
        op.head = head;
        op.units = self.shape.row_units as u16;
        self.flash.submit(op, now_ns, &mut self.events);
        true
    }

    /// A unit of a victim was moved or became invalid.
    fn moved(&mut self, from: u32, now_ns: u64) {
        let block = from / self.shape.block_units;
        let group = block / self.shape.group_blocks;
        if self.ftl.end_move(block) && self.collectors[group as usize].victim != block {
            self.erase(block, now_ns);
        }
    }

    /// A row of a victim was read.
    pub(super) fn collect_read(&mut self, op: FlashOp, now_ns: u64) {
        let mut at = op.head;
        self.collectors[op.owner as usize].reading -= u32::from(op.units);
        while at != NONE {
            let Move { from, next, .. } = self.moves.list[at as usize];
            if self.ftl.holds(from).is_some() {
                let c = &mut self.collectors[op.owner as usize];
                self.moves.list[at as usize].next = NONE;
                if c.tail == NONE {
                    c.head = at;
                } else {
                    self.moves.list[c.tail as usize].next = at;
                }
                c.tail = at;
                c.gathered += 1;
            } else {
                // The host overwrote the unit while it was read.
                self.moves.release(at);
                self.moved(from, now_ns);
            }
            at = next;
        }
        self.collect(op.owner, now_ns);
        self.refresh_and_dispatch(op.owner, now_ns);
    }

    /// A row of moved units is on the media.
    pub(super) fn collect_programmed(&mut self, op: FlashOp, now_ns: u64) {
        let mut at = op.head;
        for physical in op.base..op.base + self.shape.row_units {
            if at == NONE {
                self.ftl.leave(physical);
                continue;
            }
            let Move { logical, from, next } = self.moves.release(at);
            if self.ftl.map[logical as usize] == from {
                self.ftl.invalidate(from);
                self.ftl.bind(logical, physical);
            } else {
                self.ftl.leave(physical);
            }
            self.moved(from, now_ns);
            at = next;
        }
        self.ftl.finish_row(op.base);
        self.counters.media_written_bytes += u64::from(self.shape.row_units) * UNIT_BYTES;
        self.collectors[op.owner as usize].rows -= 1;
        self.collect(op.owner, now_ns);
        self.refresh_and_dispatch(op.owner, now_ns);
    }

    /// A die has erased its part of a block.
    pub(super) fn block_erased(&mut self, op: FlashOp, now_ns: u64) {
        if self.ftl.end_erase(op.base) {
            self.collect(op.owner, now_ns);
            self.refresh_and_dispatch(op.owner, now_ns);
        }
    }

    fn refresh_and_dispatch(&mut self, group: u32, now_ns: u64) {
        self.refresh(group);
        self.dispatch(now_ns);
    }
}
