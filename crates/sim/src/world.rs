//! One round of a life: a pool between switching on and the end of power, and everything it says held against the
//! oracle.

mod administered_disk;
mod administered_jobs;
mod administered_states;
mod bases;
mod devices;
mod ending;
mod flights;
mod halt;
mod judge;
mod memory;
mod policies;
mod scrub;
mod scrubs;
mod second_disk;
mod steps;

use crate::device::SimDevice;
use crate::members::Members;
use crate::oracle::Place;
use crate::power::Power;
use administered_states::Job;
use devices::next_ns;
use flights::Flights;
use forebay_block::{Buf, VirtualClock};
use forebay_volume::engine::Activity;
use forebay_volume::{Completion, Devices, Engine, Pool, RequestError};
use scrubs::Scrubs;
use std::collections::BTreeMap;

pub use devices::{harmful_strikes, misreads, plan_faults, plan_holds};
pub use halt::Halt;
pub use memory::{FIRST, Memory};

/// A request that is in flight for longer than this has stalled, in nanoseconds of virtual time.
const STALL_NS: u64 = 400_000_000_000;
/// Rounds of polling within one step, at most.
const TURNS_MAX: u32 = 400_000;
/// Ticks while nothing moves, in nanoseconds: the first, and the longest.
const TICK_NS: (u64, u64) = (1_000_000, 1_000_000_000);

/// A pool that runs.
pub struct World<'a> {
    /// The pool.
    pub pool: Pool,
    /// What outlives it.
    pub memory: &'a mut Memory,
    devices: &'a [SimDevice],
    clock: VirtualClock,
    power: Power,
    flights: Flights,
    /// What the engine did before the last turn.
    before: Activity,
    skew_ns: i64,
    done: Vec<Completion>,
    surveyed: Vec<(Place, Result<Buf, RequestError>, bool)>,
    /// The host tells of files.
    pub names_files: bool,
    /// Devices fail flushes a few times and are well then.
    pub makes_good: bool,
    /// What capacity devices have in their caches dies with the server, and nothing else does.
    pub is_over_bucket: bool,
    /// What goes past the fast tier is durable when it is answered.
    is_through: bool,
    /// Requests may fail.
    pub errors_allowed: bool,
    /// Parts of the map may have been lost before.
    pub is_damaged: bool,
    strikes_before: u64,
    /// Blocks that failed flushes have lost for good in this opening, as far as they are known.
    lost_blocks: u64,
    /// Members that devices of the pool are made of, where they may be exchanged.
    pub members: Option<&'a mut Members>,
    /// Blocks of the first disk's base that were looked at, and how often it was found not to be needed any more.
    pub copied_of_base: u64,
    pub bases_detached: u64,
    /// The journal of what happened, where somebody reads it.
    pub log: Option<Vec<String>>,
    tick_ns: u64,
    scrubs: Scrubs,
    /// Changes of disks that go on.
    jobs: Vec<Job>,
    /// Requests of the server's own that have ended, and whether they were good.
    own: BTreeMap<u64, bool>,
    /// What was met, and how often.
    pub met: BTreeMap<&'static str, u64>,
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
            flights: Flights::new(),
            before: Activity::default(),
            skew_ns: 0,
            done: Vec::new(),
            surveyed: Vec::new(),
            names_files: false,
            makes_good: false,
            is_over_bucket: false,
            is_through: false,
            errors_allowed: false,
            is_damaged: false,
            strikes_before: harmful_strikes(devices),
            lost_blocks: 0,
            members: None,
            copied_of_base: 0,
            bases_detached: 0,
            log: None,
            tick_ns: TICK_NS.0,
            scrubs: Scrubs::default(),
            jobs: Vec::new(),
            own: BTreeMap::new(),
            met: BTreeMap::new(),
        }
    }

    fn met(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
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

    /// Whether a change of disks is not durable yet.
    #[must_use]
    pub fn is_disk_change_open(&self) -> bool {
        self.memory.maybe.is_some() || self.memory.administered.is_open()
    }

    /// The devices under the pool.
    #[must_use]
    pub fn devices(&self) -> &'a [SimDevice] {
        self.devices
    }

    /// From now on requests come over so many connections, one after the other.
    pub fn connect(&mut self, connections: u64) {
        self.flights.connections = connections;
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

    fn turn(&mut self) -> Result<(), Halt> {
        if self.power.is_off() {
            return Err(Halt::PowerOff);
        }
        let now = self.clock.now_ns();
        self.pool.tick(now.saturating_add_signed(self.skew_ns));
        self.before = self.pool.engine.activity();
        let mut done = std::mem::take(&mut self.done);
        let moved = self.pool.poll_once(&mut done);
        let moved = moved || !done.is_empty() || self.pool.engine.computes();
        self.note_losses();
        let judged = done.drain(..).try_for_each(|completion| self.judge(completion));
        self.done = done;
        judged?;
        self.look_at_scrub()?;
        self.look_at_administered();
        self.advance_jobs()?;
        if moved {
            self.tick_ns = TICK_NS.0;
            return Ok(());
        }
        let next = next_ns(self.devices);
        if next > now {
            self.clock.advance_to(next.min(now + self.tick_ns));
            self.tick_ns = (self.tick_ns * 2).min(TICK_NS.1);
        }
        self.settle_second_if_durable();
        self.adopt();
        if let Some((token, since_ns)) = self.flights.oldest()
            && now.saturating_sub(since_ns) > STALL_NS
        {
            let what = format!("request {token} is in progress for {} s", (now - since_ns) / 1_000_000_000);
            return Err(self.stalled(&what));
        }
        self.audit()
    }
}
