//! Puts a mirror together from members whose labels were read, and from blank devices.

use super::device::Mirror;
use super::error::JoinError;
use super::member::Member;
use super::view::{MemberState, MirrorStatus, MirrorView};
use crate::layout::Id;
use crate::layout::codec::COUNTER_LIMIT;
use crate::layout::member_label::{MemberLabel, logical_block_bytes};
use crate::recovery::checkpoints::{NewestRoot, is_as_new};
use crate::recovery::opened::Opened;
use forebay_block::{Device, Geometry};
use std::collections::VecDeque;

/// How many labels one server may still write: more than it has time for.
const COUNTS_MAX: u64 = 1 << 32;

/// A mirror that can be used.
pub struct Joined {
    /// The mirror.
    pub mirror: Mirror,
    /// A handle to it.
    pub view: MirrorView,
    /// Devices that are not part of it, and why.
    pub left_out: Vec<(String, String)>,
    /// Members that were dropped for good.
    pub dropped: Vec<Id>,
}

/// A device, what its label says, and how it was opened last.
pub(super) struct Found {
    pub name: String,
    pub device: Box<dyn Device>,
    pub label: MemberLabel,
    pub opened: Opened,
    /// Its newest root, where that can be read.
    pub root: Option<NewestRoot>,
    /// Its newest label is the second copy.
    pub is_second: bool,
    /// What is on it, where its label is not believed.
    pub holds: Option<Vec<String>>,
}

/// What is newest among the devices that hold everything by the label that counts.
#[derive(Clone, Copy)]
pub(super) struct NewestSource {
    /// The newest epoch.
    pub epoch: u64,
    /// The newest epoch in which one of them was served.
    pub served_epoch: u64,
    /// The checkpoint of the newest root that can be read.
    pub checkpoint: Option<u64>,
}

impl Found {
    /// Its id.
    pub fn id(&self) -> Option<Id> {
        self.label.ids.get(usize::from(self.label.member?)).copied()
    }

    /// Its number among the members of a label.
    pub fn number_in(&self, label: &MemberLabel) -> Option<usize> {
        let own = self.id()?;
        label.ids.iter().position(|id| *id == own)
    }
}

/// A device that is blank, or holds nothing that counts any more.
pub(super) struct Blank {
    pub name: String,
    pub device: Box<dyn Device>,
    /// Its former label is the second copy: the next label goes over the first.
    pub is_second: bool,
}

/// Whether two labels are of the same change. A change that was not confirmed when the power failed may leave its label on some of the
/// devices, and the next change has the same generation where those are missing.
pub(super) fn is_same(one: &MemberLabel, other: &MemberLabel) -> bool {
    let of = |label: &MemberLabel| (label.generation, label.in_sync, label.rebuilding, label.ids.clone());
    of(one) == of(other)
}

/// A mirror that is being put together.
pub(super) struct Assembly {
    label: MemberLabel,
    pub members: Vec<Member>,
    names: Vec<String>,
    to_rebuild: VecDeque<usize>,
    /// The member whose rebuild goes on where it stopped.
    goes_on: Option<usize>,
    /// How far that rebuild is, by the labels of the members.
    noted_bytes: u64,
    /// Some device has another label than the one that counts.
    pub differs: bool,
    is_writable: bool,
    left_out: Vec<(String, String)>,
    dropped: Vec<Id>,
}

impl Assembly {
    /// A mirror without devices yet. `basis`: the label that counts.
    pub fn new(basis: &MemberLabel, left_out: Vec<(String, String)>) -> Self {
        let members: Vec<Member> = basis.ids.iter().map(|_| Member::new(None, MemberState::Out)).collect();
        Self {
            label: basis.clone(),
            names: vec![String::new(); members.len()],
            members,
            to_rebuild: VecDeque::new(),
            goes_on: None,
            noted_bytes: basis.rebuilt_bytes,
            differs: false,
            is_writable: true,
            left_out,
            dropped: Vec::new(),
        }
    }

