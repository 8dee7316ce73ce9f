//! Host commands on their way through the drive.

use super::Nand;
use super::cache::{Ahead, PIECE_ENTRIES};
use super::command::{Active, Flush, Stage, has_data};
use super::config::UNIT_BYTES;
use super::events::Event;
use super::flash::{Op as FlashOp, OpKind, transfer_ns};
use super::shape::{BUFFERED, NONE};
use crate::ssd::{Command, Done, Op};

/// Maximum number of flash reads in flight for one command.
const WINDOW: u32 = 64;

impl Nand {
    /// Allocates a slot for a command.
    pub(super) fn new_command(&mut self, command: Command) -> u32 {
        let first = (command.offset_bytes / UNIT_BYTES).min(u64::from(self.shape.logical_units)) as u32;
        let last = (command.offset_bytes + u64::from(command.len_bytes)).div_ceil(UNIT_BYTES);
        // The host must stay within the capacity; units beyond the end are cut off instead of wrapping to others.
        let end = last.min(u64::from(self.shape.logical_units)) as u32;
        let active = Active { command, stage: Stage::Map, cursor: first, end, parts: 0, ready_ns: 0, next: NONE };
        if self.free_command == NONE {
            self.commands.push(active);
            (self.commands.len() - 1) as u32
        } else {
            let id = self.free_command;
            self.free_command = self.commands[id as usize].next;
            self.commands[id as usize] = active;
            id
        }
    }

    /// A command arrives at the doorbell.
    pub(super) fn arrive(&mut self, id: u32, now_ns: u64) {
        self.idle = false;
        if self.inside >= self.config.controller.commands_max {
            self.queued.push_back(id);
        } else {
            self.enter(id, now_ns);
        }
    }

    fn enter(&mut self, id: u32, now_ns: u64) {
        self.inside += 1;
        let c = &self.config.controller;
        let Active { command, cursor, end, .. } = self.commands[id as usize];
        let mut cost_ns = if command.op == Op::Write { c.write_ns } else { c.read_ns };
        if has_data(command.op) {
            cost_ns += c.unit_ns * u64::from((end - cursor).saturating_sub(1));
        }
        let engine = self.engines.iter_mut().min().map_or(now_ns, |engine| {
            *engine = (*engine).max(now_ns + c.fetch_ns) + cost_ns;
            *engine
        });
        let mut at_ns = engine;
        if command.op == Op::Write {
            if c.map_update_ns > 0 {
                at_ns = at_ns.max(self.journal.open_ns);
                if cursor != self.last_written {
                    self.journal.enter(at_ns, c.map_update_ns, c.map_batch);
                }
            }
            self.last_written = end;
            at_ns = at_ns.max(self.from_host_ns) + transfer_ns(command.len_bytes.into(), c.from_host_bytes_per_s);
            self.from_host_ns = at_ns;
        }
        self.events.push(at_ns, Event::Started(id));
    }

    /// Advances a command as far as possible.
    pub(super) fn proceed(&mut self, id: u32, now_ns: u64) {
        if self.commands[id as usize].stage == Stage::Map {
            self.commands[id as usize].stage = Stage::Edges;
            if self.map_cache.is_some() && self.look_up_map(id, now_ns) {
                return;
            }
        }
        let Active { command, stage, .. } = self.commands[id as usize];
        match command.op {
            Op::Read => self.read(id, now_ns),
            Op::Write => {
                if stage == Stage::Edges {
                    self.commands[id as usize].stage = Stage::Data;
                    if self.read_edges(id, now_ns) {
                        return;
                    }
                }
                if self.writers.is_empty() {
                    self.buffer_write(id, now_ns);
                    self.dispatch(now_ns);
                } else {
                    self.writers.push_back(id);
                }
            }
            Op::Trim => {
                self.trim(id);
                self.finish(id, now_ns);
                self.wake_writers(now_ns);
            }
            Op::Flush => self.flush(id, now_ns),
        }
    }

    /// Looks up the command's pieces of the map. True where the command has to wait for a piece.
    fn look_up_map(&mut self, id: u32, now_ns: u64) -> bool {
        let Active { cursor, end, command, .. } = self.commands[id as usize];
        if cursor >= end || !has_data(command.op) {
            return false;
        }
        let mut parts = 0;
        for piece in cursor / PIECE_ENTRIES..=(end - 1) / PIECE_ENTRIES {
            let Some(cache) = &mut self.map_cache else { return false };
            if !cache.touch(piece) {
                // The pieces are spread over the dies by a multiplicative hash, on pages of the first type.
                let die = piece.wrapping_mul(0x9e37_79b1) % self.shape.dies;
                let mut op = FlashOp::new(OpKind::MapRead, die, self.flash.read_time_ns(0, 0, false));
                op.owner = id;
                op.units = 1;
                parts += 1;
                self.commands[id as usize].parts = parts;
                self.flash.submit(op, now_ns, &mut self.events);
            }
        }
        parts > 0
    }

