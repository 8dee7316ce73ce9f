//! Disks over bases: they are copied while the pool is served, whatever condition a base is in, and are detached.

use super::World;
use super::administered_disk::after_change;
use super::administered_states::{ADMINISTERED, Known};
use super::halt::{Halt, broken};
use super::memory::FIRST;
use crate::base::{BaseImage, Condition};
use crate::oracle::Made;
use forebay_block::DiskId;
use forebay_volume::RequestError;
use forebay_volume::engine::AdoptionStatus;

/// How long the copying of what is left of a base takes at most once it is well, in nanoseconds: it rests for seconds after a failure.
const COPIED_NS: u64 = 300_000_000_000;

impl World<'_> {
    /// Disks lie over their bases, where they do so yet. They are all well.
    pub fn lie_over(&mut self) {
        let over: Vec<(DiskId, bool)> = (self.pool.engine.disks())
            .filter(|disk| disk.base.is_some())
            .map(|disk| (disk.id, disk.is_being_removed()))
            .collect();
        for (id, is_leaving) in over {
            if is_leaving {
                self.pool.engine.abandon_base(id);
            } else if let Some(base) = self.memory.bases.get(&id.0) {
                base.be(Condition::Well);
                self.pool.attach_base(id, base.device());
            }
        }
    }

    /// Goes on with the adoption of the first disk: some time after everything was copied its base is detached.
    pub(super) fn adopt(&mut self) {
        let first = self.pool.engine.disk_named(FIRST).filter(|disk| disk.base.is_some()).map(|disk| disk.id);
        let Some(status) = first.and_then(|first| self.pool.engine.adoption(first)) else { return };
        self.copied_of_base = status.done_blocks;
        let is_time = self.pool.engine.checkpoint_number().is_multiple_of(3);
        if status.is_complete && !status.is_leaving && is_time && self.pool.engine.detach_base(FIRST).is_ok() {
            self.note(|| "the base of the first disk is detached".to_owned());
            self.bases_detached += 1;
        }
    }

    /// The disk by this name that lies over a base, and the base.
    fn over_base(&self, name: &str) -> Option<(DiskId, BaseImage)> {
        let disk = self.pool.engine.disk_named(name).filter(|disk| disk.base.is_some())?;
        Some((disk.id, self.memory.bases.get(&disk.id.0)?.clone()))
    }

    /// From now on the base of a disk is in another condition.
    pub(super) fn be_in_condition(&mut self, is_administered: bool, condition: Condition) {
        if let Some((disk, base)) = self.over_base(if is_administered { ADMINISTERED } else { FIRST }) {
            self.note(|| format!("the base of disk {} is like this now: {condition:?}", disk.0));
            base.be(condition);
        }
    }

    /// Reads of the base of a disk that have failed so far.
    pub(super) fn failed_of_base(&self, disk: u16) -> u64 {
        self.memory.bases.get(&disk).map_or(0, |base| base.struck().0)
    }

    /// Bases are well again: all of them is copied in little time, unless something else is in the way of it.
    pub(super) fn copy_all(&mut self) -> Result<(), Halt> {
        for name in [FIRST, ADMINISTERED] {
            let Some((disk, base)) = self.over_base(name) else { continue };
            base.be(Condition::Well);
            let until = self.clock.now_ns() + COPIED_NS;
            let (failed, late) = base.struck();
            let is_left = |world: &Self| world.pool.engine.adoption(disk).is_some_and(|status| !status.is_complete);
            let was_left = is_left(self);
            self.until(|world| world.clock.now_ns() >= until || !is_left(world))?;
            if is_left(self) {
                let status = self.pool.engine.adoption(disk);
                let is_in_the_way = self.may_fail() || self.is_damaged || self.pool.engine.read_only_reason().is_some();
                if !is_in_the_way && !status.as_ref().is_some_and(|status| self.is_known_damage(disk, status)) {
                    return Err(self.stalled(&format!("a base that is well is not copied: {status:?}")));
                }
                continue;
            }
            if was_left && failed > 0 {
                self.met("bases copied after they had failed");
            }
            if was_left && late > 0 {
                self.met("bases copied after they had been slow or had hung");
            }
        }
        Ok(())
    }

    /// Whether all was looked at, and what cannot be copied is damage that is known: writes of hosts that were lost or damaged, which the base does not replace.
    fn is_known_damage(&self, disk: DiskId, status: &AdoptionStatus) -> bool {
        let oracle = &self.memory.oracle;
        let damaged = oracle.places().into_iter().filter(|&place| place.0 == disk.0 && oracle.may_be_unreadable(place));
        matches!(status.why, Some(RequestError::Damaged { .. }))
            && status.done_blocks + status.failed_blocks == status.blocks
            && status.failed_blocks <= damaged.count() as u64
    }

    /// The base of the administered disk is to be detached.
    pub(super) fn detach_administered(&mut self) -> Result<(), Halt> {
        let Some((disk, _)) = self.over_base(ADMINISTERED) else { return Ok(()) };
        let number = after_change(&self.pool.engine);
        let left = self.pool.engine.adoption(disk).filter(|status| !status.is_complete && !status.is_leaving);
        let was_leaving = self.administered().is_some_and(|known| known.base_blocks == 0);
        match self.pool.engine.detach_base(ADMINISTERED) {
            Ok(()) if left.is_some() => Err(broken(&format!("a base was detached that is needed: {left:?}"))),
            Ok(()) if was_leaving => Ok(()),
            Ok(()) => {
                self.met("bases of disks detached that were laid over them while the pool was served");
                let to = self.administered().map(|known| Known { base_blocks: 0, ..known });
                self.administered_changed(number, disk.0, to, Made::new())
            }
            Err(_) => {
                self.met("bases that were needed yet");
                Ok(())
            }
        }
    }
}
