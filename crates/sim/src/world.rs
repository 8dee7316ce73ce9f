//! One round of a life: a pool between switching on and the end of power, and everything it says held against the
//! oracle.

mod judge;
mod second;

use crate::device::SimDevice;
use crate::fault::Fault;
use crate::oracle::{Made, Oracle, Place};
use crate::order::Hold;
use crate::power::Power;
use crate::scenario::{CLASSES, NAMES, Step};
use crate::stamp::fill_all;
use forebay_block::VirtualClock;
use forebay_block::{Buf, ClassId, Device, DiskId};
use forebay_prism::class::ClassChange;
use forebay_prism::{FileHints, HostHints};
use forebay_volume::engine::Activity;
use forebay_volume::{Completion, Devices, Engine, HintPart, HintParts, Op, Pool, Request, RequestError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request that is in flight for longer than this has stalled, in nanoseconds of virtual time.
const STALL_NS: u64 = 400_000_000_000;
/// Rounds of polling within one step, at most.
const TURNS_MAX: u32 = 400_000;
/// Reads of the survey after a restart that are in progress at once.
const SURVEY_DEPTH: usize = 16;
/// Ticks while nothing moves, in nanoseconds: the first, and the longest.
const TICK_NS: (u64, u64) = (1_000_000, 1_000_000_000);

/// A pool at rest has noted what is durable after so long, in nanoseconds.
const REST_NS: u64 = 5_000_000_000;
/// And so long for what a failed flush covered to be written again.
const MADE_GOOD_NS: u64 = 100_000_000_000;

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
    /// Number of the checkpoint that was the last as that change was made, where nobody waited for it.
    pub changed_at: u64,
}

enum Flight {
    Change {
        made: Made,
        fua: bool,
    },
    Flush {
        event: u64,
    },
    Read {
        disk: u16,
        sector: u64,
        since: BTreeMap<u64, usize>,
    },
    Survey {
        place: Place,
    },
    /// Where blocks lie.
    Status {
        disk: u16,
        sector: u64,
        sectors: u64,
        since: BTreeMap<u64, usize>,
    },
    /// Nothing that is read says how it went.
    Aside,
    /// The connection that asked is gone: nobody hears how it went.
    Orphan(Made),
}

struct InFlight {
    flight: Flight,
    since_ns: u64,
    /// Connection that it came over.
    connection: u64,
    /// Misreads before it was submitted.
    misread: u64,
    /// To a disk that was not durably there, or not so large.
    is_early: bool,
}

