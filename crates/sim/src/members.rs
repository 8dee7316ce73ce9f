//! The members of what is one device to the pool in a life: of a mirrored fast tier, or of a capacity tier with parity. Some of them may do
//! anything wrong, as many as the others hold everything of. Which ones they are changes when they were replaced by blank devices and rebuilt.

pub mod joining;

use crate::coverage::Coverage;
use crate::device::SimDevice;
use crate::fault::{Fault, FaultKind};
use crate::power::Power;
use crate::scenario::{Beyond, End, Member, MemberRound, Parity, Round, Shape};
use crate::world::{Halt, Memory};
use forebay_block::{Geometry, Random, VirtualClock};
use forebay_prism::Compress;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{MemberState, MirrorView};
use forebay_volume::parity::{ArrayView, Shape as ArrayShape, plan_shape};
use std::ops::RangeInclusive;

/// What the members are one device of.
enum Several {
    /// There is none.
    None,
    Mirror,
    Array {
        parity: Parity,
        shape: ArrayShape,
        /// What they are like as one.
        geometry: Geometry,
    },
}

/// A member that does wrong.
struct Culprit {
    /// Where it stands among the members.
    member: usize,
    is_absent: bool,
    /// It holds nothing that is wrong without the others knowing of it.
    is_clean: bool,
}

/// The members.
pub struct Members {
    several: Several,
    /// Where they stand among the devices.
    places: Vec<usize>,
    /// Devices behind the first one that are no members of a mirror.
    capacity: RangeInclusive<usize>,
    geometry: Geometry,
    culprits: Vec<Culprit>,
    /// The culprit is there without the others, unless it is refused.
    is_alone: bool,
    /// It was served alone, or more went wrong than redundancy covers: until all members hold everything again, nothing more goes wrong.
    must_recover: bool,
    /// One member more fails in this round than there is parity for, which is so only while nothing takes the place of the others.
    has_one_more: bool,
    /// Rows were damaged beyond what parity restores: what is left of them is not to be lost, too.
    has_lost_rows: bool,
    /// All members held everything at the end of a round that ended at rest.
    is_whole: bool,
    /// Blocks lie as the oracle knows them.
    is_plain: bool,
    /// Members that were exchanged while the pool was used.
    exchanged: u64,
    /// Openings that found rows open.
    found_open: u64,
    next_id: u8,
    /// The array that was put together last.
    array: Option<ArrayView>,
}

impl Members {
    /// Of the pools of a life.
    ///
    /// # Errors
    /// Why devices of this shape cannot be several.
    pub fn new(shape: &Shape) -> Result<Self, String> {
        let geometries = shape.geometries();
        let capacity = &geometries[1..];
        let (mut places, mut culprits, mut geometry) = (vec![0], 1, geometries[0].clone());
        let several = match shape.parity {
            Some(parity) => {
                let band_bytes = Some(shape.band_bytes);
                let planned = plan_shape(capacity, parity.redundancy, band_bytes, shape.fast_bytes);
                let (shape, as_one) = planned.map_err(|error| error.to_string())?;
                (places, culprits, geometry) = ((1..=capacity.len()).collect(), parity.culprits(), capacity[0].clone());
                Several::Array { parity, shape, geometry: as_one }
            }
            None if shape.members > 1 => {
                places.extend((1..usize::from(shape.members)).map(|member| capacity.len() + member));
                Several::Mirror
            }
            None => Several::None,
        };
        Ok(Self {
            several,
            places,
            capacity: 1..=capacity.len(),
            geometry,
            culprits: (0..culprits).map(|member| Culprit { member, is_absent: false, is_clean: true }).collect(),
            is_alone: false,
            must_recover: false,
            has_one_more: false,
            has_lost_rows: false,
            is_whole: false,
            is_plain: shape.compress() == Compress::Off,
            exchanged: 0,
            found_open: 0,
            next_id: 100,
            array: None,
        })
    }

