//! Makes a mirror of the devices that are there: decides by their labels, and by those of the capacity devices, which of them hold
//! everything.

use super::assembly::{Assembly, Blank, Found, Joined, NewestSource, is_same};
use super::belief::{Unproven, is_believed, missing_ids};
use super::error::JoinError;
use super::former::Former;
use super::view::MemberState;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::array_label;
use crate::layout::member_label::{LABEL_BYTES, MEMBERS_MAX, MemberLabel, OFFSETS_BYTES};
use crate::layout::superblock::{Role, Superblock};
use crate::readings::Reading;
use crate::recovery::checkpoints::newest_on_fast;
use crate::recovery::opened::{Opened, refuse_apart};
use crate::recovery::read_superblock;
use forebay_block::{Device, IoError};

/// A device that is configured as a member.
pub struct Candidate {
    /// Its name in messages: path or URI.
    pub name: String,
    /// The device, or why it cannot be opened.
    pub device: Result<Box<dyn Device>, String>,
    /// What is on it that is no mirror's; empty where it is blank. Not looked at where the device carries a label that is believed.
    pub contents: Vec<String>,
}

/// What the user has agreed to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consent {
    /// A member is used that may be none any more, although a missing one held everything.
    pub unproven: bool,
    /// Missing members are dropped for good, where all devices that are configured are there.
    pub drops_absent: bool,
}

/// What lies on a device in the places of labels.
struct Look {
    /// The newest label.
    label: Option<MemberLabel>,
    /// The newest label is the second copy.
    is_second: bool,
    /// A copy cannot be read, or is neither a label nor blank: it may have been a newer one.
    doubt: Option<String>,
}

fn look(device: &mut Devices, number: usize) -> Look {
    let mut look = Look { label: None, is_second: false, doubt: None };
    let places = OFFSETS_BYTES.map(|offset_bytes| (number, offset_bytes, LABEL_BYTES));
    // Where no way of reading gives a label, one that gives zeros shows that none was ever there: what another gave was one bad transfer, or
    // one member's rot.
    let mut is_blank = [false; OFFSETS_BYTES.len()];
    let read = device.read_each_good(&places, |place, bytes| {
        is_blank[place] |= bytes.iter().all(|&byte| byte == 0);
        MemberLabel::decode(bytes).is_some()
    });
    for ((offset_bytes, reading), is_blank) in OFFSETS_BYTES.into_iter().zip(read).zip(is_blank) {
        match reading {
            Reading::Good(bytes) => {
                let newest = look.label.as_ref().map(|label| label.serial);
                let newer =
                    MemberLabel::decode(&bytes).filter(|label| newest.is_none_or(|newest| label.serial > newest));
                if newer.is_some() {
                    (look.label, look.is_second) = (newer, offset_bytes == OFFSETS_BYTES[1]);
                }
            }
            Reading::Bad(_) | Reading::Failed(_) if is_blank => {}
            Reading::Bad(_) => look.doubt = Some(format!("its label at {offset_bytes} is damaged")),
            Reading::Failed(error) => look.doubt = Some(error.to_string()),
        }
    }
    look
}

/// The newest label on a device, where one can be read.
#[must_use]
pub fn read_label(device: &mut Devices, number: usize) -> Option<MemberLabel> {
    look(device, number).label
}

/// Which member of this pool a device was, where its label is believed.
#[must_use]
pub fn former(device: &mut Devices, pool: Id) -> Option<Former> {
    let Look { label, is_second, .. } = look(device, 0);
    let label = label.filter(|label| label.pool == pool)?;
    let id = label.ids.get(usize::from(label.member?)).copied()?;
    let former = Former { id, generation: label.generation, serial: label.serial, is_second };
    former.checked().filter(|_| is_believed(device, &(&label).into()))
}

/// Clears the labels on devices that are to become a pool's.
///
/// # Errors
/// Which device failed.
pub fn clear_labels(devices: &mut Devices) -> Result<(), (usize, IoError)> {
    for number in 0..devices.list.len() {
        let clear = |devices: &mut Devices| {
            let of_array = array_label::OFFSETS_BYTES;
            OFFSETS_BYTES.iter().chain(&of_array).try_for_each(|&at| devices.write(number, at, &[0; LABEL_BYTES]))?;
            devices.flush(number)
        };
        clear(devices).map_err(|error| (number, error))?;
    }
    Ok(())
}

