//! Making a mirror of the devices that are there: which of them hold everything their labels say, and those of the capacity
//! devices.

use super::assembly::{Assembly, Blank, Found, Joined, is_same};
use super::error::JoinError;
use super::members::Member;
use super::view::MemberState;
use crate::io::Devices;
use crate::layout::member_label::{LABEL_BYTES, MEMBERS_MAX, MemberLabel, OFFSETS_BYTES};
use crate::layout::superblock::{Role, Superblock};
use crate::layout::{Id, format_id};
use crate::recovery::read_superblock;
use forebay_block::{Device, IoError};

/// A device that is configured as a member.
pub struct Candidate {
    /// Its name in messages: path or URI.
    pub name: String,
    /// The device, or why it cannot be opened.
    pub device: Result<Box<dyn Device>, String>,
    /// What is on it that is not a mirror's; empty where it is blank. Not looked at where it carries a label.
    pub contents: Vec<String>,
}

/// The newest label on a device; none where there is none.
///
/// # Errors
/// Where it cannot be read, and there may be one.
fn look(device: &mut Devices, number: usize) -> Result<Option<MemberLabel>, IoError> {
    let mut newest: Option<MemberLabel> = None;
    let mut failure = None;
    for offset_bytes in OFFSETS_BYTES {
        // Once more: one transfer may go wrong.
        for _ in 0..2 {
            match device.read(number, offset_bytes, LABEL_BYTES) {
                Ok(bytes) => {
                    let label = MemberLabel::decode(&bytes);
                    let is_newer =
                        |label: &MemberLabel| newest.as_ref().is_none_or(|newest| label.serial > newest.serial);
                    newest = label.filter(is_newer).or(newest.take());
                }
                Err(error) => failure = Some(error),
            }
        }
    }
    match (newest, failure) {
        (None, Some(error)) => Err(error),
        (newest, _) => Ok(newest),
    }
}

/// The newest label on a device, where one can be read.
#[must_use]
pub fn read_label(device: &mut Devices, number: usize) -> Option<MemberLabel> {
    look(device, number).ok().flatten()
}

/// What the configured devices are.
struct Sorted {
    found: Vec<Found>,
    /// Fast devices of pools without a mirror, each with the label that it would have as the only member of one.
    alone: Vec<Found>,
    blank: Vec<Blank>,
    left_out: Vec<(String, String)>,
}

fn sort(candidates: Vec<Candidate>) -> Sorted {
    let mut sorted = Sorted { found: Vec::new(), alone: Vec::new(), blank: Vec::new(), left_out: Vec::new() };
    for Candidate { name, device, contents } in candidates {
        let mut device = match device {
            Ok(device) => Devices::new(vec![device]),
            Err(why) => {
                sorted.left_out.push((name, why));
                continue;
            }
        };
        let label = read_label(&mut device, 0).filter(|label| label.member.is_some());
        let superblock = read_superblock(&mut device, 0).ok().map(|(superblock, _)| superblock);
        let epoch = superblock.as_ref().map_or(0, |superblock| superblock.epoch);
        let alone = superblock.filter(|superblock| !superblock.is_mirrored && superblock.member().role == Role::Fast);
        let Some(device) = device.list.pop() else { continue };
        match label {
            Some(label) => sorted.found.push(Found { name, device, label, epoch }),
            None if let Some(superblock) = alone => {
                sorted.alone.push(Found { name, device, label: first_label(&superblock), epoch });
            }
            None if contents.is_empty() => sorted.blank.push(Blank { name, device }),
            None => sorted
                .left_out
                .push((name, format!("it is no member of this mirror, and holds {}", contents.join(", ")))),
        }
    }
    sorted
}

/// The label of a fast device that is to be the first member of a mirror.
fn first_label(superblock: &Superblock) -> MemberLabel {
    MemberLabel {
        pool: superblock.pool,
        member: Some(0),
        generation: 0,
        serial: 0,
        ids: vec![superblock.member().id],
        in_sync: 1,
        rebuilding: None,
        rebuilt_bytes: 0,
        size_bytes: superblock.member().size_bytes,
        logical_block_bytes: superblock.journal_sector_bytes,
    }
}

/// What the capacity devices say.
struct Capacity {
    /// The newest label there. Nothing that came after its change was answered without it: the members that it names as such hold everything,
    /// whatever their own labels say.
    confirmed: Option<MemberLabel>,
    /// All of them have it.
    is_on_all: bool,
    /// One that cannot be read, and why.
    unread: Option<(String, String)>,
}

fn look_at_capacity(capacity: &mut Devices, pool: Id) -> Capacity {
    let mut labels = Vec::new();
    let mut unread = None;
    for number in 0..capacity.list.len() {
        match look(capacity, number) {
            Ok(label) => labels.push(label.filter(|label| label.pool == pool)),
            Err(error) => unread = Some((capacity.list[number].name().to_owned(), error.to_string())),
        }
    }
    let newest = labels.iter().flatten().max_by_key(|label| (label.generation, label.serial));
    let confirmed = newest.cloned();
    let has_it =
        |label: &Option<MemberLabel>| label.as_ref().zip(confirmed.as_ref()).is_some_and(|(a, b)| is_same(a, b));
    let is_on_all = unread.is_none() && labels.iter().all(has_it);
    Capacity { confirmed, is_on_all, unread }
}

