//! What the pool answers, held against the oracle and against what must be true at any time.

use super::World;
use super::devices::{harmful_strikes, misreads};
use super::flights::{Flight, InFlight};
use super::halt::{Halt, broken};
use crate::device::SimDevice;
use crate::stamp::{content_of, tag_of};
use forebay_block::{ClassId, DiskId};
use forebay_volume::{Completion, Extent, ExtentState, Op, Outcome, RequestError};
use std::collections::BTreeMap;

/// Reads of the survey after a restart that are in progress at once.
const SURVEY_DEPTH: usize = 16;

impl World<'_> {
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
            for (place, result, is_misread) in std::mem::take(&mut self.surveyed) {
                match result {
                    Ok(data) => {
                        let content = content_of(&data);
                        let oracle = &mut self.memory.oracle;
                        let was_damaged = content.is_some_and(|content| oracle.is_damaged_as(place, content));
                        oracle.survived(place, content).map_err(|what| broken(&what))?;
                        // A copy on the fast tier may have answered, and be gone the next time.
                        if was_damaged && self.pool.engine.has_copies() {
                            oracle.remains_damaged(place);
                        }
                    }
                    Err(error) => {
                        let is_damage = self.memory.oracle.may_survive_unreadable(place);
                        self.judge_error(&error, is_misread || is_damage && is_of_device(&error))?;
                        self.memory.oracle.unread(place);
                    }
                }
            }
        }
        self.memory.oracle.restarted();
        self.note_survivors();
        Ok(())
    }

    pub(super) fn stalled(&self, what: &str) -> Halt {
        let (now, effects) = (self.clock.now_ns(), self.power.effects());
        let (flights, engine) = (self.flights.len(), self.pool.engine.describe());
        let is_idle = |device: &SimDevice| device.next_ns() == u64::MAX;
        let devices: Vec<_> = self.devices.iter().map(|device| (is_idle(device), device.struck())).collect();
        let views = [self.pool.devices.mirror(), self.pool.devices.array().map(|array| array.members())];
        let members: Vec<_> = views.into_iter().flatten().map(|view| format!("{:?}", view.status())).collect();
        let fill = self.fill();
        broken(&format!(
            "{what}; at {now} ns, {effects} effects, {flights} in progress; {fill}\ndevices, whether each is idle and how often a fault struck: {devices:?}\n{}\n{engine}",
            members.join("\n")
        ))
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

    /// What must be true at any time, except where a map page was lost: the statistics still count what it named.
    pub(super) fn audit(&self) -> Result<(), Halt> {
        if self.is_damaged {
            return Ok(());
        }
        self.pool.engine.audit().map_err(|what| broken(&what))
    }

    /// What a failed flush covered and cannot be read again is lost: until it is written anew it may be unreadable, over restarts as well.
    pub(super) fn note_losses(&mut self) {
        if !self.may_fail() {
            return;
        }
        let lost = self.pool.engine.status().counters.flush_lost_blocks;
        if lost > self.lost_blocks {
            self.memory.oracle.lost();
        }
        self.lost_blocks = lost;
    }

    /// Whether requests may fail: a device has failed since the round began, or lies.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        let may_be = self.members.as_ref().is_none_or(|members| members.may_be_in_doubt());
        let is_in_doubt = may_be && self.pool.devices.array().is_some_and(|array| array.rows_in_doubt() > 0);
        self.errors_allowed || is_in_doubt || harmful_strikes(self.devices) > self.strikes_before
    }

    /// The power is cut: where devices have failed, requests in flight may have failed in part as well, and nobody was
    /// left to be informed. What came later and was done says nothing of them.
    pub fn give_up(&mut self) {
        if self.may_fail() {
            self.flights.changes().for_each(|made| self.memory.oracle.failed(made));
        }
    }

    /// Whether a request may have failed for a reason of its own: it met damage that is known, or a misread, or a base that cannot be read, or a disk that
    /// is not there yet. `self` is as before its end.
    fn is_excused(&self, entry: &InFlight, error: &RequestError) -> bool {
        if entry.is_early
            && matches!(error, RequestError::NoDisk | RequestError::OutOfRange | RequestError::ReadOnly(_))
        {
            return true;
        }
        if !is_of_device(error) {
            return false;
        }
        let oracle = &self.memory.oracle;
        let has_met = match &entry.flight {
            Flight::Read { disk, since, .. } | Flight::Status { disk, since, .. } => {
                since.iter().any(|(&block, &since)| oracle.may_have_been_unreadable((*disk, block), since))
            }
            Flight::Change { made, .. } | Flight::Orphan(made) => oracle.touches_damage(made),
            _ => false,
        };
        has_met || misreads(self.devices) > entry.misread || self.failed_of_base(entry.disk) > entry.failed_of_base
    }

    fn judge_error(&self, error: &RequestError, is_excused: bool) -> Result<(), Halt> {
        if self.power.is_off() {
            // The answer of a machine without power reaches nobody.
            return Err(Halt::PowerOff);
        }
        if is_excused || self.may_fail() {
            return Ok(());
        }
        Err(broken(&format!("a request failed, and no device had: {error}; {}", self.fill())))
    }

    pub(super) fn judge(&mut self, completion: Completion) -> Result<(), Halt> {
        let Completion { token, result } = completion;
        self.note(|| {
            format!("end of {token}: {}", result.as_ref().map_or_else(ToString::to_string, |_| "good".into()))
        });
        let Some(entry) = self.flights.end(token) else {
            return Err(broken(&format!("request {token} was answered twice")));
        };
        let is_excused = result.as_ref().is_err_and(|error| self.is_excused(&entry, error));
        if is_excused && self.failed_of_base(entry.disk) > entry.failed_of_base {
            self.met("requests that failed as a base could not be read");
        }
        if matches!(entry.flight, Flight::Own) {
            self.own.insert(token, result.is_ok());
        }
        match (result, entry.flight) {
            (result, Flight::Survey { place }) => match result {
                Ok(Outcome::Data(data)) => self.surveyed.push((place, Ok(data), false)),
                Ok(other) => return Err(broken(&format!("a read was answered with {other:?}"))),
                Err(error) => self.surveyed.push((place, Err(error), is_excused)),
            },
            (Err(error), Flight::Change { made, .. }) => {
                self.memory.oracle.failed(&made);
                self.judge_error(&error, is_excused)?;
            }
            (Err(_), Flight::Orphan(made)) => self.memory.oracle.failed(&made),
            (Err(error), _) => self.judge_error(&error, is_excused)?,
            (Ok(_), Flight::Change { made, fua }) => {
                let is_durable = fua || entry.is_through;
                if is_durable && !fua {
                    self.met("changes that were durable as they were written through");
                }
                self.memory.oracle.acknowledge(&made, is_durable);
            }
            (Ok(_), Flight::Aside | Flight::Own | Flight::Orphan(_)) => {}
            (Ok(_), Flight::Flush { event }) => self.memory.oracle.flushed(event),
            (Ok(Outcome::Data(data)), Flight::Read { disk, sector, sectors, since }) => {
                if data.len() as u64 != sectors * 512 {
                    return Err(broken(&format!("read {token}: {} bytes of {}", data.len(), sectors * 512)));
                }
                for (position, bytes) in (sector..).zip(data.chunks_exact(512)) {
                    let (block, within) = (position / 8, (position % 8) as usize);
                    let since = since.get(&block).copied().unwrap_or(0);
                    let seen = self.memory.oracle.saw((disk, block), within, tag_of(bytes), since);
                    seen.map_err(|what| broken(&format!("read {token}: {what}")))?;
                }
            }
            (Ok(Outcome::Extents(extents)), Flight::Status { disk, sector, sectors, since }) => {
                self.judge_extents(&extents, (disk, sector, sectors), &since)
                    .map_err(|what| broken(&format!("status {token}: {what}")))?;
            }
            (Ok(other), Flight::Read { .. } | Flight::Status { .. }) => {
                return Err(broken(&format!("a request was answered with {other:?}")));
            }
        }
        Ok(())
    }

    /// Extents begin where they were asked for, end no later, and what is called a hole or zeros may be read as zeros.
    fn judge_extents(
        &self,
        extents: &[Extent],
        (disk, sector, sectors): (u16, u64, u64),
        since: &BTreeMap<u64, usize>,
    ) -> Result<(), String> {
        let mut at = sector;
        for extent in extents {
            let end = at + extent.len_bytes / 512;
            if extent.len_bytes == 0 || !extent.len_bytes.is_multiple_of(512) || end > sector + sectors {
                return Err(format!("extents of {sector}+{sectors} that do not fit: {extents:?}"));
            }
            if matches!(extent.state, ExtentState::Hole | ExtentState::Zero) {
                for (&block, &since) in since.range(at / 8..end.div_ceil(8)) {
                    let here = (at.max(block * 8)..end.min(block * 8 + 8)).map(|position| (position % 8) as usize);
                    for within in here {
                        self.memory.oracle.saw((disk, block), within, Some(0), since)?;
                    }
                }
            }
            at = end;
        }
        if at == sector && sectors > 0 { Err("no extents".into()) } else { Ok(()) }
    }
}

/// Whether a request failed as something could not be read from a device.
fn is_of_device(error: &RequestError) -> bool {
    matches!(error, RequestError::Damaged { .. } | RequestError::Device { .. })
}