    fn are_there(&self) -> bool {
        !matches!(self.several, Several::None)
    }

    fn is_array(&self) -> bool {
        matches!(self.several, Several::Array { .. })
    }

    /// Which device of the pool the one at a place is, or is part of.
    pub fn index_in_pool(&self, at: usize) -> usize {
        match self.several {
            Several::Array { .. } => at.min(1),
            _ if self.capacity.contains(&at) => at,
            _ => 0,
        }
    }

    /// Where bands begin on the capacity device, where that is several.
    pub fn bands_offset_bytes(&self) -> Option<u64> {
        if let Several::Array { shape, .. } = &self.several { Some(shape.head_bytes) } else { None }
    }

    /// The capacity devices of the pool, of those that there are.
    pub fn capacity_of_pool(&self, geometries: &[Geometry]) -> Vec<Geometry> {
        if let Several::Array { geometry, .. } = &self.several { vec![geometry.clone()] } else { geometries.to_vec() }
    }

    /// Members of a mirror but for the first.
    pub fn others(&mut self, clock: &VirtualClock, power: &Power) -> Vec<SimDevice> {
        let others = self.places.iter().enumerate().filter(|(_, at)| **at > *self.capacity.end());
        others.map(|(member, _)| self.device(member, clock, power)).collect()
    }

    fn device(&self, member: usize, clock: &VirtualClock, power: &Power) -> SimDevice {
        SimDevice::new(&format!("m{member}"), self.geometry.clone(), clock, power)
    }

    fn new_id(&mut self) -> Id {
        self.next_id = self.next_id.wrapping_add(1);
        [self.next_id; 16]
    }

    fn is_culprit(&self, member: usize) -> bool {
        self.culprits.iter().any(|culprit| culprit.member == member)
    }

    /// The next member after one that is no culprit.
    fn next_after(&self, member: usize) -> usize {
        let count = self.places.len();
        (1..count).map(|turn| (member + turn) % count).find(|&other| !self.is_culprit(other)).unwrap_or(member)
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
        if !self.are_there() {
            return round;
        }
        self.must_recover &= !self.is_whole;
        self.is_alone = false;
        if self.must_recover || self.has_lost_rows {
            (round.members, round.beyond) = (Vec::new(), None);
        }
        round.members.resize_with(self.culprits.len(), MemberRound::default);
        for slot in 0..self.culprits.len() {
            let mut does = std::mem::take(&mut round.members[slot]);
            self.begin_one(slot, &mut does, devices, (clock, power), coverage);
            let at = self.places[self.culprits[slot].member];
            let here = |faults: &[Fault]| faults.iter().map(|fault| Fault { device: at, ..*fault }).collect::<Vec<_>>();
            round.opening_faults.extend(here(&does.faults[0]));
            round.faults.extend(here(&does.faults[1]));
            round.members[slot] = does;
        }
        for (number, device) in devices.iter().enumerate() {
            // Where it is alone it is the others that nothing depends on.
            let member = self.places.iter().position(|&at| at == number);
            device.cover(member.is_some_and(|member| self.is_culprit(member) != self.is_alone));
        }
        self.has_one_more = matches!(round.beyond, Some(Beyond::Fails(_)));
        if let Some(Beyond::Fails(faults)) = &round.beyond {
            round.faults.extend(self.fail_one_more(faults, round.seed));
        }
        round
    }

