//! One round of a life: a pool between switching on and the end of power, and everything it says held against the
//! oracle.

use crate::device::SimDevice;
use crate::fault::Fault;
use crate::oracle::{Content, Made, Oracle, Place, fill, tag_of};
use crate::power::Power;
use crate::scenario::{CLASSES, Step};
use forebay_block::VirtualClock;
use forebay_block::{Buf, ClassId, Device, DiskId};
use forebay_prism::class::ClassChange;
use forebay_volume::engine::Activity;
use forebay_volume::{Completion, Devices, Engine, Op, Outcome, Pool, Request, RequestError};
use std::collections::BTreeMap;

/// A request that is under way for longer than this has stalled, in nanoseconds of virtual time.
const STALL_NS: u64 = 400_000_000_000;
/// Rounds of polling within one step, at most.
const TURNS_MAX: u32 = 400_000;
/// Reads of the survey after a restart that are under way at once.
const SURVEY_DEPTH: usize = 16;
/// Ticks while nothing moves, in nanoseconds: the first, and the longest.
const TICK_NS: (u64, u64) = (1_000_000, 1_000_000_000);

/// A pool at rest has noted what is durable after so long, in nanoseconds.
const REST_NS: u64 = 5_000_000_000;

/// Name of the first disk, which is always there.
pub const FIRST: &str = "disk";
/// Name of the second, which comes and goes.
pub const SECOND: &str = "two";

/// Why a round did not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The power failed: as planned.
    PowerOff,
    /// The volume broke a promise.
    Broken(String),
}

/// What is known of the second disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// Its number.
    pub id: u16,
    /// Its size in blocks.
    pub blocks: u64,
}

/// What outlives a round.
pub struct Memory {
    /// What may be read.
    pub oracle: Oracle,
    /// The next tag.
    pub next_tag: u32,
    /// The second disk as it durably is.
    pub second: Option<Second>,
    /// As it may be instead: the change was not durable when the power failed.
    pub maybe: Option<Option<Second>>,
}

enum Flight {
    Change { made: Made, fua: bool },
    Flush { event: u64 },
    Read { disk: u16, sector: u64, since: BTreeMap<u64, usize> },
    Survey { place: Place },
}

/// A pool that runs.
pub struct World<'a> {
    /// The pool.
    pub pool: Pool,
    /// What outlives it.
    pub memory: &'a mut Memory,
    devices: &'a [SimDevice],
    clock: VirtualClock,
    power: Power,
    flights: BTreeMap<u64, (Flight, u64)>,
    next_token: u64,
    skew_ns: i64,
    done: Vec<Completion>,
    surveyed: Vec<(Place, Result<Buf, RequestError>)>,
    /// Requests may fail.
    pub errors_allowed: bool,
    /// Parts of the map may have been lost before.
    pub is_damaged: bool,
    strikes_before: u64,
    /// The journal of what happened, where somebody reads it.
    pub log: Option<Vec<String>>,
    tick_ns: u64,
}

