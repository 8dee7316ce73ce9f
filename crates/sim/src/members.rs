//! The members of a mirrored fast tier in a life: one of them may do anything wrong, the others hold everything. Which one it is changes
//! when it was replaced by a blank device and rebuilt.

use crate::coverage::Coverage;
use crate::device::SimDevice;
use crate::fault::{Fault, FaultKind};
use crate::power::Power;
use crate::scenario::{End, Member, MemberRound, Round, Shape};
use crate::world::{Halt, Memory};
use forebay_block::{Device, Geometry, VirtualClock};
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{Candidate, JoinError, MemberState, MirrorView, join, new_mirror};

/// What a rebuild copies, in bytes a second: so slowly that power fails within one.
const REBUILD_BYTES_PER_S: u64 = 8 << 20;

/// The members.
pub struct Members {
    count: usize,
    /// Devices behind the first member that are no members.
    capacity: usize,
    geometry: Geometry,
    /// The member that does wrong.
    culprit: usize,
    is_absent: bool,
    /// It is there without the others, unless it is refused.
    is_alone: bool,
    /// It was served alone: until all members hold everything again, nothing more goes wrong.
    must_recover: bool,
    /// It holds nothing that is wrong without the mirror knowing of it.
    is_clean: bool,
    /// All members held everything at the end of a round that ended at rest.
    is_whole: bool,
    next_id: u8,
}

impl Members {
    /// Of the pools of a life.
    pub fn new(shape: &Shape) -> Self {
        Self {
            count: usize::from(shape.members),
            capacity: shape.capacity_bytes.len(),
            geometry: shape.geometries()[0].clone(),
            culprit: 0,
            is_absent: false,
            is_alone: false,
            must_recover: false,
            is_clean: true,
            is_whole: false,
            next_id: 100,
        }
    }

    fn is_mirror(&self) -> bool {
        self.count > 1
    }

    /// Where a member stands among the devices.
    fn at(&self, member: usize) -> usize {
        if member == 0 { 0 } else { self.capacity + member }
    }

    /// Which device of the pool the one at a place is, or is part of.
    pub fn index_in_pool(&self, at: usize) -> usize {
        if at > self.capacity { 0 } else { at }
    }

    /// Members but for the first.
    pub fn others(&mut self, clock: &VirtualClock, power: &Power) -> Vec<SimDevice> {
        (1..self.count).map(|member| self.device(member, clock, power)).collect()
    }

    fn device(&self, member: usize, clock: &VirtualClock, power: &Power) -> SimDevice {
        SimDevice::new(&format!("m{member}"), self.geometry.clone(), clock, power)
    }

    fn boxed(device: &SimDevice) -> Box<dyn Device> {
        Box::new(device.clone())
    }

    fn capacity(&self, devices: &[SimDevice]) -> Vec<Box<dyn Device>> {
        devices[1..=self.capacity].iter().map(Self::boxed).collect()
    }

    /// Devices for a new pool.
    pub fn create(&self, devices: &[SimDevice]) -> Devices {
        let capacity = self.capacity(devices);
        if !self.is_mirror() {
            return Devices::new([Self::boxed(&devices[0])].into_iter().chain(capacity).collect());
        }
        let members = (0..self.count).map(|member| Self::boxed(&devices[self.at(member)])).collect();
        let ids: Vec<Id> = (1..=self.count as u8).map(|member| [member; 16]).collect();
        let (mirror, view) = new_mirror(members, [7; 16], &ids);
        Devices::mirrored([Box::new(mirror) as Box<dyn Device>].into_iter().chain(capacity).collect(), view)
    }