    /// What becomes of a member that does wrong.
    fn begin_one(
        &mut self,
        slot: usize,
        does: &mut MemberRound,
        devices: &mut [SimDevice],
        (clock, power): (&VirtualClock, &Power),
        coverage: &mut Coverage,
    ) {
        if does.is_another && self.is_whole && self.culprits[slot].is_clean {
            self.culprits[slot].member = self.next_after(self.culprits[slot].member);
            coverage.count("members that others had been rebuilt from");
        }
        let Culprit { member, is_clean, .. } = self.culprits[slot];
        self.is_alone = does.is == Member::Alone && is_clean && !self.is_array();
        if self.is_alone {
            coverage.count("members that were there alone");
            *does = MemberRound { is: Member::Alone, ..MemberRound::default() };
        }
        let at = self.places[member];
        let is_replaced = does.is == Member::Replaced;
        if is_replaced {
            let places = devices[at].places();
            devices[at] = self.device(member, clock, power);
            devices[at].know(places);
            coverage.count("members replaced by blank devices");
        }
        let lies = |fault: &Fault| {
            fault.kind.is_silent()
                || matches!(fault.kind, FaultKind::DeadSector | FaultKind::ReadError | FaultKind::Misread)
        };
        let culprit = &mut self.culprits[slot];
        culprit.is_absent = does.is == Member::Absent;
        culprit.is_clean = (is_clean || is_replaced) && !does.faults.iter().flatten().any(lies);
    }

    /// A blank device takes the place of a member that was left behind.
    pub fn exchange(&mut self, slot: usize, devices: &[SimDevice], view: &MirrorView) {
        let Some(member) = self.culprits.get(slot).map(|culprit| culprit.member) else { return };
        if self.has_one_more {
            return;
        }
        let device = &devices[self.places[member]];
        let name = forebay_block::Device::name(device);
        let status = view.status();
        // One that was not there when the pool was opened has no name.
        let known = status.members.iter().find(|other| other.name == name);
        let known = known.or_else(|| status.members.iter().find(|other| other.name.is_empty()));
        if known.is_none_or(|known| known.state != MemberState::Out) {
            return;
        }
        device.exchange();
        let (name, id) = (name.to_owned(), self.new_id());
        if view.offer(name, id, Box::new(device.clone()), None).is_ok() {
            self.exchanged += 1;
        }
        self.culprits[slot].is_clean = true;
    }

    /// Rows in which something was written beside a block that parity says is otherwise, since the last opening: whether it is damaged is not to be
    /// known by parity alone.
    pub fn rows_in_doubt(&self) -> u64 {
        self.array.as_ref().map_or(0, ArrayView::rows_in_doubt)
    }

    /// Rows were damaged beyond what parity restores.
    pub fn has_lost_rows(&self) -> bool {
        self.has_lost_rows
    }

