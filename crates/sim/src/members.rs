//! Members of multi-device tiers: of a mirrored fast tier, of a capacity tier with parity, or of both.

mod group;
pub mod joining;

use crate::coverage::Coverage;
use crate::device::SimDevice;
use crate::power::Power;
use crate::scenario::{Round, Shape};
use crate::world::{Halt, Memory};
use forebay_block::{Geometry, VirtualClock};
use forebay_volume::Devices;
use forebay_volume::layout::root::BandRoot;
use forebay_volume::mirror::MirrorView;
use forebay_volume::parity::ArrayView;
use group::Group;

/// The members. The faults of a round's member concern the mirror's first one.
pub struct Members {
    mirror: Option<Group>,
    array: Option<Group>,
    /// Further capacity devices, after the first.
    capacity: usize,
}

/// Engine views of the members of a served pool: of its mirror and its array.
pub type Views = [Option<MirrorView>; 2];

/// The views of a pool's devices.
pub fn views(devices: &Devices) -> Views {
    [devices.mirror().cloned(), devices.array().map(ArrayView::members).cloned()]
}

impl Members {
    /// The members for the pools of a life.
    ///
    /// # Errors
    /// Why this shape cannot have several devices.
    pub fn new(shape: &Shape) -> Result<Self, String> {
        let capacity = shape.geometries().len() - 1;
        Ok(Self { mirror: Group::mirror(shape), array: Group::array(shape)?, capacity })
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        self.mirror.iter().chain(&self.array)
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.mirror.iter_mut().chain(&mut self.array)
    }

    /// The pool device that the device at this index is, or is a member of.
    pub fn index_in_pool(&self, at: usize) -> usize {
        match (1..=self.capacity).contains(&at) {
            true if self.array.is_some() => 1,
            true => at,
            false => 0,
        }
    }

    /// Start of the bands on a multi-device capacity tier.
    pub fn bands_offset_bytes(&self) -> Option<u64> {
        self.array.as_ref().and_then(Group::capacity).map(|(_, head_bytes)| head_bytes)
    }

    /// The capacity devices of the pool, as far as present.
    pub fn capacity_of_pool(&self, geometries: &[Geometry]) -> Vec<Geometry> {
        let one = self.array.as_ref().and_then(Group::capacity);
        one.map_or_else(|| geometries.to_vec(), |(geometry, _)| vec![geometry])
    }

    /// Members of a mirror except the first.
    pub fn others(&self, clock: &VirtualClock, power: &Power) -> Vec<SimDevice> {
        self.groups().flat_map(|group| group.others(clock, power)).collect()
    }

    /// Decides on the members at the start of a round; returns the round with its faults on the right members.
    pub fn begin(
        &mut self,
        round: &Round,
        devices: &mut [SimDevice],
        (clock, power): (&VirtualClock, &Power),
        coverage: &mut Coverage,
    ) -> Round {
        let mut round = round.clone();
        let mut left = std::mem::take(&mut round.members);
        let mut all = Vec::new();
        for group in self.groups_mut() {
            let rest = left.split_off(left.len().min(group.culprits.len()));
            round.members = std::mem::replace(&mut left, rest);
            round = group.begin(&round, devices, (clock, power), coverage);
            all.append(&mut round.members);
        }
        Round { members: all, ..round }
    }

    /// A blank device replaces a member that was left behind.
    pub fn exchange(&mut self, slot: usize, devices: &[SimDevice], views: &Views) {
        if let Some((group, slot, view)) = self.slot(slot, views) {
            group.exchange(slot, devices, view);
        }
    }

    /// Rots sectors of the faulty member while the pool is used. Returns how many.
    pub fn rot(
        &mut self,
        slot: usize,
        (count, seed): (usize, u64),
        devices: &[SimDevice],
        memory: &Memory,
        views: &Views,
    ) -> u64 {
        let Some((group, slot, view)) = self.slot(slot, views) else { return 0 };
        group.rot(slot, (count, seed), devices, &memory.oracle.held_tags(), view)
    }

    /// Index of the faulty member over all groups.
    fn slot<'a>(&mut self, slot: usize, views: &'a Views) -> Option<(&mut Group, usize, &'a MirrorView)> {
        let of_mirror = self.mirror.as_ref().map_or(0, |group| group.culprits.len());
        let [mirror, array] = views;
        match slot.checked_sub(of_mirror) {
            Some(slot) => Some((self.array.as_mut()?, slot, array.as_ref()?)),
            None => Some((self.mirror.as_mut()?, slot, mirror.as_ref()?)),
        }
    }

    /// Rows where a write went beside a block that contradicts its parity, since the last opening: parity alone cannot show which block is
    /// damaged.
    pub fn rows_in_doubt(&self) -> u64 {
        self.array.as_ref().map_or(0, Group::rows_in_doubt)
    }

    /// Whether such rows may exist. They cannot where the only faults were rot in full, durable rows.
    pub fn may_be_in_doubt(&self) -> bool {
        self.array.as_ref().is_none_or(|group| group.has_lied)
    }

    /// Rows were damaged beyond what parity restores.
    pub fn has_lost_rows(&self) -> bool {
        self.groups().any(Group::has_lost_rows)
    }

    /// Updates the state of the bands.
    pub fn know(&mut self, bands: &[BandRoot]) {
        self.array.iter_mut().for_each(|group| group.know(bands));
    }

    /// Ends a round.
    pub fn ended(
        &mut self,
        [mirror, array]: &Views,
        said: &Result<(), (&'static str, Halt)>,
        round: &Round,
        coverage: &mut Coverage,
    ) {
        self.mirror.iter_mut().for_each(|group| group.ended(mirror.as_ref(), said, round, coverage));
        self.array.iter_mut().for_each(|group| group.ended(array.as_ref(), said, round, coverage));
    }

    /// Damages the members after a round; true where something was damaged.
    pub fn damage(
        &mut self,
        round: &Round,
        devices: &[SimDevice],
        memory: &mut Memory,
        coverage: &mut Coverage,
    ) -> bool {
        let mut left = round.members.clone();
        let mut any = false;
        for group in self.groups_mut() {
            let rest = left.split_off(left.len().min(group.culprits.len()));
            let round = Round { members: std::mem::replace(&mut left, rest), ..round.clone() };
            any |= group.damage(&round, devices, memory, coverage);
        }
        any
    }

    /// Whether some member may hold wrong data.
    pub fn is_hurt(&self) -> bool {
        self.groups().any(Group::is_hurt)
    }

    /// Whether all members were complete when the last round ended.
    pub fn hold_everything(&self) -> bool {
        self.groups().all(|group| group.hold_everything)
    }

    /// Removes as many members of each group as redundancy allows, or returns the removed ones.
    pub fn lose(&mut self, seed: Option<u64>) {
        self.groups_mut().for_each(|group| group.lose(seed));
    }

    /// A scrub has examined everything since the last damage, with all members complete. True where it repaired something and no member
    /// holds wrong data now.
    pub fn was_scrubbed(&mut self) -> bool {
        let mended = self.groups_mut().filter_map(|group| group.was_scrubbed().then_some(())).count();
        mended > 0 && !self.is_hurt()
    }
}
