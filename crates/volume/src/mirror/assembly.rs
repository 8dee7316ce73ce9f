//! Putting a mirror together of members whose labels were read, and of blank devices.

use super::device::Mirror;
use super::members::Member;
use super::view::{MemberState, MemberStatus, MirrorStatus, MirrorView};
use crate::layout::Id;
use crate::layout::member_label::MemberLabel;
use forebay_block::{Device, Geometry};
use std::collections::VecDeque;

/// How many changes of the label may be on their way at once: a member that holds everything has one that is so much older at most.
const CHANGES_AT_ONCE: u64 = 2;

/// A mirror that can be used.
pub struct Joined {
    /// The mirror.
    pub mirror: Mirror,
    /// A handle of it.
    pub view: MirrorView,
    /// Devices that are no part of it, and why.
    pub left_out: Vec<(String, String)>,
}

/// A device, what its label says, and the epoch that it was last opened in.
pub(super) struct Found {
    pub name: String,
    pub device: Box<dyn Device>,
    pub label: MemberLabel,
    pub epoch: u64,
}

impl Found {
    pub fn member(&self) -> usize {
        self.label.member.map_or(0, usize::from)
    }
}

/// A device without a label that is blank.
pub(super) struct Blank {
    pub name: String,
    pub device: Box<dyn Device>,
}

/// Whether a device can be a member, or why not.
pub(super) fn fits(geometry: &Geometry, (size_bytes, logical_block_bytes): (u64, u32)) -> Result<(), String> {
    if geometry.size_bytes < size_bytes {
        return Err(format!("it has {} bytes, members have at least {size_bytes}", geometry.size_bytes));
    }
    if geometry.logical_block_bytes > logical_block_bytes {
        let (is, may) = (geometry.logical_block_bytes, logical_block_bytes);
        return Err(format!("its logical blocks have {is} bytes, those of members at most {may}"));
    }
    Ok(())
}

/// Whether two labels are of the same change. A change that was not confirmed when the power failed may leave its label on some of the
/// devices, and the next change has the same generation where those are not there.
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
    /// The member whose rebuild goes on where it was.
    goes_on: Option<usize>,
    /// A device has another label than the newest.
    differs: bool,
    is_writable: bool,
    left_out: Vec<(String, String)>,
}

impl Assembly {
    pub fn new(newest: &MemberLabel, left_out: Vec<(String, String)>) -> Self {
        let members: Vec<Member> = newest.ids.iter().map(|_| Member::new(None, MemberState::Out)).collect();
        Self {
            label: newest.clone(),
            names: vec![String::new(); members.len()],
            members,
            to_rebuild: VecDeque::new(),
            goes_on: None,
            differs: false,
            is_writable: true,
            left_out,
        }
    }

    /// Takes a device with a label. `epoch`: the newest of those that hold everything.
    pub fn take(&mut self, found: Found, newest: &MemberLabel, epoch: u64) {
        let number = found.member();
        let Found { name, device, label, epoch: own_epoch } = found;
        let is_member = number < self.members.len() && label.ids.get(number) == newest.ids.get(number);
        if !is_member || self.members[number].device.is_some() {
            let why = format!(
                "it was member {number} of this mirror, and another has taken its place: clear it to use it again"
            );
            return self.left_out.push((name, why));
        }
        if let Err(why) = fits(device.geometry(), newest.unit()) {
            return self.left_out.push((name, why));
        }
        // A label that is older, or an epoch: the device as it was once.
        let is_current = label.generation + CHANGES_AT_ONCE >= newest.generation && own_epoch + 1 >= epoch;
        self.differs |= !is_same(&label, newest);
        (self.members[number].device, self.names[number]) = (Some(device), name);
        if newest.is_in_sync(number) && is_current {
            self.members[number].state = MemberState::InSync;
        } else if newest.rebuilding == Some(number as u8) && is_same(&label, newest) {
            self.goes_on = Some(number);
        } else {
            self.to_rebuild.push_back(number);
        }
    }