/// Makes a mirror of the devices that are there. `capacity`: the capacity devices, whose labels are read. `new_id` names a member
/// that replaces another, or one beside the fast device of a pool that had no mirror; none: nothing is changed, no member is
/// rebuilt, and no label written.
///
/// # Errors
/// Why these devices cannot be used, see [`JoinError`].
pub fn join(
    candidates: Vec<Candidate>,
    capacity: &mut Devices,
    new_id: Option<&mut dyn FnMut() -> Id>,
) -> Result<Joined, JoinError> {
    let configured = candidates.len().min(MEMBERS_MAX);
    let Sorted { mut found, alone, blank, mut left_out } = sort(candidates);
    // A pool that is to have a mirror from now on; who only reads it need not wait for that.
    let is_made_one = found.is_empty() && alone.len() == 1 && (!blank.is_empty() || new_id.is_none());
    if is_made_one {
        found = alone;
    } else {
        let why = "it is the fast device of a pool without a mirror";
        left_out.extend(alone.into_iter().map(|found| (found.name, why.to_owned())));
    }
    let newest = newest(&found, (&blank, &left_out))?.clone();
    check_copies(&found)?;
    let Capacity { confirmed, is_on_all, unread } = look_at_capacity(capacity, newest.pool);
    if is_made_one && confirmed.is_some() {
        return Err(JoinError::NoLabel { why: format!("; {} has lost its label", found[0].name) });
    }
    let basis = confirmed.clone().unwrap_or_else(|| newest.clone());
    let mut assembly = Assembly::new(&basis, left_out);
    assembly.count_from(found.iter().map(|found| &found.label).chain(&confirmed));
    assembly.differs = !is_on_all;
    let sources = found.iter().filter(|found| found.number_in(&basis).is_some_and(|number| basis.is_in_sync(number)));
    let epoch = sources.map(|found| found.epoch).max().unwrap_or_default();
    let mut former = Vec::new();
    found.into_iter().for_each(|found| former.extend(assembly.take(found, &basis, epoch)));
    let in_sync = assembly.members.iter().filter(|member| member.state == MemberState::InSync).count();
    let devices = assembly.members_named();
    if let Some((device, why)) = unread.filter(|_| new_id.is_some() && in_sync < basis.in_sync.count_ones() as usize) {
        return Err(JoinError::Unread { device, why, devices });
    }
    if in_sync == 0 {
        let former = former.iter().map(|blank: &Blank| blank.name.clone());
        let devices = [devices].into_iter().filter(|devices| !devices.is_empty()).chain(former);
        return Err(JoinError::Stale {
            devices: devices.collect::<Vec<_>>().join(", "),
            found: newest.generation,
            expected: basis.generation,
            missing: missing(&basis, &assembly.members),
        });
    }
    match new_id {
        Some(new_id) => {
            for blank in former.into_iter().chain(blank) {
                assembly.take_blank(blank, configured, new_id);
            }
            assembly.choose_rebuild();
        }
        None => assembly.change_nothing(former.into_iter().chain(blank)),
    }
    assembly.finish(&basis)
}

/// The newest label of the members.
fn newest<'a>(
    found: &'a [Found],
    (blank, left_out): (&[Blank], &[(String, String)]),
) -> Result<&'a MemberLabel, JoinError> {
    let newest = found.iter().max_by_key(|found| (found.label.generation, found.label.serial));
    let Some(newest) = newest else {
        let blank = blank.iter().map(|blank| format!("; {} is blank", blank.name));
        let others = left_out.iter().map(|(name, why)| format!("; {name}: {why}"));
        return Err(JoinError::NoLabel { why: blank.chain(others).collect() });
    };
    if let Some(other) = found.iter().find(|found| found.label.pool != newest.label.pool) {
        return Err(JoinError::Foreign { device: newest.name.clone(), other: other.name.clone() });
    }
    Ok(&newest.label)
}

/// Whether no two devices are the same member.
fn check_copies(found: &[Found]) -> Result<(), JoinError> {
    for (at, one) in found.iter().enumerate() {
        if let Some(other) = found[..at].iter().find(|other| one.id() == other.id()) {
            return Err(JoinError::Copy { device: one.name.clone(), other: other.name.clone() });
        }
    }
    Ok(())
}

/// Ids of the members that hold everything and are not there.
fn missing(basis: &MemberLabel, members: &[Member]) -> String {
    let is_missing = |number: &usize| basis.is_in_sync(*number) && members[*number].device.is_none();
    let ids = (0..basis.ids.len()).filter(is_missing).map(|number| format_id(&basis.ids[number]));
    ids.collect::<Vec<_>>().join(", ")
}
