//! What the pool answers, held against the oracle and against what must be true at any time.

use super::{Flight, Halt, SURVEY_DEPTH, World, broken, harmful_strikes};
use crate::stamp::{content_of, tag_of};
use forebay_block::{ClassId, DiskId};
use forebay_volume::{Completion, Op, Outcome, RequestError};

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
            for (place, result) in std::mem::take(&mut self.surveyed) {
                match result {
                    Ok(data) => {
                        self.memory.oracle.survived(place, content_of(&data)).map_err(|what| broken(&what))?;
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

    pub(super) fn stalled(&self, what: &str) -> Halt {
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
    pub(super) fn audit(&self) -> Result<(), Halt> {
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

    /// The power is cut: where devices have failed, requests under way may have failed in part as well, and nobody was
    /// left to be told. What came later and was done says nothing of them.
    pub fn give_up(&mut self) {
        if self.may_fail() {
            for (flight, _) in self.flights.values() {
                if let Flight::Change { made, .. } = flight {
                    self.memory.oracle.failed(made);
                }
            }
        }
    }

    pub(super) fn judge_error(&self, error: &RequestError) -> Result<(), Halt> {
        if self.power.is_off() {
            // The answer of a machine without power reaches nobody.
            return Err(Halt::PowerOff);
        }
        if self.may_fail() {
            return Ok(());
        }
        Err(broken(&format!("a request failed, and no device had: {error}; {}", self.fill())))
    }

    pub(super) fn judge(&mut self, completion: Completion) -> Result<(), Halt> {
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
            (Ok(_), Flight::Aside) => {}
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