    /// Reads the units that the command writes only in part. True where the command has to wait for them.
    fn read_edges(&mut self, id: u32, now_ns: u64) -> bool {
        let Active { cursor, end, command, .. } = self.commands[id as usize];
        let last_byte = command.offset_bytes + u64::from(command.len_bytes);
        let head = !command.offset_bytes.is_multiple_of(UNIT_BYTES);
        let tail = !last_byte.is_multiple_of(UNIT_BYTES);
        if !(head || tail) || cursor >= end {
            return false;
        }
        let edges = [(head, cursor), (tail && !(head && end - cursor == 1), end - 1)];
        for (partial, unit) in edges {
            let entry = self.ftl.map[unit as usize];
            if partial && entry & BUFFERED == 0 {
                self.commands[id as usize].parts += 1;
                self.read_run(id, entry, 1, now_ns);
            }
        }
        self.commands[id as usize].parts > 0
    }

    /// Reads units from one row for a command.
    fn read_run(&mut self, id: u32, physical: u32, units: u16, now_ns: u64) {
        let row = physical / self.shape.row_units;
        let slc = self.shape.slc_most > 0 && self.ftl.is_slc(physical);
        let time_ns = self.flash.read_time_ns(physical, self.shape.page_of(row), slc);
        let mut op = FlashOp::new(OpKind::Read, self.shape.die_of(row), time_ns);
        op.owner = id;
        op.units = units;
        op.base = physical;
        self.flash.submit(op, now_ns, &mut self.events);
    }

    fn read(&mut self, id: u32, now_ns: u64) {
        let Active { command, end, mut cursor, stage, .. } = self.commands[id as usize];
        if stage != Stage::Data {
            self.commands[id as usize].stage = Stage::Data;
            self.counters.host_read_bytes += u64::from(command.len_bytes);
            self.read_ahead(cursor, end, now_ns);
        }
        let mut in_dram = 0u32;
        while cursor < end && self.commands[id as usize].parts < WINDOW {
            let entry = self.ftl.map[cursor as usize];
            if let Some(ahead) = &mut self.prefetched {
                let known = ahead.look(cursor);
                if known != Ahead::Absent && entry != NONE {
                    if known == Ahead::Coming {
                        ahead.wait(cursor, id);
                        self.commands[id as usize].parts += 1;
                    } else {
                        in_dram += 1;
                    }
                    cursor += 1;
                    continue;
                }
            }
            if entry & BUFFERED != 0 {
                // In the buffer, or never written: no flash read is needed.
                in_dram += 1;
                cursor += 1;
                continue;
            }
            // Consecutive units of the command in the same row are read together.
            let row = entry / self.shape.row_units;
            let mut units = 1u16;
            while cursor + u32::from(units) < end {
                let other = self.ftl.map[(cursor + u32::from(units)) as usize];
                if other & BUFFERED != 0 || other / self.shape.row_units != row {
                    break;
                }
                units += 1;
            }
            cursor += u32::from(units);
            self.commands[id as usize].parts += 1;
            self.read_run(id, entry, units, now_ns);
        }
        self.commands[id as usize].cursor = cursor;
        if in_dram > 0 {
            self.send(id, now_ns + self.config.buffer.dram_ns, in_dram);
        }
        if self.commands[id as usize].parts == 0 && cursor == end {
            let ready_ns = self.commands[id as usize].ready_ns.max(now_ns);
            self.finish(id, ready_ns);
        }
    }

    /// Sends units of a read over the host link.
    fn send(&mut self, id: u32, from_ns: u64, units: u32) {
        let active = &mut self.commands[id as usize];
        let bytes = (u64::from(units) * UNIT_BYTES).min(active.command.len_bytes.into());
        self.to_host_ns = self.to_host_ns.max(from_ns) + transfer_ns(bytes, self.config.controller.to_host_bytes_per_s);
        active.ready_ns = active.ready_ns.max(self.to_host_ns);
    }

    /// A flash read for a command has ended.
    pub(super) fn data_arrived(&mut self, op: FlashOp, now_ns: u64) {
        let active = &self.commands[op.owner as usize];
        if op.kind == OpKind::Read && active.command.op == Op::Read {
            self.send(op.owner, now_ns + self.config.controller.decode_ns, op.units.into());
        }
        self.part_done(op.owner, now_ns);
    }

    fn part_done(&mut self, id: u32, now_ns: u64) {
        let active = &mut self.commands[id as usize];
        active.parts -= 1;
        if active.parts == 0 {
            self.proceed(id, now_ns);
        }
    }

