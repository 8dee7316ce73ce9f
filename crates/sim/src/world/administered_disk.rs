//! The administered disk, and those that had its name before: changed as a server changes disks, with nobody waiting. What a power cut leaves is one of the
//! states that may have been durable, in the order in which they were made.

use super::World;
use super::administered_states::{ADMINISTERED, Known, State, places, zeros};
use super::flights::Flight;
use super::halt::{Halt, broken};
use crate::base::BaseImage;
use crate::oracle::Made;
use forebay_block::{ClassId, DiskId};
use forebay_volume::{Engine, Op};
use std::ops::Range;

/// The number of a checkpoint that will hold a change which is made now.
pub(super) fn after_change(engine: &Engine) -> u64 {
    engine.checkpoint_number() + if engine.checkpoint_pending() { 2 } else { 1 }
}

impl World<'_> {
    /// The disks as the engine has them, durable or not.
    fn administered_now(&self) -> Vec<Known> {
        let engine = &self.pool.engine;
        let those = engine.disks().filter(|disk| {
            disk.name.strip_prefix(ADMINISTERED).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        });
        let known = those.map(|disk| Known {
            id: disk.id.0,
            blocks: disk.size_bytes / 4096,
            is_leaving: disk.is_being_removed(),
            base_blocks: disk.base_for_root().filter(|_| !disk.is_being_removed()).map_or(0, |base| base.blocks),
        });
        let mut known: Vec<Known> = known.collect();
        known.sort_by_key(|known| known.id);
        known
    }

    /// The administered disk, as large as it will be.
    pub(super) fn administered(&self) -> Option<Known> {
        self.memory.administered.newest().iter().find(|known| !known.is_leaving).cloned()
    }

    /// The disks were made this; `number` as before the change.
    pub(super) fn administered_became(&mut self, number: u64, mut disks: Vec<Known>, cut: Made) -> Result<(), Halt> {
        disks.sort_by_key(|known| known.id);
        let found = self.administered_now();
        if found != disks {
            return Err(broken(&format!("disks are {found:?}, and were made {disks:?}")));
        }
        self.note(|| format!("with checkpoint {number} disks are {disks:?}"));
        self.memory.administered.states.push_back(State { number, disks, cut });
        Ok(())
    }

    /// The same but for one disk; `None`: without it.
    pub(super) fn administered_changed(
        &mut self,
        number: u64,
        id: u16,
        to: Option<Known>,
        cut: Made,
    ) -> Result<(), Halt> {
        let others = self.memory.administered.newest().iter().filter(|known| known.id != id).cloned();
        let disks = others.chain(to).collect();
        self.administered_became(number, disks, cut)
    }

    /// A new disk, over a base of so many blocks, or none.
    pub(super) fn add_administered(&mut self, blocks: u64, base_blocks: u64) -> Result<(), Halt> {
        if self.administered().is_some() {
            return Ok(());
        }
        let number = after_change(&self.pool.engine);
        let Ok(DiskId(id)) = self.pool.engine.add_disk(ADMINISTERED, blocks * 4096) else { return Ok(()) };
        // Nobody has this number any more.
        self.memory.oracle.forget_disk(id);
        self.memory.administered.begun.remove(&id);
        if self.memory.administered.newest().iter().any(|known| known.is_leaving) {
            self.met("disks made while one of their name was being removed");
        } else if self.memory.administered.is_used_name {
            self.met("disks made of a name that one had before");
        }
        self.memory.administered.is_used_name = true;
        self.memory.bases.remove(&id);
        if base_blocks > 0 {
            let base = BaseImage::new(base_blocks, &self.clock, |count| self.memory.new_tags(count));
            self.pool.engine.lay_over(DiskId(id), base.base()).map_err(|error| broken(&error))?;
            self.pool.attach_base(DiskId(id), base.device());
            self.memory.bases.insert(id, base);
            self.met("bases laid under disks while the pool was served");
        }
        self.administered_changed(number, id, Some(Known { id, blocks, is_leaving: false, base_blocks }), Made::new())
    }

    /// A larger size, or a smaller one, to which a job comes when what lies beyond it is discarded.
    pub(super) fn resize_administered(&mut self, blocks: u64, fua: bool, back: u64) -> Result<(), Halt> {
        let Some(known) = self.administered() else { return Ok(()) };
        let Known { id, blocks: old, base_blocks, .. } = known;
        if blocks < old && base_blocks > 0 {
            return match self.pool.engine.resize_disk(ADMINISTERED, blocks * 4096) {
                Ok(()) => Err(broken(&"a disk over a base was made smaller")),
                Err(_) => Ok(()),
            };
        }
        if blocks < old {
            self.discard_administered(id, blocks..old, fua);
            self.shrink_administered(id, old, blocks, back);
            return Ok(());
        }
        let number = after_change(&self.pool.engine);
        if blocks == old || self.pool.engine.resize_disk(ADMINISTERED, blocks * 4096).is_err() {
            return Ok(());
        }
        self.met("disks made larger");
        self.administered_changed(number, id, Some(Known { blocks, ..known }), Made::new())
    }

    /// A range of a disk is discarded by its host.
    fn discard_administered(&mut self, id: u16, blocks: Range<u64>, fua: bool) {
        let made = zeros(&mut self.memory.oracle, id, blocks.clone());
        let (sector, sectors) = (blocks.start * 8, (blocks.end - blocks.start) * 8);
        self.submit((DiskId(id), sector, sectors), Op::Discard, fua, None, Flight::Change { made, fua });
    }

    /// The disk has become smaller: nothing that a host may read was beyond its end.
    pub(super) fn note_shrunk(&mut self, number: u64, id: u16, (old, blocks): (u64, u64)) -> Result<(), Halt> {
        let oracle = &self.memory.oracle;
        for block in places().filter(|block| (blocks..old).contains(block)) {
            let since = oracle.read_begins((id, block));
            let is_empty = (0..8).try_for_each(|within| oracle.saw((id, block), within, Some(0), since));
            is_empty.map_err(|what| broken(&format!("a disk was made smaller than what it holds: {what}")))?;
        }
        let cut = zeros(&mut self.memory.oracle, id, blocks..old);
        self.met("disks made smaller");
        let to = self.administered().map(|known| Known { blocks, ..known });
        self.administered_changed(number, id, to, cut)
    }

    /// The range of the administered disk that it has of these blocks.
    fn of_administered(&self, block: u64, blocks: u64) -> Option<(u16, Range<u64>)> {
        let known = self.administered()?;
        (block < known.blocks).then(|| (known.id, block..(block + blocks).min(known.blocks)))
    }

    pub(super) fn put(&mut self, (block, blocks): (u64, u64), fua: bool, class: Option<u8>) {
        if let Some((id, range)) = self.of_administered(block, blocks) {
            self.write_tags(DiskId(id), range.start * 8, (range.end - range.start) * 8, fua, class, |_| false);
        }
    }

    pub(super) fn drop_blocks(&mut self, block: u64, blocks: u64, fua: bool) {
        if let Some((id, range)) = self.of_administered(block, blocks) {
            self.discard_administered(id, range, fua);
        }
    }

    pub(super) fn get(&mut self, block: u64, blocks: u64) {
        if let Some((id, range)) = self.of_administered(block, blocks) {
            let (sector, sectors) = (range.start * 8, (range.end - range.start) * 8);
            let since = self.since(DiskId(id), sector, sectors);
            let flight = Flight::Read { disk: id, sector, sectors, since };
            self.submit((DiskId(id), sector, sectors), Op::Read, false, None::<ClassId>, flight);
        }
    }

    /// What has become durable meanwhile, and is served; and bases that are needed again.
    pub(super) fn look_at_administered(&mut self) {
        self.note_called_off();
        let engine = &self.pool.engine;
        let is_durable = |state: &State| engine.checkpoint_number() >= state.number || !engine.checkpoint_pending();
        let states = &self.memory.administered.states;
        let durable = states.iter().rposition(is_durable).unwrap_or(0);
        let served: Vec<u16> = (states.iter().flat_map(|state| &state.disks))
            .filter(|known| !known.is_leaving && !self.memory.administered.begun.contains(&known.id))
            .filter(|known| engine.disks().any(|disk| disk.id.0 == known.id && disk.served_bytes() > 0))
            .map(|known| known.id)
            .collect();
        served.into_iter().for_each(|id| self.begin_administered(id));
        self.administered_is_durable(durable);
    }

    /// A disk whose base was to be detached keeps it, as some of what the pool has of it was lost.
    fn note_called_off(&mut self) {
        let Some(known) = self.administered().filter(|known| known.base_blocks == 0) else { return };
        let found = self.administered_now();
        let Some(now) = found.iter().find(|now| now.id == known.id && now.base_blocks > 0).cloned() else { return };
        self.met("detachings of a base that were called off");
        let disks = self
            .memory
            .administered
            .newest()
            .iter()
            .map(|old| if old.id == now.id { now.clone() } else { old.clone() });
        // Nobody knows when it was called off: a checkpoint may be in progress that has it.
        let (number, disks) = (after_change(&self.pool.engine) + 1, disks.collect());
        self.memory.administered.states.push_back(State { number, disks, cut: Made::new() });
    }

    /// A disk is there from now on: it is empty but for what its base has.
    fn begin_administered(&mut self, id: u16) {
        if self.memory.administered.begun.insert(id) {
            let oracle = &mut self.memory.oracle;
            let made = zeros(oracle, id, 0..u64::MAX);
            oracle.acknowledge(&made, true);
            self.memory.bases.get(&id).into_iter().for_each(|base| base.lies_under(DiskId(id), oracle));
        }
    }

    /// The state at this place is durable.
    fn administered_is_durable(&mut self, at: usize) {
        for _ in 0..at {
            let Some(old) = self.memory.administered.states.pop_front() else { return };
            let Some(now) = self.memory.administered.states.front() else { return };
            self.memory.oracle.acknowledge(&now.cut, true);
            for gone in old.disks.iter().filter(|old| now.disks.iter().all(|known| known.id != old.id)) {
                self.memory.oracle.forget_disk(gone.id);
                self.memory.administered.begun.remove(&gone.id);
            }
        }
    }

    /// After a restart: the disks are what they were made, at one time since they were durable.
    ///
    /// # Errors
    /// Where they never were, or what was flushed on one of them is gone with it.
    pub fn find_administered(&mut self) -> Result<(), Halt> {
        let found = self.administered_now();
        let states = &self.memory.administered.states;
        // That a base is detached may come one checkpoint after what was changed later.
        let is_so = |at: usize| {
            let of = |state: &State, now: &Known| {
                state.disks.iter().any(|known| (known.id, known.base_blocks) == (now.id, now.base_blocks))
            };
            let had = |now: &Known| states.range(..=at).any(|state| of(state, now));
            let is_like = |(known, now): (&Known, &Known)| {
                (known.id, known.blocks, known.is_leaving) == (now.id, now.blocks, now.is_leaving) && had(now)
            };
            let disks = &states[at].disks;
            disks.len() == found.len() && disks.iter().zip(&found).all(is_like)
        };
        let Some(at) = (0..states.len()).find(|&at| is_so(at)) else {
            return Err(broken(&format!("disks are {found:?}, and that is none of {states:?}")));
        };
        self.administered_is_durable(at);
        // What came after it never was.
        self.memory.administered.states.truncate(1);
        for state in self.memory.administered.states.iter_mut() {
            (state.number, state.disks) = (0, found.clone());
        }
        let lost: Vec<u16> = self
            .memory
            .administered
            .begun
            .iter()
            .copied()
            .filter(|id| found.iter().all(|known| known.id != *id))
            .collect();
        if let Some(id) = lost.first() {
            return Err(broken(&format!("disk {id} was served, and is not there")));
        }
        for Known { id, blocks, is_leaving, .. } in found {
            if is_leaving {
                // What is left of it is nobody's.
                self.memory.oracle.forget_disk(id);
                self.memory.administered.begun.remove(&id);
                continue;
            }
            self.begin_administered(id);
            self.memory.oracle.cut_off(id, blocks).map_err(|what| broken(&what))?;
            let oracle = &mut self.memory.oracle;
            let beyond = zeros(oracle, id, blocks..u64::MAX);
            oracle.acknowledge(&beyond, true);
        }
        Ok(())
    }
}
