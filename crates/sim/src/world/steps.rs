//! What the host does: each step of a round as requests to the pool, of which the oracle learns.

use super::World;
use super::devices::misreads;
use super::flights::{Flight, InFlight};
use super::halt::{Halt, broken};
use super::memory::FIRST;
use crate::members::views;
use crate::scenario::{CLASSES, NAMES, Step};
use crate::stamp::fill_all;
use forebay_block::{Buf, ClassId, DiskId};
use forebay_prism::class::ClassChange;
use forebay_prism::{FileHints, HostHints};
use forebay_volume::{HintPart, HintParts, Op, Request};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the host tells of a file's blocks.
fn hints(file: u64, blocks: u64) -> HintPart {
    let path = NAMES[file as usize % NAMES.len()].to_owned();
    let file = FileHints { path, ..FileHints::default() };
    HintPart { blocks, hints: HostHints { file: Some(Arc::new(file)), ..HostHints::default() } }
}

/// What the log calls an operation.
fn word(op: &Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write(_) => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes { .. } => "write zeroes",
        Op::Cache => "cache",
        Op::Reclass => "reclass",
        Op::Status { .. } => "status",
    }
}

impl World<'_> {
    pub(super) fn first(&self) -> DiskId {
        self.pool.engine.disk_named(FIRST).map_or(DiskId(0), |disk| disk.id)
    }

    pub(super) fn in_flight(&mut self, token: u64, flight: Flight, disk: DiskId) {
        let is_second = self.memory.used_second().is_some_and(|second| second.id == disk.0);
        let is_administered = self.memory.administered.is_open() && self.memory.administered.has(disk.0);
        let is_early = self.memory.maybe.is_some() && is_second || is_administered;
        let (since_ns, misread) = (self.clock.now_ns(), misreads(self.devices));
        let (failed_of_base, is_through) = (self.failed_of_base(disk.0), self.is_through);
        self.flights
            .begin(token, InFlight { flight, since_ns, misread, disk: disk.0, failed_of_base, is_early, is_through });
    }

    /// Asks the pool for something about sectors of a disk.
    pub(super) fn submit(
        &mut self,
        (disk, sector, sectors): (DiskId, u64, u64),
        op: Op,
        fua: bool,
        tag: Option<ClassId>,
        flight: Flight,
    ) {
        let token = self.flights.token();
        self.note(|| {
            format!("submit {token}: {} disk {} sector {sector}+{sectors} fua {fua} {tag:?}", word(&op), disk.0)
        });
        self.in_flight(token, flight, disk);
        let (offset_bytes, len_bytes) = (sector * 512, sectors * 512);
        let hints = match &op {
            // Of each write the first block is of one file, two are of another, and the rest is nobody's.
            Op::Write(_) if self.names_files => {
                Some(Box::new(HintParts::from_iter([hints(sector / 64, 1), hints(sector / 128, 2)])))
            }
            _ => None,
        };
        let session = self.flights.session(token, disk, &mut self.pool.engine);
        self.pool.submit(Request { token, disk, offset_bytes, len_bytes, op, fua, export: 0, session, tag, hints });
    }

    /// Writes sectors; `is_zero` says which, from 0, are zeros instead of a tag of their own.
    pub(super) fn write_tags(
        &mut self,
        disk: DiskId,
        sector: u64,
        sectors: u64,
        fua: bool,
        class: Option<u8>,
        is_zero: impl Fn(u32) -> bool,
    ) {
        let mut tags = self.memory.new_tags(sectors as usize);
        tags.iter_mut().zip(0..).for_each(|(tag, at)| *tag = if is_zero(at) { 0 } else { *tag });
        let mut buf = Buf::new(sectors as usize * 512);
        fill_all(&tags, &mut buf);
        let made = self.memory.oracle.change(disk.0, sector, &tags);
        let tag = class.map(ClassId);
        self.submit((disk, sector, sectors), Op::Write(buf), fua, tag, Flight::Change { made, fua });
    }

    /// The host tells which file blocks belong to.
    fn reclass(&mut self, disk: DiskId, block: u64, blocks: u64, file: u8) {
        let token = self.flights.token();
        self.note(|| format!("submit {token}: reclass {block}+{blocks} as {}", NAMES[usize::from(file)]));
        self.in_flight(token, Flight::Aside, disk);
        let parts = HintParts::from_iter([hints(u64::from(file), blocks)]);
        let (offset_bytes, len_bytes) = (block * 4096, blocks * 4096);
        let hints = Some(Box::new(parts));
        let op = Op::Reclass;
        let session = self.flights.session(token, disk, &mut self.pool.engine);
        let (fua, export, tag) = (false, 0, None);
        self.pool.submit(Request { token, disk, offset_bytes, len_bytes, op, fua, export, session, tag, hints });
    }

    /// Where a read of these sectors begins to see.
    pub(super) fn since(&self, disk: DiskId, sector: u64, sectors: u64) -> BTreeMap<u64, usize> {
        let blocks = sector / 8..(sector + sectors).div_ceil(8);
        let oracle = &self.memory.oracle;
        oracle.touched(disk.0, blocks).map(|place| (place.1, oracle.read_begins(place))).collect()
    }

    /// Does one step.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn step(&mut self, step: &Step) -> Result<(), Halt> {
        let disk = self.first();
        match *step {
            Step::Write { sector, sectors, fua, class, zeros } => {
                self.write_tags(disk, sector, sectors, fua, class, |_| zeros);
            }
            Step::Patchwork { sector, sectors, fua, class } => {
                self.write_tags(disk, sector, sectors, fua, class, |at| at / 8 % 2 == 0);
            }
            Step::Clear { sector, sectors, fua, is_discard } => {
                let made = self.memory.oracle.change(disk.0, sector, &vec![0; sectors as usize]);
                let op = if is_discard { Op::Discard } else { Op::WriteZeroes { may_unmap: sectors % 2 == 0 } };
                self.submit((disk, sector, sectors), op, fua, None, Flight::Change { made, fua });
            }
            Step::Read { sector, sectors } => {
                let since = self.since(disk, sector, sectors);
                self.submit(
                    (disk, sector, sectors),
                    Op::Read,
                    false,
                    None,
                    Flight::Read { disk: disk.0, sector, sectors, since },
                );
            }
            Step::Reclass { block, blocks, file } => self.reclass(disk, block, blocks, file),
            Step::Flush => {
                let event = self.memory.oracle.flush_begins();
                self.submit((disk, 0, 0), Op::Flush, false, None, Flight::Flush { event });
            }
            Step::Checkpoint => self.pool.engine.request_checkpoint(false),
            Step::Place { class, place } => {
                use forebay_prism::Place::{Both, Capacity, Fast, Stage};
                let place = Some([Fast, Stage, Capacity, Both][usize::from(place) % 4]);
                let change = ClassChange { place, ..ClassChange::default() };
                let table = self.pool.engine.prism_mut().table_mut();
                table.set(CLASSES[usize::from(class) % 4], change).map_err(|error| broken(&error))?;
                self.pool.engine.classes_changed();
            }
            Step::Disk { blocks } => self.change_second(blocks)?,
            Step::DiskNow { blocks } => self.change_second_now(blocks),
            Step::WriteNow { block, blocks, fua } => {
                if let Some(second) = self.memory.used_second()
                    && block + blocks <= second.blocks
                {
                    self.write_tags(DiskId(second.id), block * 8, blocks * 8, fua, None, |_| false);
                }
            }
            Step::Status { sector, sectors } => {
                let since = self.since(disk, sector, sectors);
                let flight = Flight::Status { disk: disk.0, sector, sectors, since };
                self.submit((disk, sector, sectors), Op::Status { max_extents: 1000 }, false, None, flight);
            }
            Step::Mend { nth } => {
                if let Some(place) = self.memory.oracle.nth_damaged(nth as usize) {
                    self.write_tags(DiskId(place.0), place.1 * 8, 8, true, None, |_| false);
                }
            }
            Step::Hold(hold) => {
                if let Some(device) = self.devices.get(hold.device) {
                    device.add_hold(hold);
                }
            }
            Step::Fail(fault) => {
                if let Some(device) = self.devices.get(fault.device) {
                    device.add_fault(fault);
                }
            }
            Step::HangUp { connection } => {
                self.flights.hang_up(u64::from(connection), &mut self.pool.engine);
                self.note(|| format!("connection {connection} is gone"));
            }
            Step::WriteSecond { block } => {
                if let (Some(second), None) = (self.memory.second, self.memory.maybe)
                    && block < second.blocks
                {
                    self.write_tags(DiskId(second.id), block * 8, 8, false, None, |_| false);
                }
            }
            Step::Exchange { slot } => {
                let views = views(&self.pool.devices);
                if let Some(members) = self.members.as_mut() {
                    members.exchange(usize::from(slot), self.devices, &views);
                }
            }
            Step::Scrub => self.start_scrub(),
            Step::PauseScrub => _ = self.pool.engine.pause_scrub(),
            Step::EndScrub => self.end_scrub()?,
            Step::Chase(ref chase) => self.chase(chase)?,
            Step::Rot { slot, count, seed } => {
                let count = if count == u8::MAX { usize::MAX } else { usize::from(count) };
                self.rot(usize::from(slot), count, seed)?;
            }
            Step::Add { blocks, over } => self.add_administered(blocks, over)?,
            Step::Reload { class, policy } => self.reload(class, policy)?,
            Step::WriteThrough(is_on) => self.write_through(is_on),
            Step::Detach => self.detach_administered()?,
            Step::BaseIs { is_administered, condition } => self.be_in_condition(is_administered, condition),
            Step::CopyAll => self.copy_all()?,
            Step::Resize { blocks, fua, back } => self.resize_administered(blocks, fua, back)?,
            Step::Remove => self.remove_administered()?,
            Step::Put { block, blocks, fua, class } => self.put((block, blocks), fua, class),
            Step::Drop { block, blocks, fua } => self.drop_blocks(block, blocks, fua),
            Step::Get { block, blocks } => self.get(block, blocks),
            Step::Settle => self.settle(0)?,
            Step::Idle(ns) => self.idle(ns)?,
            Step::ClockStep(ns) => self.skew_ns = self.skew_ns.saturating_add(ns),
        }
        Ok(())
    }
}