    /// Has the next label count up from all labels that there are.
    pub fn count_from<'a>(&mut self, labels: impl Iterator<Item = &'a MemberLabel>) {
        for label in labels {
            self.label.serial = self.label.serial.max(label.serial);
            self.label.generation = self.label.generation.max(label.generation);
        }
    }

    /// Takes a device with a label, or returns it where it is no member any more.
    pub fn take(&mut self, found: Found, basis: &MemberLabel, newest: NewestSource) -> Option<Blank> {
        let number = found.number_in(basis);
        let Found { name, device, label, opened, root, is_second, .. } = found;
        let Some(number) = number else { return Some(Blank { name, device, is_second }) };
        if let Err(why) = basis.fits(device.geometry()) {
            self.left_out.push((name, why));
            return None;
        }
        self.differs |= !is_same(&label, basis);
        (self.members[number].device, self.names[number]) = (Some(device), name);
        self.members[number].newest_is_second = is_second;
        // A device of an older epoch is an older state of it.
        let is_current = opened.epoch.saturating_add(1) >= newest.epoch;
        // All members that hold everything have the root of an epoch before any of them is served in it.
        let has_root = root.is_none_or(|root| root.epoch >= newest.served_epoch);
        let is_as_new = is_as_new(root.map(|root| root.checkpoint), newest.checkpoint);
        if basis.is_in_sync(number) && is_current && has_root && is_as_new {
            self.members[number].state = MemberState::InSync;
        } else if basis.rebuilding == Some(number as u8) && is_current {
            // If it had missed a write, a change of the members would say so.
            self.goes_on = Some(number);
        } else {
            self.to_rebuild.push_back(number);
        }
        if is_same(&label, basis) {
            self.noted_bytes = self.noted_bytes.max(label.rebuilt_bytes);
        }
        None
    }

    /// Takes a blank device in the place of a member that is not there, or as one more.
    pub fn take_blank(&mut self, blank: Blank, configured: usize, new_id: &mut dyn FnMut() -> Id) {
        let Blank { name, device, is_second } = blank;
        let free = self.members.iter().position(|member| member.device.is_none());
        let more = (self.members.len() < configured).then_some(self.members.len());
        let Some(number) = free.or(more) else {
            return self.left_out.push((name, "the mirror has all its members".to_owned()));
        };
        if let Err(why) = self.label.fits(device.geometry()) {
            return self.left_out.push((name, why));
        }
        if number == self.members.len() {
            self.members.push(Member::new(None, MemberState::Out));
            self.names.push(String::new());
            self.label.ids.push(Id::default());
        }
        (self.label.ids[number], self.names[number], self.members[number].device) = (new_id(), name, Some(device));
        self.members[number].newest_is_second = is_second;
        self.to_rebuild.push_back(number);
    }

    /// Drops missing members for good. All devices that are configured have to be there: one that is not may be such a member.
    pub fn drop_absent(&mut self, configured: usize) -> Result<(), JoinError> {
        if self.members.iter().filter(|member| member.device.is_some()).count() < configured {
            let devices = self.left_out.iter().map(|(name, why)| format!("{name} is not ({why})"));
            return Err(JoinError::NotAll { devices: devices.collect::<Vec<_>>().join("; ") });
        }
        let kept: Vec<usize> = (0..self.members.len()).filter(|&at| self.members[at].device.is_some()).collect();
        let now = |number: usize| kept.iter().position(|&was| was == number);
        self.to_rebuild = self.to_rebuild.iter().filter_map(|&number| now(number)).collect();
        self.goes_on = self.goes_on.and_then(now);
        for at in (0..self.members.len()).rev().filter(|at| !kept.contains(at)) {
            self.dropped.push(self.label.ids.remove(at));
            self.names.remove(at);
            self.members.remove(at);
        }
        Ok(())
    }

    /// Chooses the member that is rebuilt, one at a time: first the one whose rebuild was begun.
    pub fn choose_rebuild(&mut self) {
        self.label.rebuilt_bytes = if self.goes_on.is_some() { self.noted_bytes } else { 0 };
        let next = self.goes_on.or_else(|| self.to_rebuild.pop_front());
        self.label.rebuilding = next.map(|number| number as u8);
        if let Some(number) = next {
            self.members[number].state = MemberState::Rebuilding;
        }
    }

    /// Leaves members that do not hold everything as they are, as nothing is written.
    pub fn change_nothing(&mut self, others: impl Iterator<Item = Blank>) {
        self.is_writable = false;
        (self.label.rebuilding, self.label.rebuilt_bytes) = (None, 0);
        self.to_rebuild.clear();
        self.left_out.extend(others.map(|other| (other.name, "it holds nothing that counts".to_owned())));
    }

    pub fn members_named(&self) -> String {
        self.names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ")
    }

    pub fn finish(mut self, basis: &MemberLabel) -> Result<Joined, JoinError> {
        let in_sync = self.members.iter().enumerate().filter(|(_, member)| member.state == MemberState::InSync);
        self.label.in_sync = in_sync.fold(0, |bits, (number, _)| bits | 1 << number);
        let of = |label: &MemberLabel| (label.in_sync, label.rebuilding, label.ids.clone());
        let is_new = self.is_writable && (self.differs || of(&self.label) != of(basis));
        let counter = self.label.serial.max(self.label.generation);
        if counter >= COUNTER_LIMIT - COUNTS_MAX {
            return Err(JoinError::Counter { device: self.members_named(), counter });
        }
        let (mirror, view) = mirror_of(self.members, self.names, self.label, is_new, self.to_rebuild);
        Ok(Joined { mirror, view, left_out: self.left_out, dropped: self.dropped })
    }
}

