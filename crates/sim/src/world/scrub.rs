//! Scrubs beside hosts: what one reports held against the oracle, hosts that change just what it reads, and rot while the pool is used.

use super::World;
use super::devices::misreads;
use super::flights::Flight;
use super::halt::{Halt, broken};
use super::scrubs::Scrubs;
use crate::members::views;
use crate::scenario::{Chase, Step};
use forebay_block::DiskId;
use forebay_volume::Op;
use forebay_volume::layout::scrub_record::{PARITY, ScrubState};
use forebay_volume::mirror::MirrorStatus;

/// How long a host waits for the next step of a scrub, in nanoseconds.
const CHASE_NS: u64 = 100_000_000;
/// How long a scrub may take while nobody asks for anything, in nanoseconds.
const PASS_NS: u64 = 60_000_000_000;
/// Ranges of damage from which on a scrub may not show all that it has found.
const FOUND_MAX: usize = 60;

impl World<'_> {
    /// From now on what scrubs report is held against the oracle. One that goes on after a power cut may come to a block before the survey does: what was
    /// damaged may be there again then, although a write after it was answered.
    pub fn judge_scrubs(&mut self) {
        let oracle = &self.memory.oracle;
        let damaged = oracle.places().into_iter().filter(|&place| oracle.may_survive_unreadable(place)).collect();
        self.scrubs = Scrubs { is_judged: true, damaged, misread: misreads(self.devices), ..Scrubs::default() };
    }

    /// The survey has read everything: what may be reported from now on is what it has left as damaged.
    pub(super) fn note_survivors(&mut self) {
        self.scrubs.damaged.clear();
        self.note_damage();
    }

    /// Whether a scrub has looked at everything since something was damaged last.
    #[must_use]
    pub fn has_seen_all(&self) -> bool {
        self.scrubs.has_seen_all
    }

    /// What scrubs have come to: passes that ended, blocks reported, changes of what was being read, sectors that rotted meanwhile.
    #[must_use]
    pub fn scrub_counts(&self) -> [(&'static str, u64); 4] {
        let Scrubs { passes, reports, chased, rotten, .. } = self.scrubs;
        [
            ("passes of a scrub", passes),
            ("damaged blocks that a scrub reported", reports),
            ("changes of what a scrub was reading", chased),
            ("sectors that rotted while the pool was used", rotten),
        ]
    }

    fn note_damage(&mut self) {
        let oracle = &self.memory.oracle;
        self.scrubs.damaged.extend(oracle.places().into_iter().filter(|&place| oracle.may_be_unreadable(place)));
    }

    /// When members last changed, of each device that is several; `None` where one of them does not hold everything.
    fn members_since(&self) -> Option<Vec<u64>> {
        let generation = |status: MirrorStatus| (!status.is_degraded()).then_some(status.generation);
        views(&self.pool.devices).iter().flatten().map(|view| generation(view.status())).collect()
    }

    /// A pass begins, or goes on.
    pub(super) fn start_scrub(&mut self) {
        if self.pool.engine.scrub().record.state == ScrubState::Idle {
            self.note_damage();
            // What the pass before has reported is forgotten, and with it that it had seen everything.
            self.scrubs.reported.clear();
            self.scrubs.has_seen_all = false;
            self.scrubs.since = Some(self.members_since());
        }
        self.note(|| "a scrub begins, or goes on".to_owned());
        self.pool.engine.start_scrub();
    }

    /// Waits until no pass goes on.
    pub(super) fn end_scrub(&mut self) -> Result<(), Halt> {
        let until_ns = self.clock.now_ns() + PASS_NS;
        let is_running = |world: &Self| world.pool.engine.scrub().record.state == ScrubState::Running;
        self.until(|world| !is_running(world) || world.clock.now_ns() >= until_ns)?;
        // What cannot be read of a device for long holds it up.
        if is_running(self) && !self.may_fail() && self.strikes_in_all() == 0 {
            return Err(self.stalled(&format!("a scrub without an end: {:?}", self.pool.engine.scrub())));
        }
        Ok(())
    }

    /// Faults that have struck any device in this life.
    fn strikes_in_all(&self) -> usize {
        self.devices.iter().map(|device| device.struck().len()).sum()
    }

    /// Waits for the next step of a scrub and changes a part of what it reads.
    pub(super) fn chase(&mut self, chase: &Chase) -> Result<(), Halt> {
        let at = |world: &Self| {
            let record = world.pool.engine.scrub().record;
            world.pool.engine.activity().scrub.then_some((record.disk, record.block))
        };
        let (before, until_ns) = (at(self), self.clock.now_ns() + CHASE_NS);
        self.until(|world| world.clock.now_ns() >= until_ns || at(world).is_some_and(|at| Some(at) != before))?;
        let Some((disk, first)) = at(self) else { return Ok(()) };
        for _ in 0..chase.turns {
            self.turn()?;
        }
        let disk = if disk == PARITY { self.first() } else { DiskId(disk) };
        // Within the part of the leaf that is used.
        let block = first + u64::from(chase.block);
        let leaf = crate::scenario::LEAF_BLOCKS;
        let used = chase.used.max(1);
        let block = if block % leaf < used { block } else { block / leaf * leaf + u64::from(chase.block) % used };
        let left = self.pool.engine.disks().find(|found| found.id == disk).map_or(0, |found| found.size_bytes / 4096);
        let blocks = chase.blocks.min(used - block % leaf).min(left.saturating_sub(block));
        if blocks == 0 || disk != self.first() {
            return Ok(());
        }
        self.scrubs.chased += u64::from(at(self).is_some());
        let (sector, sectors, fua) = (block * 8, blocks * 8, chase.fua);
        if chase.is_discard {
            let made = self.memory.oracle.change(disk.0, sector, &vec![0; sectors as usize]);
            self.submit((disk, sector, sectors), Op::Discard, fua, None, Flight::Change { made, fua });
        } else {
            self.write_tags(disk, sector, sectors, fua, chase.class, |_| false);
        }
        Ok(())
    }

    /// Sectors of a member that may do wrong rot, while nothing is on its way: what is moved and rots where it goes to is found by no scrub that has read
    /// it where it came from.
    pub(super) fn rot(&mut self, slot: usize, count: usize, seed: u64) -> Result<(), Halt> {
        self.step(&Step::Flush)?;
        self.settle(0)?;
        let until_ns = self.clock.now_ns() + CHASE_NS;
        let is_quiet = |world: &Self| {
            let activity = world.pool.engine.activity();
            world.flights.len() == 0 && !world.pool.in_flight() && !activity.destage && !activity.collection
        };
        self.until(|world| is_quiet(world) || world.clock.now_ns() >= until_ns)?;
        if !is_quiet(self) {
            return Ok(());
        }
        let views = views(&self.pool.devices);
        let Some(members) = self.members.as_mut() else { return Ok(()) };
        members.know(self.pool.engine.bands());
        let rotten = members.rot(slot, (count, seed), self.devices, self.memory, &views);
        self.scrubs.rotten += rotten;
        if rotten > 0 {
            (self.scrubs.since, self.scrubs.has_seen_all) = (None, false);
        }
        self.note(|| format!("{rotten} sectors rot"));
        Ok(())
    }

    /// What a scrub reports was damaged.
    pub(super) fn look_at_scrub(&mut self) -> Result<(), Halt> {
        if !self.scrubs.is_judged {
            return Ok(());
        }
        let status = self.pool.engine.scrub();
        for found in &status.found {
            let blocks = found.offset_bytes / 4096..(found.offset_bytes + found.len_bytes) / 4096;
            for place in blocks.map(|block| (found.disk.0, block)) {
                if !self.scrubs.reported.insert(place) {
                    continue;
                }
                self.scrubs.reports += 1;
                let is_excused = self.scrubs.damaged.contains(&place)
                    || self.memory.oracle.may_be_unreadable(place)
                    || misreads(self.devices) > self.scrubs.misread
                    || self.may_fail();
                if !is_excused && !self.power.is_off() {
                    return Err(broken(&format!("a scrub reports damage where there is none: {found:?}")));
                }
            }
        }
        if status.record.state == ScrubState::Idle
            && let Some(since) = self.scrubs.since.take()
        {
            self.scrubs.passes += 1;
            let is_same = since.is_some() && since == self.members_since();
            // Bands with parity of something else are moved after that, and not counted twice: a pass after the next start finds whether they were.
            let unfit = self.pool.engine.status().counters.unfit_bands;
            self.scrubs.has_seen_all = is_same && unfit == 0;
            self.note(|| {
                format!("a pass of a scrub has ended; all members have held everything: {is_same}; unfit {unfit}")
            });
        }
        Ok(())
    }

    /// What cannot be read now was reported by the pass that has seen everything.
    ///
    /// # Errors
    /// The power failed, or a promise was broken.
    pub(super) fn expect_damage_report(&mut self) -> Result<(), Halt> {
        if !self.scrubs.has_seen_all || self.may_fail() || self.pool.engine.scrub().found.len() >= FOUND_MAX {
            return Ok(());
        }
        for (disk, block) in self.scrubs.damaged.clone() {
            let size = self.pool.engine.disks().find(|found| found.id.0 == disk).map_or(0, |disk| disk.size_bytes);
            if (block + 1) * 4096 <= size {
                let flight = Flight::Survey { place: (disk, block) };
                self.submit((DiskId(disk), block * 8, 8), Op::Read, false, None, flight);
                self.settle(0)?;
            }
        }
        for (place, result, is_misread) in std::mem::take(&mut self.surveyed) {
            if let Err(error) = result
                && !is_misread
                && !self.scrubs.reported.contains(&place)
            {
                return Err(broken(&format!("a scrub has not reported what cannot be read: {place:?}, {error}")));
            }
        }
        Ok(())
    }
}