    /// Takes a blank device in the place of a member that is not there, or as one more.
    pub fn take_blank(&mut self, blank: Blank, configured: usize, new_id: &mut dyn FnMut() -> Id) {
        let Blank { name, device } = blank;
        let free = self.members.iter().position(|member| member.device.is_none());
        let more = (self.members.len() < configured).then_some(self.members.len());
        let Some(number) = free.or(more) else {
            return self.left_out.push((name, "the mirror has all its members".to_owned()));
        };
        if let Err(why) = fits(device.geometry(), self.label.unit()) {
            return self.left_out.push((name, why));
        }
        if number == self.members.len() {
            self.members.push(Member::new(None, MemberState::Out));
            self.names.push(String::new());
            self.label.ids.push(Id::default());
        }
        (self.label.ids[number], self.names[number], self.members[number].device) = (new_id(), name, Some(device));
        self.to_rebuild.push_back(number);
    }

    /// One member is rebuilt at a time, the one first that was begun.
    pub fn choose_rebuild(&mut self, newest: &MemberLabel) {
        self.label.rebuilt_bytes = if self.goes_on.is_some() { newest.rebuilt_bytes } else { 0 };
        let next = self.goes_on.or_else(|| self.to_rebuild.pop_front());
        self.label.rebuilding = next.map(|number| number as u8);
        if let Some(number) = next {
            self.members[number].state = MemberState::Rebuilding;
        }
    }

    /// Members that do not hold everything are left as they are.
    pub fn change_nothing(&mut self, blank: Vec<Blank>) {
        self.is_writable = false;
        (self.label.rebuilding, self.label.rebuilt_bytes) = (None, 0);
        self.to_rebuild.clear();
        self.left_out.extend(blank.into_iter().map(|blank| (blank.name, "it is blank".to_owned())));
    }

    pub fn members_named(&self) -> String {
        self.names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ")
    }

    pub fn finish(mut self, newest: &MemberLabel) -> Joined {
        let in_sync = self.members.iter().enumerate().filter(|(_, member)| member.state == MemberState::InSync);
        self.label.in_sync = in_sync.fold(0, |bits, (number, _)| bits | 1 << number);
        let is_new = self.is_writable && (self.differs || self.label != *newest);
        let (mirror, view) = mirror_of(self.members, self.names, self.label, is_new, self.to_rebuild);
        Joined { mirror, view, left_out: self.left_out }
    }
}

/// A new mirror over these devices, whatever they hold; its label is written with the first change. `ids`: one for each.
#[must_use]
pub fn new_mirror(devices: Vec<Box<dyn Device>>, pool: Id, ids: &[Id]) -> (Mirror, MirrorView) {
    let names = devices.iter().map(|device| device.name().to_owned()).collect();
    let geometries: Vec<Geometry> = devices.iter().map(|device| device.geometry().clone()).collect();
    let size_bytes = geometries.iter().map(|geometry| geometry.size_bytes / 4096 * 4096).min().unwrap_or_default();
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
        logical_block_bytes: geometries.iter().map(|geometry| geometry.logical_block_bytes).max().unwrap_or(512),
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
    let caches = || there().filter(|geometry| geometry.volatile_cache);
    let geometry = Geometry {
        size_bytes: label.size_bytes,
        logical_block_bytes: label.logical_block_bytes,
        optimal_band_bytes: None,
        volatile_cache: caches().next().is_some(),
        durable_writes: caches().all(|geometry| geometry.durable_writes),
        discards: there().all(|geometry| geometry.discards),
    };
    let status = MirrorStatus {
        members: members
            .iter()
            .zip(&names)
            .zip(&label.ids)
            .map(|((member, name), id)| MemberStatus {
                name: name.clone(),
                id: *id,
                state: member.state,
                why: member.device.is_none().then(|| "it is not there".to_owned()),
                failed_reads: 0,
            })
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