    /// Devices of the pool that is there.
    pub fn join(&mut self, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
        let mut capacity = Devices::new(self.capacity(devices));
        if !self.is_mirror() {
            return Ok(Devices::new([Self::boxed(&devices[0])].into_iter().chain(capacity.list).collect()));
        }
        let is_there = |member: &usize| match *member == self.culprit {
            true => !self.is_absent,
            false => !self.is_alone,
        };
        let candidate = |member: usize| {
            let device = &devices[self.at(member)];
            Candidate { name: device.name().to_owned(), device: Ok(Self::boxed(device)), contents: Vec::new() }
        };
        let candidates = (0..self.count).filter(is_there).map(candidate).collect();
        let next_id = &mut self.next_id;
        let mut new_id = || {
            *next_id = next_id.wrapping_add(1);
            [*next_id; 16]
        };
        let joined = match join(candidates, &mut capacity, is_writable.then_some(&mut new_id)) {
            Ok(joined) => joined,
            // It was left behind: no more than that is refused.
            Err(JoinError::Stale { .. } | JoinError::Unread { .. }) if self.is_alone => {
                self.is_alone = false;
                return self.join(devices, is_writable);
            }
            // A label of a capacity device was torn: whoever is there may be one that was left behind.
            Err(JoinError::Unread { .. }) if self.is_absent => {
                self.is_absent = false;
                return self.join(devices, is_writable);
            }
            Err(error) => return Err(error.to_string()),
        };
        self.must_recover |= self.is_alone && is_writable;
        joined.view.set_rebuild_rate(REBUILD_BYTES_PER_S);
        let list = [Box::new(joined.mirror) as Box<dyn Device>].into_iter().chain(capacity.list).collect();
        Ok(Devices::mirrored(list, joined.view))
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
        if !self.is_mirror() {
            return round;
        }
        self.must_recover &= !self.is_whole;
        if self.must_recover {
            round.member = MemberRound::default();
        }
        if round.member.is_another && self.is_whole && self.is_clean {
            self.culprit = (self.culprit + 1) % self.count;
            coverage.count("members that others had been rebuilt from");
        }
        self.is_absent = round.member.is == Member::Absent;
        self.is_alone = round.member.is == Member::Alone && self.is_clean;
        if self.is_alone {
            coverage.count("members that were there alone");
            round.member = MemberRound { is: Member::Alone, ..MemberRound::default() };
        }
        let at = self.at(self.culprit);
        if round.member.is == Member::Replaced {
            let places = devices[at].places();
            devices[at] = self.device(self.culprit, clock, power);
            devices[at].know(places);
            self.is_clean = true;
            coverage.count("members replaced by blank devices");
        }
        for (number, device) in devices.iter().enumerate() {
            // Where it is alone it is the others that nothing depends on.
            let is_member = self.index_in_pool(number) == 0;
            device.cover(is_member && (number == at) != self.is_alone);
        }
        let lies = |fault: &Fault| {
            fault.kind.is_silent()
                || matches!(fault.kind, FaultKind::DeadSector | FaultKind::ReadError | FaultKind::Misread)
        };
        self.is_clean &= !round.member.faults.iter().flatten().any(lies);
        let here = |faults: &[Fault]| faults.iter().map(|fault| Fault { device: at, ..*fault }).collect();
        (round.opening_faults, round.faults) = (here(&round.member.faults[0]), here(&round.member.faults[1]));
        round
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
    }

    /// What is damaged on the member after a round; true where something was.
    pub fn damage(&mut self, round: &Round, devices: &[SimDevice], memory: &Memory) -> bool {
        if !self.is_mirror() {
            return false;
        }
        let device = &devices[self.at(self.culprit)];
        let tags = memory.oracle.held_tags();
        let mut damaged = 0;
        for (kind, count) in [FaultKind::Rot, FaultKind::DeadSector].into_iter().zip(round.member.wounds) {
            damaged += device.wound(kind, count, round.seed.rotate_left(11), &|tag| tags.contains(&tag)).len();
        }
        if round.member.rots {
            device.rot(round.seed.rotate_left(5));
        }
        self.is_clean &= damaged == 0 && !round.member.rots;
        damaged > 0 || round.member.rots || round.member.faults.iter().any(|faults| !faults.is_empty())
    }
}