    fn read_ahead(&mut self, first: u32, end: u32, now_ns: u64) {
        let Some(ahead) = &mut self.prefetched else { return };
        let Some((mut at, to)) = ahead.follow(first, end, self.shape.logical_units) else { return };
        while at < to {
            let entry = self.ftl.map[at as usize];
            if entry & BUFFERED != 0 || !ahead.begin(at) {
                at += 1;
                continue;
            }
            let row = entry / self.shape.row_units;
            let mut units = 1u16;
            while at + u32::from(units) < to && u32::from(units) < self.shape.row_units {
                let next = at + u32::from(units);
                let other = self.ftl.map[next as usize];
                if other & BUFFERED != 0 || other / self.shape.row_units != row || !ahead.begin(next) {
                    break;
                }
                units += 1;
            }
            let slc = self.shape.slc_most > 0 && self.ftl.is_slc(entry);
            let time_ns = self.flash.read_time_ns(entry, self.shape.page_of(row), slc);
            let mut op = FlashOp::new(OpKind::Prefetch, self.shape.die_of(row), time_ns);
            op.base = at;
            op.units = units;
            at += u32::from(units);
            self.flash.submit(op, now_ns, &mut self.events);
        }
    }

    /// Units read ahead have arrived in DRAM.
    pub(super) fn prefetch_arrived(&mut self, op: FlashOp, now_ns: u64) {
        for unit in op.base..op.base + u32::from(op.units) {
            let Some(ahead) = &mut self.prefetched else { return };
            let mut waiter = ahead.arrived(unit);
            while waiter != NONE {
                let Some(ahead) = &mut self.prefetched else { return };
                let (command, next) = ahead.waiter(waiter);
                waiter = next;
                self.send(command, now_ns + self.config.controller.decode_ns, 1);
                self.part_done(command, now_ns);
            }
        }
    }

    /// Puts the units of a write into the buffer, as far as there is room. False where units are left.
    pub(super) fn buffer_write(&mut self, id: u32, now_ns: u64) -> bool {
        let Active { command, end, mut cursor, .. } = self.commands[id as usize];
        let stream = if u32::from(command.stream) < self.config.ftl.streams { command.stream } else { 0 };
        while cursor < end {
            if !self.buffer_unit(cursor, stream.into()) {
                self.commands[id as usize].cursor = cursor;
                self.writers.push_front(id);
                return false;
            }
            cursor += 1;
        }
        self.commands[id as usize].cursor = cursor;
        self.counters.host_written_bytes += u64::from(command.len_bytes);
        self.finish(id, now_ns + self.config.controller.acknowledge_ns);
        true
    }

    fn trim(&mut self, id: u32) {
        let command = self.commands[id as usize].command;
        // A trim deallocates whole units only.
        let first = command.offset_bytes.div_ceil(UNIT_BYTES);
        let end =
            ((command.offset_bytes + u64::from(command.len_bytes)) / UNIT_BYTES).min(self.shape.logical_units.into());
        for unit in first..end {
            self.deallocate(unit as u32);
        }
    }

    fn flush(&mut self, id: u32, now_ns: u64) {
        let remaining = self.buffer.unwritten();
        if self.config.buffer.capacitors || remaining == 0 {
            self.finish(id, now_ns);
            return;
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.flushes.push(Flush { command: id, epoch: self.epoch, remaining });
        self.dispatch(now_ns);
    }

    /// All data of a command is complete at `ready_ns`; its completion follows.
    pub(super) fn finish(&mut self, id: u32, ready_ns: u64) {
        self.events.push(ready_ns + self.config.controller.complete_ns, Event::Complete(id));
    }

    /// Raises the interrupt of a command.
    pub(super) fn complete(&mut self, id: u32, now_ns: u64, done: &mut Vec<Done>) {
        let active = &mut self.commands[id as usize];
        done.push(Done { tag: active.command.tag, at_ns: now_ns });
        active.next = self.free_command;
        self.free_command = id;
        self.inside -= 1;
        self.active_ns = now_ns;
        if let Some(next) = self.queued.pop_front() {
            self.enter(next, now_ns);
        } else if self.inside == 0 && !self.idle_armed {
            self.idle_armed = true;
            self.events.push(now_ns + self.config.ftl.idle_ns, Event::Idle(0));
        }
    }

    /// The idle time after the last command has passed.
    pub(super) fn idle_timer(&mut self, now_ns: u64) {
        self.idle_armed = false;
        if self.inside > 0 {
            return;
        }
        let due_ns = self.active_ns + self.config.ftl.idle_ns;
        if due_ns > now_ns {
            self.idle_armed = true;
            self.events.push(due_ns, Event::Idle(0));
            return;
        }
        self.idle = true;
        for group in 0..self.shape.groups {
            self.collect(group, now_ns);
        }
    }
}