/// The geometry of a new mirror over such devices.
#[must_use]
pub fn new_geometry(geometries: &[Geometry]) -> Geometry {
    let size_bytes = geometries.iter().map(|geometry| geometry.size_bytes / 4096 * 4096).min().unwrap_or_default();
    as_one(|| geometries.iter(), (size_bytes, logical_block_bytes(geometries)))
}

fn as_one<'a, I: Iterator<Item = &'a Geometry>>(
    there: impl Fn() -> I,
    (size_bytes, logical_block_bytes): (u64, u32),
) -> Geometry {
    let caches = || there().filter(|geometry| geometry.volatile_cache);
    Geometry {
        size_bytes,
        logical_block_bytes,
        optimal_band_bytes: None,
        volatile_cache: caches().next().is_some(),
        durable_writes: caches().all(|geometry| geometry.durable_writes),
        discards: there().all(|geometry| geometry.discards),
    }
}

/// Makes a new mirror over these devices, whatever they hold; its label is written with the first change. `ids`: one for each.
#[must_use]
pub fn new_mirror(devices: Vec<Box<dyn Device>>, pool: Id, ids: &[Id]) -> (Mirror, MirrorView) {
    let names = devices.iter().map(|device| device.name().to_owned()).collect();
    let geometries: Vec<Geometry> = devices.iter().map(|device| device.geometry().clone()).collect();
    let Geometry { size_bytes, logical_block_bytes, .. } = new_geometry(&geometries);
    let label = MemberLabel {
        pool,
        member: None,
        generation: 0,
        serial: 0,
        ids: ids.to_vec(),
        in_sync: (0..devices.len()).fold(0, |bits, number| bits | 1 << number),
        rebuilding: None,
        rebuilt_bytes: 0,
        size_bytes,
        logical_block_bytes,
    };
    let members = devices.into_iter().map(|device| Member::new(Some(device), MemberState::InSync)).collect();
    mirror_of(members, names, label, true, VecDeque::new())
}

fn mirror_of(
    members: Vec<Member>,
    names: Vec<String>,
    label: MemberLabel,
    is_new: bool,
    to_rebuild: VecDeque<usize>,
) -> (Mirror, MirrorView) {
    let there = || members.iter().filter_map(|member| member.device.as_ref().map(|device| device.geometry()));
    let geometry = as_one(there, (label.size_bytes, label.logical_block_bytes));
    let status = MirrorStatus {
        members: members
            .iter()
            .zip(&names)
            .zip(&label.ids)
            .map(|((member, name), id)| member.status(name, *id))
            .collect(),
        generation: label.generation,
        rebuilt_bytes: label.rebuilt_bytes,
        size_bytes: label.size_bytes,
        mended_blocks: 0,
        unreadable_blocks: 0,
        broken: None,
    };
    let view = MirrorView::new(status, label.pool, geometry.clone());
    let there: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let name = there.join(" + ");
    (Mirror::new(members, (name, geometry), (label, is_new), to_rebuild, view.clone()), view)
}