/// What the host tells of a file's blocks.
fn hints(file: u64, blocks: u64) -> HintPart {
    let path = NAMES[file as usize % NAMES.len()].to_owned();
    let file = FileHints { path, ..FileHints::default() };
    HintPart { blocks, hints: HostHints { file: Some(Arc::new(file)), ..HostHints::default() } }
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
    flights: BTreeMap<u64, InFlight>,
    next_token: u64,
    /// Connections that requests come over, one after the other.
    pub connections: u64,
    /// What the engine did before the last turn.
    before: Activity,
    skew_ns: i64,
    done: Vec<Completion>,
    surveyed: Vec<(Place, Result<Buf, RequestError>, bool)>,
    /// The host tells of files.
    pub names_files: bool,
    /// Devices fail flushes a few times and are well then.
    pub makes_good: bool,
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
            connections: 1,
            before: Activity::default(),
            skew_ns: 0,
            done: Vec::new(),
            surveyed: Vec::new(),
            names_files: false,
            makes_good: false,
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

    /// What the engine does now, or did when the power failed: what devices tell it then ends much of that.
    #[must_use]
    pub fn activity(&self) -> Activity {
        if self.power.is_off() { self.before } else { self.pool.engine.activity() }
    }

    fn in_flight(&mut self, token: u64, flight: Flight, disk: DiskId) {
        let is_second = self.memory.maybe.flatten().or(self.memory.second).is_some_and(|second| second.id == disk.0);
        let entry = InFlight {
            flight,
            since_ns: self.clock.now_ns(),
            connection: token % self.connections.max(1),
            misread: self.misread(),
            is_early: self.memory.maybe.is_some() && is_second,
        };
        self.flights.insert(token, entry);
    }

    /// Misreads so far.
    fn misread(&self) -> u64 {
        self.devices.iter().map(SimDevice::misread).sum()
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
        self.in_flight(token, flight, disk);
        let (offset_bytes, len_bytes) = (sector * 512, sectors * 512);
        let hints = match &op {
            // Of each write the first block is of one file, two are of another, and the rest is nobody's.
            Op::Write(_) if self.names_files => {
                Some(Box::new(HintParts::from_iter([hints(sector / 64, 1), hints(sector / 128, 2)])))
            }
            _ => None,
        };
        self.pool.submit(Request { token, disk, offset_bytes, len_bytes, op, fua, export: 0, tag, hints });
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
        fill_all(&tags, &mut buf);
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
                let since = self.since(disk, sector, sectors);
                self.submit(
                    (disk, sector, sectors),
                    Op::Read,
                    false,
                    None,
                    Flight::Read { disk: disk.0, sector, since },
                );
            }
            Step::Reclass { block, blocks, file } => {
                let token = self.next_token;
                self.next_token += 1;
                self.note(|| format!("submit {token}: reclass {block}+{blocks} as {}", NAMES[usize::from(file)]));
                self.in_flight(token, Flight::Aside, disk);
                let parts = HintParts::from_iter([hints(u64::from(file), blocks)]);
                let (offset_bytes, len_bytes) = (block * 4096, blocks * 4096);
                let hints = Some(Box::new(parts));
                let op = Op::Reclass;
                let (fua, export, tag) = (false, 0, None);
                self.pool.submit(Request { token, disk, offset_bytes, len_bytes, op, fua, export, tag, hints });
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
            Step::DiskNow { blocks } => self.change_second_now(blocks),
            Step::WriteNow { block, blocks, fua } => {
                if let Some(second) = self.memory.maybe.flatten().or(self.memory.second)
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
            Step::HangUp { connection } => self.hang_up(u64::from(connection)),
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

    /// Where a read of these sectors begins to see.
    fn since(&self, disk: DiskId, sector: u64, sectors: u64) -> BTreeMap<u64, usize> {
        let blocks = sector / 8..(sector + sectors).div_ceil(8);
        let oracle = &self.memory.oracle;
        oracle.touched(disk.0, blocks).map(|place| (place.1, oracle.read_begins(place))).collect()
    }

    /// A connection dies: its requests go on, and nobody hears of them. The client comes back at once.
    fn hang_up(&mut self, connection: u64) {
        let connections = self.connections.max(1);
        for entry in self.flights.values_mut().filter(|entry| entry.connection == connection % connections) {
            entry.flight = match std::mem::replace(&mut entry.flight, Flight::Aside) {
                Flight::Change { made, .. } | Flight::Orphan(made) => Flight::Orphan(made),
                _ => Flight::Orphan(Made::new()),
            };
        }
        self.note(|| format!("connection {connection} is gone"));
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

    /// Waits until at most `left` requests are in flight.
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
        self.idle(REST_NS)?;
        if self.makes_good && self.pool.engine.status().flush_failed {
            plan_faults(self.devices, &[]);
            self.idle(MADE_GOOD_NS)?;
            if self.pool.engine.status().flush_failed {
                let why = self.pool.engine.read_only_reason().unwrap_or_default().to_owned();
                return Err(self.stalled(&format!("a failed flush is not made good ({why})")));
            }
        }
        Ok(())
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

    fn turn(&mut self) -> Result<(), Halt> {
        if self.power.is_off() {
            return Err(Halt::PowerOff);
        }
        let now = self.clock.now_ns();
        self.pool.tick(now.saturating_add_signed(self.skew_ns));
        self.before = self.pool.engine.activity();
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
        self.is_second_durable();
        if let Some((token, entry)) = self.flights.first_key_value()
            && now.saturating_sub(entry.since_ns) > STALL_NS
        {
            let what = format!("request {token} is in progress for {} s", (now - entry.since_ns) / 1_000_000_000);
            return Err(self.stalled(&what));
        }
        self.audit()
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
        Op::Reclass => "reclass",
        Op::Status { .. } => "status",
    }
}

/// From now on devices show these faults.
pub fn plan_faults(devices: &[SimDevice], faults: &[Fault]) {
    for (at, device) in devices.iter().enumerate() {
        device.plan_faults(faults.iter().filter(|fault| fault.device == at).copied().collect());
    }
}

/// From now on devices hold these requests back.
pub fn plan_holds(devices: &[SimDevice], holds: &[Hold]) {
    for (at, device) in devices.iter().enumerate() {
        device.plan_holds(holds.iter().filter(|hold| hold.device == at).copied().collect());
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