impl<'a> World<'a> {
    /// A pool that was opened.
    pub fn new(
        engine: Engine,
        list: Devices,
        devices: &'a [SimDevice],
        memory: &'a mut Memory,
        clock: &VirtualClock,
        power: &Power,
    ) -> Self {
        Self {
            pool: Pool::new(engine, list),
            memory,
            devices,
            clock: clock.clone(),
            power: power.clone(),
            flights: BTreeMap::new(),
            next_token: 1,
            skew_ns: 0,
            done: Vec::new(),
            surveyed: Vec::new(),
            errors_allowed: false,
            is_damaged: false,
            strikes_before: harmful_strikes(devices),
            log: None,
            tick_ns: TICK_NS.0,
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>14} ns {:>6} effects  {}", self.clock.now_ns(), self.power.effects(), what()));
        }
    }

    /// What the engine does now.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.pool.engine.activity()
    }

    /// Whether a change of disks is not durable yet.
    #[must_use]
    pub fn is_disk_change_open(&self) -> bool {
        self.memory.maybe.is_some()
    }

    fn first(&self) -> DiskId {
        self.pool.engine.disk_named(FIRST).map_or(DiskId(0), |disk| disk.id)
    }

    /// Asks the pool for something about sectors of a disk.
    fn submit(
        &mut self,
        (disk, sector, sectors): (DiskId, u64, u64),
        op: Op,
        fua: bool,
        tag: Option<ClassId>,
        flight: Flight,
    ) {
        let token = self.next_token;
        self.next_token += 1;
        self.note(|| {
            format!("submit {token}: {} disk {} sector {sector}+{sectors} fua {fua} {tag:?}", word(&op), disk.0)
        });
        self.flights.insert(token, (flight, self.clock.now_ns()));
        let (offset_bytes, len_bytes) = (sector * 512, sectors * 512);
        self.pool.submit(Request { token, disk, offset_bytes, len_bytes, op, fua, export: 0, tag });
    }

    /// Writes sectors; `is_zero` says which, from 0, are zeros instead of a tag of their own.
    fn write_tags(
        &mut self,
        disk: DiskId,
        sector: u64,
        sectors: u64,
        fua: bool,
        class: Option<u8>,
        is_zero: impl Fn(u32) -> bool,
    ) {
        let first = self.memory.next_tag;
        self.memory.next_tag += sectors as u32;
        let tags: Vec<u32> = (0..sectors as u32).map(|at| if is_zero(at) { 0 } else { first + at }).collect();
        let mut buf = Buf::new(sectors as usize * 512);
        buf.chunks_exact_mut(512).zip(&tags).for_each(|(sector, &tag)| fill(tag, sector));
        let made = self.memory.oracle.change(disk.0, sector, &tags);
        let tag = class.map(ClassId);
        self.submit((disk, sector, sectors), Op::Write(buf), fua, tag, Flight::Change { made, fua });
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
                let blocks = sector / 8..(sector + sectors).div_ceil(8);
                let since = blocks.map(|block| (block, self.memory.oracle.read_begins((disk.0, block)))).collect();
                self.submit(
                    (disk, sector, sectors),
                    Op::Read,
                    false,
                    None,
                    Flight::Read { disk: disk.0, sector, since },
                );
            }
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
            Step::WriteSecond { block } => {
                if let (Some(second), None) = (self.memory.second, self.memory.maybe)
                    && block < second.blocks
                {
                    self.write_tags(DiskId(second.id), block * 8, 8, false, None, |_| false);
                }
            }
            Step::Settle => self.settle(0)?,
            Step::Idle(ns) => self.idle(ns)?,
            Step::ClockStep(ns) => self.skew_ns = self.skew_ns.saturating_add(ns),
        }
        Ok(())
    }

    fn change_second(&mut self, blocks: u64) -> Result<(), Halt> {
        if self.memory.maybe.is_some() {
            // An earlier change failed to become durable: one at a time.
            return Ok(());
        }
        let before = self.pool.engine.checkpoint_number();
        let engine = &mut self.pool.engine;
        let wanted = match self.memory.second {
            None if blocks == 0 => return Ok(()),
            None => match engine.add_disk(SECOND, blocks * 4096, true) {
                Ok(id) => Some(Second { id: id.0, blocks }),
                Err(_) => return Ok(()),
            },
            Some(second) if blocks > 0 => match engine.resize_disk(SECOND, blocks * 4096, true) {
                Ok(()) => Some(Second { blocks, ..second }),
                Err(_) => return Ok(()),
            },
            Some(second) => {
                let made = self.memory.oracle.change(second.id, 0, &vec![0; second.blocks as usize * 8]);
                let flight = Flight::Change { made, fua: true };
                self.submit((DiskId(second.id), 0, second.blocks * 8), Op::Discard, true, None, flight);
                self.settle(0)?;
                self.checkpoint()?;
                if self.pool.engine.remove_disk(SECOND).is_err() {
                    return Ok(());
                }
                None
            }
        };
        let before = before.max(self.pool.engine.checkpoint_number());
        self.note(|| format!("the second disk becomes {wanted:?}"));
        self.memory.maybe = Some(wanted);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| world.is_checkpoint_over(before, tries))?;
        // One that was under way already may not have it yet.
        self.checkpoint()?;
        if self.pool.engine.checkpoint_number() > before + 1 {
            self.settle_second(wanted);
        }
        Ok(())
    }

    /// What the second disk is, from now on.
    fn settle_second(&mut self, now: Option<Second>) {
        if let (Some(old), None) = (self.memory.second, now) {
            self.memory.oracle.forget_disk(old.id);
        }
        (self.memory.second, self.memory.maybe) = (now, None);
    }

    /// Asks for a checkpoint and waits until it is there or has failed.
    fn checkpoint(&mut self) -> Result<(), Halt> {
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(false);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| world.is_checkpoint_over(before, tries))
    }

    /// Whether there is a checkpoint after number `before`, or an attempt after `tries` was given up.
    fn is_checkpoint_over(&self, before: u64, tries: u64) -> bool {
        let engine = &self.pool.engine;
        engine.checkpoint_number() > before
            || engine.checkpoints_given_up() > tries
            || engine.checkpoint_failed()
            || engine.read_only_reason().is_some()
    }

    /// After a restart: the second disk is what it was, or what it was to become.
    ///
    /// # Errors
    /// Where it is neither.
    pub fn find_second(&mut self) -> Result<(), Halt> {
        let found = self.pool.engine.disk_named(SECOND);
        let found = found.map(|disk| Second { id: disk.id.0, blocks: disk.size_bytes / 4096 });
        let known = self.memory.second;
        if found != known && self.memory.maybe != Some(found) {
            let maybe = self.memory.maybe;
            return Err(broken(&format!("the second disk is {found:?}, not {known:?} (or {maybe:?})")));
        }
        self.settle_second(found);
        Ok(())
    }

    /// Lets things move until `ready`.
    fn until(&mut self, mut ready: impl FnMut(&Self) -> bool) -> Result<(), Halt> {
        for _ in 0..TURNS_MAX {
            if ready(self) {
                return Ok(());
            }
            self.turn()?;
        }
        Err(self.stalled("nothing comes to an end"))
    }

    /// Waits until at most `left` requests are under way.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn settle(&mut self, left: usize) -> Result<(), Halt> {
        self.until(|world| world.flights.len() <= left)
    }

    fn idle(&mut self, ns: u64) -> Result<(), Halt> {
        let until = self.clock.now_ns() + ns;
        self.until(|world| world.clock.now_ns() >= until)
    }

    /// The devices under the pool.
    #[must_use]
    pub fn devices(&self) -> &'a [SimDevice] {
        self.devices
    }

    /// A clean stop in which the power fails after so many requests.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn stop_until(&mut self, effects: u32) -> Result<(), Halt> {
        self.settle(0)?;
        self.power.fail_after(u64::from(effects));
        self.stop()
    }

    /// Goes on until the devices have carried out so many requests more, or have nothing to do any more.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn run_out(&mut self, effects: u32) -> Result<(), Halt> {
        self.power.fail_after(u64::from(effects));
        self.until(|world| world.flights.is_empty() && !world.pool.in_flight())
    }

    /// Everything is flushed, and then nobody asks for anything for so long that the pool has noted it.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn rest(&mut self) -> Result<(), Halt> {
        self.settle(0)?;
        self.step(&Step::Flush)?;
        self.settle(0)?;
        self.idle(REST_NS)
    }

    /// A clean stop.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn stop(&mut self) -> Result<(), Halt> {
        self.settle(0)?;
        let before = self.pool.engine.checkpoint_number();
        self.pool.engine.request_checkpoint(true);
        let tries = self.pool.engine.checkpoints_given_up();
        self.until(|world| {
            let engine = &world.pool.engine;
            let is_good = !engine.checkpoint_pending() && !engine.is_busy();
            is_good || world.is_checkpoint_over(u64::MAX, tries)
        })?;
        if self.power.is_off() {
            return Err(Halt::PowerOff);
        }
        let engine = &self.pool.engine;
        if engine.checkpoint_number() == before && !self.may_fail() {
            return Err(broken(&format!("no clean stop: {:?}", engine.status().counters.last_checkpoint_error)));
        }
        Ok(())
    }

    /// Reads every block that was ever touched, as after a restart, and holds it against what may have survived.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub fn survey(&mut self) -> Result<(), Halt> {
        for places in self.memory.oracle.places().chunks(SURVEY_DEPTH) {
            for &(disk, block) in places {
                let size = self.pool.engine.disks().find(|found| found.id.0 == disk).map_or(0, |disk| disk.size_bytes);
                if (block + 1) * 4096 <= size {
                    let flight = Flight::Survey { place: (disk, block) };
                    self.submit((DiskId(disk), block * 8, 8), Op::Read, false, None, flight);
                }
            }
            self.settle(0)?;
            for (place, result) in std::mem::take(&mut self.surveyed) {
                match result {
                    Ok(data) => {
                        let mut content: Content = [0; 8];
                        let mut is_whole = true;
                        for (sector, tag) in data.chunks_exact(512).zip(&mut content) {
                            match tag_of(sector) {
                                Some(found) => *tag = found,
                                None => is_whole = false,
                            }
                        }
                        let content = is_whole.then_some(content);
                        self.memory.oracle.survived(place, content).map_err(|what| broken(&what))?;
                    }
                    Err(error) => {
                        self.judge_error(&error)?;
                        self.memory.oracle.unread(place);
                    }
                }
            }
        }
        self.memory.oracle.restarted();
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Halt> {
        if self.power.is_off() {
            return Err(Halt::PowerOff);
        }
        let now = self.clock.now_ns();
        self.pool.tick(now.saturating_add_signed(self.skew_ns));
        let mut done = std::mem::take(&mut self.done);
        let moved = self.pool.poll_once(&mut done);
        let moved = moved || !done.is_empty();
        let judged = done.drain(..).try_for_each(|completion| self.judge(completion));
        self.done = done;
        judged?;
        if moved {
            self.tick_ns = TICK_NS.0;
            return Ok(());
        }
        let next = self.devices.iter().map(SimDevice::next_ns).min().unwrap_or(u64::MAX);
        if next > now {
            self.clock.advance_to(next.min(now + self.tick_ns));
            self.tick_ns = (self.tick_ns * 2).min(TICK_NS.1);
        }
        if let Some((token, (_, since))) = self.flights.first_key_value()
            && now.saturating_sub(*since) > STALL_NS
        {
            let what = format!("request {token} is under way for {} s", (now - since) / 1_000_000_000);
            return Err(self.stalled(&what));
        }
        self.audit()
    }

    fn stalled(&self, what: &str) -> Halt {
        let (now, effects) = (self.clock.now_ns(), self.power.effects());
        let (flights, engine) = (self.flights.len(), self.pool.engine.describe());
        broken(&format!("{what}; at {now} ns, {effects} effects, {flights} under way; {}\n{engine}", self.fill()))
    }

    fn fill(&self) -> String {
        let status = self.pool.engine.status();
        let (fast, capacity) = (status.fast, status.capacity);
        let table = self.pool.engine.prism().table();
        let name = |at: u8| table.get(ClassId(at)).map_or("?", |spec| spec.name.as_str());
        let classes: Vec<String> = (status.classes.iter().zip(0..))
            .filter(|(class, _)| class.fast_blocks + class.capacity_blocks > 0)
            .map(|(class, at)| format!("{} {}+{}", name(at), class.fast_blocks, class.capacity_blocks))
            .collect();
        let (free, bands) = (status.free_bands, status.bands);
        format!("{fast:?} {capacity:?} bands free {free} of {bands}, blocks by class {}", classes.join(", "))
    }

    /// What must be true at any time, except where a map page was lost: the books still count what it named.
    fn audit(&self) -> Result<(), Halt> {
        if self.is_damaged {
            return Ok(());
        }
        self.pool.engine.audit().map_err(|what| broken(&what))
    }

    /// Whether requests may fail: a device has failed since the round began, or lies.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        self.errors_allowed || harmful_strikes(self.devices) > self.strikes_before
    }

    fn judge_error(&self, error: &RequestError) -> Result<(), Halt> {
        if self.power.is_off() {
            // The answer of a machine without power reaches nobody.
            return Err(Halt::PowerOff);
        }
        if self.may_fail() {
            return Ok(());
        }
        Err(broken(&format!("a request failed, and no device had: {error}; {}", self.fill())))
    }

    fn judge(&mut self, completion: Completion) -> Result<(), Halt> {
        let Completion { token, result } = completion;
        self.note(|| {
            format!("end of {token}: {}", result.as_ref().map_or_else(ToString::to_string, |_| "good".into()))
        });
        let Some((flight, _)) = self.flights.remove(&token) else {
            return Err(broken(&format!("request {token} was answered twice")));
        };
        match (result, flight) {
            (result, Flight::Survey { place }) => match result {
                Ok(Outcome::Data(data)) => self.surveyed.push((place, Ok(data))),
                Ok(other) => return Err(broken(&format!("a read was answered with {other:?}"))),
                Err(error) => self.surveyed.push((place, Err(error))),
            },
            (Err(error), Flight::Change { made, .. }) => {
                self.memory.oracle.failed(&made);
                self.judge_error(&error)?;
            }
            (Err(error), _) => self.judge_error(&error)?,
            (Ok(_), Flight::Change { made, fua }) => {
                self.memory.oracle.acknowledge(&made, fua);
            }
            (Ok(_), Flight::Flush { event }) => self.memory.oracle.flushed(event),
            (Ok(Outcome::Data(data)), Flight::Read { disk, sector, since }) => {
                for (position, bytes) in (sector..).zip(data.chunks_exact(512)) {
                    let (block, within) = (position / 8, (position % 8) as usize);
                    let since = since.get(&block).copied().unwrap_or(0);
                    let seen = self.memory.oracle.saw((disk, block), within, tag_of(bytes), since);
                    seen.map_err(|what| broken(&format!("read {token}: {what}")))?;
                }
            }
            (Ok(other), Flight::Read { .. }) => return Err(broken(&format!("a read was answered with {other:?}"))),
        }
        Ok(())
    }
}

fn broken(what: &impl ToString) -> Halt {
    Halt::Broken(what.to_string())
}

fn word(op: &Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write(_) => "write",
        Op::Flush => "flush",
        Op::Discard => "discard",
        Op::WriteZeroes { .. } => "write zeroes",
        Op::Cache => "cache",
        Op::Status { .. } => "status",
    }
}

/// From now on devices show these faults.
pub fn plan_faults(devices: &[SimDevice], faults: &[Fault]) {
    for (at, device) in devices.iter().enumerate() {
        device.plan_faults(faults.iter().filter(|fault| fault.device == at).copied().collect());
    }
}

/// Faults that have struck devices so far and because of which requests may fail.
#[must_use]
pub fn harmful_strikes(devices: &[SimDevice]) -> u64 {
    let of = |device: &SimDevice| -> u64 {
        device.struck().into_iter().filter(|(kind, _)| kind.is_harmful()).map(|(_, strikes)| strikes).sum()
    };
    devices.iter().map(of).sum()
}

/// Handles of the devices, for an engine.
#[must_use]
pub fn boxed(devices: &[SimDevice]) -> Devices {
    Devices::new(devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>).collect())
}
