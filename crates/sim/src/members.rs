//! The members of those devices of a pool that are several: of a mirrored fast tier, of a capacity tier with parity, or of both.

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

/// The members. What a round says of those that may do wrong is of the mirror's first.
pub struct Members {
    mirror: Option<Group>,
    array: Option<Group>,
    /// Capacity devices, behind the first one.
    capacity: usize,
}

/// What is known of the members of a pool that is served, of its mirror and of its array.
pub type Views = [Option<MirrorView>; 2];

/// Of the devices of a pool.
pub fn views(devices: &Devices) -> Views {
    [devices.mirror().cloned(), devices.array().map(ArrayView::members).cloned()]
}

impl Members {
    /// Of the pools of a life.
    ///
    /// # Errors
    /// Why devices of this shape cannot be several.
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

    /// Which device of the pool the one at a place is, or is part of.
    pub fn index_in_pool(&self, at: usize) -> usize {
        match (1..=self.capacity).contains(&at) {
            true if self.array.is_some() => 1,
            true => at,
            false => 0,
        }
    }

    /// Where bands begin on the capacity device, where that is several.
    pub fn bands_offset_bytes(&self) -> Option<u64> {
        self.array.as_ref().and_then(Group::capacity).map(|(_, head_bytes)| head_bytes)
    }

    /// The capacity devices of the pool, of those that there are.
    pub fn capacity_of_pool(&self, geometries: &[Geometry]) -> Vec<Geometry> {
        let one = self.array.as_ref().and_then(Group::capacity);
        one.map_or_else(|| geometries.to_vec(), |(geometry, _)| vec![geometry])
    }

    /// Members of a mirror but for the first.
    pub fn others(&self, clock: &VirtualClock, power: &Power) -> Vec<SimDevice> {
        self.groups().flat_map(|group| group.others(clock, power)).collect()
    }

    /// What becomes of the members at the begin of a round, and the round with the faults where they belong.
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

    /// A blank device takes the place of a member that was left behind.
    pub fn exchange(&mut self, slot: usize, devices: &[SimDevice], views: &Views) {
        if let Some((group, slot, view)) = self.slot(slot, views) {
            group.exchange(slot, devices, view);
        }
    }

    /// Sectors of a member that may do wrong rot while the pool is used. Returns how many.
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

    /// The one of several that may do wrong, by its number in all groups.
    fn slot<'a>(&mut self, slot: usize, views: &'a Views) -> Option<(&mut Group, usize, &'a MirrorView)> {
        let of_mirror = self.mirror.as_ref().map_or(0, |group| group.culprits.len());
        let [mirror, array] = views;
        match slot.checked_sub(of_mirror) {
            Some(slot) => Some((self.array.as_mut()?, slot, array.as_ref()?)),
            None => Some((self.mirror.as_mut()?, slot, mirror.as_ref()?)),
        }
    }

    /// Rows in which something was written beside a block that parity says is otherwise, since the last opening: whether it is damaged is not to be
    /// known by parity alone.
    pub fn rows_in_doubt(&self) -> u64 {
        self.array.as_ref().map_or(0, Group::rows_in_doubt)
    }

    /// Whether there may be such rows. Where nothing has lied but what rots in full rows that are durable there are none.
    pub fn may_be_in_doubt(&self) -> bool {
        self.array.as_ref().is_none_or(|group| group.has_lied)
    }

    /// Rows were damaged beyond what parity restores.
    pub fn has_lost_rows(&self) -> bool {
        self.groups().any(Group::has_lost_rows)
    }

    /// What becomes of the bands.
    pub fn know(&mut self, bands: &[BandRoot]) {
        self.array.iter_mut().for_each(|group| group.know(bands));
    }

    /// A round has ended.
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

    /// What is damaged on the members after a round; true where something was.
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

    /// What lies on some member may be wrong.
    pub fn is_hurt(&self) -> bool {
        self.groups().any(Group::is_hurt)
    }

    /// Whether all members held everything when the last round ended.
    pub fn hold_everything(&self) -> bool {
        self.groups().all(|group| group.hold_everything)
    }

    /// As many members of each group are away as the others hold everything of; or those that were away are back.
    pub fn lose(&mut self, seed: Option<u64>) {
        self.groups_mut().for_each(|group| group.lose(seed));
    }

    /// A scrub has looked at everything since something was damaged last, while all members held everything. True where that has put something
    /// right, and nothing is wrong on any member now.
    pub fn was_scrubbed(&mut self) -> bool {
        let mended = self.groups_mut().filter_map(|group| group.was_scrubbed().then_some(())).count();
        mended > 0 && !self.is_hurt()
    }
}