/// What the configured devices were found to be.
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
        let Look { label, is_second, .. } = look(&mut device, 0);
        let label = label.filter(|label| label.member.is_some());
        let is_believed = label.as_ref().is_none_or(|label| is_believed(&mut device, &label.into()));
        let superblock = read_superblock(&mut device, 0).ok().map(|(superblock, _)| superblock);
        let opened = superblock.as_ref().map(Opened::of).unwrap_or_default();
        let root = superblock.as_ref().and_then(|superblock| newest_on_fast(&mut device, superblock));
        let alone = superblock.filter(|superblock| !superblock.is_mirrored && superblock.member().role == Role::Fast);
        let Some(device) = device.list.pop() else { continue };
        match label {
            Some(label) => {
                let holds = (!is_believed).then_some(contents);
                sorted.found.push(Found { name, device, label, opened, root, is_second, holds });
            }
            None if let Some(superblock) = alone => {
                let label = first_label(&superblock);
                sorted.alone.push(Found { name, device, label, opened, root, is_second, holds: None });
            }
            None if contents.is_empty() => sorted.blank.push(Blank { name, device, is_second: false }),
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

/// What the labels on the capacity devices say.
struct Capacity {
    /// The newest label there. Nothing after the change that it records was answered before it was there: so the members that it says hold
    /// everything do, whatever their own labels say.
    confirmed: Option<MemberLabel>,
    /// All of them have it, durably.
    is_on_all: bool,
    /// A device that may have a newer label, and why that is not known.
    unread: Option<(String, String)>,
}

fn look_at_capacity(capacity: &mut Devices, pool: Id) -> Capacity {
    let mut labels = Vec::new();
    let mut unread = None;
    for number in 0..capacity.list.len() {
        let Look { label, doubt, .. } = look(capacity, number);
        labels.push(label.filter(|label| label.pool == pool));
        unread = doubt.map(|why| (capacity.list[number].name().to_owned(), why)).or(unread);
    }
    let newest = labels.iter().flatten().max_by_key(|label| (label.generation, label.serial));
    let confirmed = newest.cloned();
    let has_it =
        |label: &Option<MemberLabel>| label.as_ref().zip(confirmed.as_ref()).is_some_and(|(a, b)| is_same(a, b));
    // A label that can be read need not be durable.
    let is_cached = capacity.list.iter().any(|device| device.geometry().volatile_cache);
    // Nor is it known, where one of several members of a tier with parity is read, whether the others have it.
    let is_on_all = !is_cached && capacity.array().is_none() && unread.is_none() && labels.iter().all(has_it);
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
    consent: Consent,
) -> Result<Joined, JoinError> {
    let configured = candidates.len().min(MEMBERS_MAX);
    let Sorted { mut found, mut alone, mut blank, mut left_out } = sort(candidates);
    // This pool is to have a mirror from now on. An opening that only reads need not wait for a blank device.
    if found.is_empty() && alone.len() == 1 && (!blank.is_empty() || new_id.is_none()) {
        (found, alone) = (alone, Vec::new());
        if let Some(confirmed) = look_at_capacity(capacity, found[0].label.pool).confirmed {
            let why = format!("; {} has lost its label, of generation {}", found[0].name, confirmed.generation);
            return Err(JoinError::NoLabel { why });
        }
    }
    let newest = newest(&found, (&blank, &left_out))?.clone();
    let Capacity { confirmed, is_on_all, unread } = look_at_capacity(capacity, newest.pool);
    // Where no label is confirmed, the first label of the mirror may have been written to another device than this one.
    let (first, others): (Vec<_>, Vec<_>) =
        alone.into_iter().partition(|found| confirmed.is_none() && found.label.pool == newest.pool);
    found.extend(first);
    let why = "it is the fast device of a pool without a mirror, or has lost its label";
    left_out.extend(others.into_iter().map(|found| (found.name, why.to_owned())));
    let basis = basis(confirmed.as_ref(), &newest);
    let (found, used) = believed(found, &basis);
    for Found { name, device, holds, is_second, .. } in used {
        match holds.unwrap_or_default() {
            holds if holds.is_empty() => blank.push(Blank { name, device, is_second }),
            holds => left_out
                .push((name, format!("it was a member, and has been used since: it holds {}", holds.join(", ")))),
        }
    }
    check_copies(&found)?;
    let mut assembly = Assembly::new(&basis, left_out);
    assembly.count_from(found.iter().map(|found| &found.label).chain(&confirmed));
    assembly.differs = !is_on_all;
    let epoch = check_epochs(&found, &basis)?;
    let is_source = |found: &&Found| found.number_in(&basis).is_some_and(|number| basis.is_in_sync(number));
    let opened = found.iter().filter(is_source).map(|found| found.opened);
    let newest_source = NewestSource {
        epoch,
        served_epoch: opened.filter(|opened| opened.is_served).map(|opened| opened.epoch).max().unwrap_or(0),
        checkpoint: found.iter().filter(is_source).filter_map(|found| found.root).map(|root| root.checkpoint).max(),
    };
    let is_newer = confirmed.as_ref().is_some_and(|confirmed| newest.generation > confirmed.generation);
    // A label goes to all members that hold everything before any capacity device has it: with all of these members there, no label is
    // unknown.
    let is_there = |number: usize| {
        let is_it = |found: &Found| found.number_in(&basis) == Some(number);
        found.iter().any(|found| is_it(found) && found.label.generation >= basis.generation)
    };
    let is_all_known = (0..basis.ids.len()).filter(|&number| basis.is_in_sync(number)).all(is_there);
    let unproven = found.iter().find(|found| found.holds.is_some()).map(|found| found.name.clone());
    let mut former = Vec::new();
    found.into_iter().for_each(|found| former.extend(assembly.take(found, &basis, newest_source)));
    let in_sync = assembly.members.iter().filter(|member| member.state == MemberState::InSync).count();
    let devices = assembly.members_named();
    if let Some((device, why)) = unread.filter(|_| !is_all_known && !is_newer) {
        return Err(JoinError::Unread { device, why, devices });
    }
    if in_sync == 0 {
        let former = former.iter().map(|blank: &Blank| blank.name.clone());
        let devices = [devices].into_iter().filter(|devices| !devices.is_empty()).chain(former);
        return Err(JoinError::Stale {
            devices: devices.collect::<Vec<_>>().join(", "),
            found: newest.generation,
            expected: basis.generation,
            missing: missing_ids(&basis.ids, |number| basis.is_in_sync(number), &assembly.members),
        });
    }
    let absent = missing_ids(&basis.ids, |number| basis.is_in_sync(number), &assembly.members);
    if new_id.is_some() && !consent.unproven {
        Unproven::refuse(unproven, &absent)?;
    }
    match new_id {
        Some(new_id) => {
            for blank in former.into_iter().chain(blank) {
                assembly.take_blank(blank, configured, new_id);
            }
            if consent.drops_absent {
                assembly.drop_absent(configured)?;
            }
            assembly.choose_rebuild();
        }
        None => assembly.change_nothing(former.into_iter().chain(blank)),
    }
    let joined = assembly.finish(&basis)?;
    joined.view.set_missing(absent);
    Ok(joined)
}

/// The label that counts: that of the capacity devices. A later change may have been confirmed on a device that cannot be read: then only
/// members count that both labels name, as they hold everything either way.
fn basis(confirmed: Option<&MemberLabel>, newest: &MemberLabel) -> MemberLabel {
    let Some(confirmed) = confirmed else { return newest.clone() };
    let mut basis = confirmed.clone();
    if newest.generation > confirmed.generation {
        let by_both = (0..confirmed.ids.len()).filter(|&number| {
            let id = &confirmed.ids[number];
            let there = newest.ids.iter().position(|other| other == id);
            confirmed.is_in_sync(number) && there.is_some_and(|number| newest.is_in_sync(number))
        });
        let in_sync = by_both.fold(0, |bits, number| bits | 1 << number);
        basis.in_sync = if in_sync == 0 { basis.in_sync } else { in_sync };
        // A rebuild that was given up since begins anew: it is not known what it has missed.
        let of = |label: &MemberLabel| label.rebuilding.map(|number| label.ids[usize::from(number)]);
        if of(newest) != of(confirmed) {
            (basis.rebuilding, basis.rebuilt_bytes) = (None, 0);
        }
    }
    basis
}

/// Separates devices whose labels are believed from those that have been used for something else since. Where no believed one holds
/// everything, a doubted device that should is believed all the same: it may be all that is left of the pool.
fn believed(found: Vec<Found>, basis: &MemberLabel) -> (Vec<Found>, Vec<Found>) {
    let is_source = |found: &Found| found.number_in(basis).is_some_and(|number| basis.is_in_sync(number));
    let is_any = found.iter().any(|found| is_source(found) && found.holds.is_none());
    found.into_iter().partition(|found| found.holds.is_none() || !is_any && is_source(found))
}

/// The newest epoch of the members that hold everything. Refuses members that were not opened together.
fn check_epochs(found: &[Found], basis: &MemberLabel) -> Result<u64, JoinError> {
    let is_source = |found: &&Found| found.number_in(basis).is_some_and(|number| basis.is_in_sync(number));
    let epoch = found.iter().filter(is_source).map(|found| found.opened.epoch).max();
    refuse_apart(found.iter().filter(is_source).map(|found| (found.name.as_str(), found.opened)))?;
    // A change that nobody confirmed never led to an epoch.
    match epoch.zip(found.iter().max_by_key(|found| found.opened.epoch)) {
        Some((epoch, newest)) if newest.opened.epoch > epoch.saturating_add(1) => {
            Err(JoinError::Newer { device: newest.name.clone(), epoch: newest.opened.epoch, expected: epoch })
        }
        _ => Ok(epoch.unwrap_or_default()),
    }
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

/// Refuses two devices that are the same member.
fn check_copies(found: &[Found]) -> Result<(), JoinError> {
    for (at, one) in found.iter().enumerate() {
        if let Some(other) = found[..at].iter().find(|other| one.id() == other.id()) {
            return Err(JoinError::Copy { device: one.name.clone(), other: other.name.clone() });
        }
    }
    Ok(())
}
