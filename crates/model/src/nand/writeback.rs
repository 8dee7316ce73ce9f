//! From the write buffer to the flash.

use super::Nand;
use super::flash::{Op as FlashOp, OpKind};
use super::ftl::Purpose;
use super::shape::{BUFFERED, NONE};

impl Nand {
    /// Puts a unit into the buffer; false where it is full.
    pub(super) fn buffer_unit(&mut self, unit: u32, stream: u32) -> bool {
        let entry = self.ftl.map[unit as usize];
        if entry != NONE && entry & BUFFERED != 0 && self.buffer.is_waiting(entry & !BUFFERED) {
            // The unit was overwritten before it went to the flash: the new data takes the old slot.
            return true;
        }
        let mut slot = self.buffer.fill(unit, stream, self.epoch);
        if slot.is_none() && self.buffer.close_early() {
            slot = self.buffer.fill(unit, stream, self.epoch);
        }
        let Some(slot) = slot else { return false };
        if entry & BUFFERED == 0 {
            self.ftl.invalidate(entry);
        }
        self.ftl.map[unit as usize] = BUFFERED | slot;
        if let Some(ahead) = &mut self.prefetched {
            ahead.forget(unit);
        }
        true
    }

    /// Deallocates a unit.
    pub(super) fn deallocate(&mut self, unit: u32) {
        let entry = std::mem::replace(&mut self.ftl.map[unit as usize], NONE);
        if entry == NONE {
            return;
        }
        if entry & BUFFERED == 0 {
            self.ftl.invalidate(entry);
        } else if self.buffer.is_waiting(entry & !BUFFERED) {
            let epoch = self.buffer.drop_waiting(entry & !BUFFERED);
            self.slot_freed(epoch);
        }
        if let Some(ahead) = &mut self.prefetched {
            ahead.forget(unit);
        }
    }

    /// A unit of the buffer is on the media, or was deallocated.
    fn slot_freed(&mut self, epoch: u32) {
        for flush in &mut self.flushes {
            // Units buffered before the flush arrived have an older epoch.
            if epoch.wrapping_sub(flush.epoch) as i32 <= -1 {
                flush.remaining -= 1;
            }
        }
    }

    fn end_flushes(&mut self, now_ns: u64) {
        while let Some(at) = self.flushes.iter().position(|f| f.remaining == 0) {
            let flush = self.flushes.remove(at);
            self.finish(flush.command, now_ns);
        }
    }

    /// Updates whether a group can take a host row.
    pub(super) fn refresh(&mut self, group: u32) {
        let c = &self.collectors[group as usize];
        let open = c.host_rows < self.config.buffer.rows_per_die * self.shape.wide
            && (c.debt <= i64::from(4 * self.shape.row_units * self.shape.wide) || !self.ftl.is_short(group))
            && !self.ftl.is_starved(group);
        let (word, bit) = (group as usize / 64, 1u64 << (group % 64));
        if open {
            self.accepting[word] |= bit;
        } else {
            self.accepting[word] &= !bit;
        }
    }

    /// The next group after `after` that can take a row.
    fn next_group(&self, after: u32) -> Option<u32> {
        let from = (after + 1) % self.shape.groups;
        let words = self.accepting.len();
        let first = from as usize / 64;
        let masked = self.accepting[first] & (u64::MAX << (from % 64));
        if masked != 0 {
            return Some(first as u32 * 64 + masked.trailing_zeros());
        }
        for step in 1..=words {
            let word = (first + step) % words;
            if self.accepting[word] != 0 {
                return Some(word as u32 * 64 + self.accepting[word].trailing_zeros());
            }
        }
        None
    }

    /// Sends rows of buffered units to the dies.
    pub(super) fn dispatch(&mut self, now_ns: u64) {
        // Without capacitors a flush also writes partly filled rows.
        let least = if self.flushes.is_empty() { self.shape.row_units } else { 1 };
        for stream in 0..self.config.ftl.streams {
            while self.buffer.waiting(stream) >= least {
                let Some(group) = self.next_group(self.turn[stream as usize]) else { return };
                let mut purpose = Purpose::Stream(stream);
                if self.ftl.cache_open(group) {
                    purpose = Purpose::Cache;
                }
                let Some(row) = self.ftl.take_row(group, purpose) else {
                    self.accepting[group as usize / 64] &= !(1 << (group % 64));
                    continue;
                };
                self.turn[stream as usize] = group;
                self.collectors[group as usize].host_rows += 1;
                let page_row = row.base / self.shape.row_units;
                let time_ns = self.flash.program_time_ns(self.shape.page_of(page_row), row.slc);
                let mut op = FlashOp::new(OpKind::HostProgram, self.shape.die_of(page_row), time_ns);
                op.base = row.base;
                op.owner = group;
                op.units = self.shape.row_units as u16;
                op.head = self.buffer.take(stream, self.shape.row_units);
                self.flash.submit(op, now_ns, &mut self.events);
                self.owe(group);
                self.collect(group, now_ns);
                self.refresh(group);
            }
        }
    }

    /// A host row is on the media.
    pub(super) fn host_programmed(&mut self, op: FlashOp, now_ns: u64) {
        let (mut slot, mut last, mut units) = (op.head, op.head, 0);
        for physical in op.base..op.base + self.shape.row_units {
            if slot == NONE {
                self.ftl.leave(physical);
                continue;
            }
            let unit = self.buffer.logical(slot);
            if self.ftl.map[unit as usize] == BUFFERED | slot {
                self.ftl.bind(unit, physical);
            } else {
                self.ftl.leave(physical);
            }
            let (next, epoch) = self.buffer.chained(slot);
            self.slot_freed(epoch);
            units += 1;
            last = slot;
            slot = next;
        }
        self.buffer.programmed(op.head, last, units);
        self.ftl.finish_row(op.base);
        self.counters.media_written_bytes += u64::from(self.shape.row_units) * super::UNIT_BYTES;
        self.collectors[op.owner as usize].host_rows -= 1;
        self.refresh(op.owner);
        self.end_flushes(now_ns);
        self.wake_writers(now_ns);
    }

    /// Lets waiting writes into the buffer, and sends buffered rows to the dies.
    pub(super) fn wake_writers(&mut self, now_ns: u64) {
        while let Some(id) = self.writers.pop_front() {
            if !self.buffer_write(id, now_ns) {
                break;
            }
        }
        self.dispatch(now_ns);
    }
}