    /// A round has ended.
    pub fn ended(
        &mut self,
        view: Option<&MirrorView>,
        said: &Result<(), (&'static str, Halt)>,
        round: &Round,
        coverage: &mut Coverage,
    ) {
        let Some(status) = view.map(MirrorView::status) else { return };
        let is_at_rest = said.is_ok() && matches!(round.end, End::Rest | End::Stop);
        self.is_whole = is_at_rest && status.members.iter().all(|member| member.state == MemberState::InSync);
        if self.is_alone {
            coverage.count("members that were served alone");
        }
        coverage.count_all("blocks of members that were mended", status.mended_blocks);
        if status.members.iter().any(|member| member.state == MemberState::Out && !member.name.is_empty()) {
            coverage.count("members that were left behind");
        }
        if status.members.iter().any(|member| member.state == MemberState::Rebuilding) {
            coverage.count("power cuts in a rebuild");
        }
        if !self.is_array() {
            return;
        }
        coverage
            .count_all("reads that members of an array failed", status.members.iter().map(|m| m.failed_reads).sum());
        coverage.count_all("members exchanged while the array was used", std::mem::take(&mut self.exchanged));
        coverage.count_all("openings that found rows of an array open", std::mem::take(&mut self.found_open));
        let out = status.members.iter().filter(|member| member.state == MemberState::Out).count();
        if out > 1 {
            coverage.count("rounds that end with several members of an array out");
        }
        if self.is_whole {
            coverage.count("rounds that end with all members of an array whole");
        }
    }

    /// What is damaged on the members after a round; true where something was.
    pub fn damage(
        &mut self,
        round: &Round,
        devices: &[SimDevice],
        memory: &mut Memory,
        coverage: &mut Coverage,
    ) -> bool {
        if !self.are_there() {
            return false;
        }
        let is_clean = self.culprits.iter().all(|culprit| culprit.is_clean);
        if let Some(Beyond::Rows(count)) = round.beyond
            && self.is_whole
            && is_clean
        {
            self.has_lost_rows = self.kill_rows((count, round.seed), devices, memory, coverage);
            return self.has_lost_rows;
        }
        let tags = memory.oracle.held_tags();
        let mut any = false;
        // Where one member more has failed nothing else goes wrong.
        let is_calm = matches!(round.beyond, Some(Beyond::Fails(_)));
        for (slot, does) in round.members.iter().enumerate().take(self.culprits.len()).filter(|_| !is_calm) {
            let culprit = &mut self.culprits[slot];
            let device = &devices[self.places[culprit.member]];
            let seed = round.seed.rotate_right(13 * slot as u32);
            let mut damaged = 0;
            for (kind, count) in [FaultKind::Rot, FaultKind::DeadSector].into_iter().zip(does.wounds) {
                damaged += device.wound(kind, count, seed.rotate_left(11), &|tag| tags.contains(&tag)).len();
            }
            if does.rots {
                device.rot(seed.rotate_left(5));
            }
            if does.dies {
                device.die(seed.rotate_left(17));
            }
            let is_damaged = damaged > 0 || does.rots || does.dies;
            culprit.is_clean &= !is_damaged;
            any |= is_damaged || does.faults.iter().any(|faults| !faults.is_empty());
        }
        any
    }

    /// Faults of one member more than others hold everything of: requests may fail then. Nothing more goes wrong after it before all members
    /// hold everything again.
    fn fail_one_more(&mut self, faults: &[Fault], seed: u64) -> Vec<Fault> {
        if !self.is_array() || self.culprits.iter().any(|culprit| !culprit.is_clean) {
            return Vec::new();
        }
        let member = self.next_after(seed as usize % self.places.len());
        let device = self.places[member];
        self.must_recover = true;
        // What cannot be read of one leaves gaps in the rebuild of another, of which nobody knows.
        let is_known = |fault: &&Fault| !matches!(fault.kind, FaultKind::ReadError | FaultKind::DeadSector);
        faults.iter().filter(is_known).map(|fault| Fault { device, ..*fault }).collect()
    }

    /// Rows of which one block more than there is parity for cannot be read any more: what hosts have in them may be lost, and nothing else.
    /// True where there was one.
    fn kill_rows(
        &mut self,
        (count, seed): (usize, u64),
        devices: &[SimDevice],
        memory: &mut Memory,
        coverage: &mut Coverage,
    ) -> bool {
        let Several::Array { parity, .. } = &self.several else { return false };
        let (data, parity) = (parity.redundancy.data, parity.redundancy.parity);
        if !self.is_plain {
            return false;
        }
        let held = memory.oracle.held_tags();
        let mut random = Random::new(seed);
        let mut has_killed = false;
        for _ in 0..count {
            let first = random.index(self.places.len());
            let mut blocks = devices[self.places[first]].blocks_with(&|tag| held.contains(&tag));
            if blocks.is_empty() {
                continue;
            }
            let block = blocks.swap_remove(random.index(blocks.len()));
            // A row lies at the same place of all self. Of one that is not full, or holds something else, it is not known what else is in it.
            let tags: Option<Vec<Vec<u32>>> = self.places.iter().map(|&at| devices[at].tags_at(block)).collect();
            let Some(tags) = tags.filter(|tags| tags.iter().filter(|tags| tags.len() == 8).count() >= data) else {
                continue;
            };
            for turn in 0..=parity {
                devices[self.places[(first + turn) % self.places.len()]].kill(block);
            }
            tags.into_iter().flatten().for_each(|tag| memory.oracle.damaged(tag, true));
            coverage.count("rows of an array damaged beyond parity");
            has_killed = true;
        }
        has_killed
    }
}
