//! Puts an array together from the devices that are there: decides which of them hold everything that their labels say.

use super::assembly::{Assembly, Joined, NewestSource, Permits};
use super::candidates::{Found, Sorted, sort};
use super::refusal::JoinError;
use crate::layout::Id;
use crate::layout::array_label::ArrayLabel;
use crate::layout::array_shape::Redundancy;
use crate::mirror::Candidate;
use crate::recovery::opened::refuse_apart;

/// Puts an array together from the devices that are there. `new_id` names a member that replaces another; without it nothing is changed: no
/// member is rebuilt, and no label written. `accepts_unproven`: a member is used even if it may be none any more while one that is missing
/// held everything, or if it is an older state of the device.
///
/// # Errors
/// Why these devices cannot be used, see [`JoinError`].
pub fn join(
    candidates: Vec<Candidate>,
    configured: Option<Redundancy>,
    new_id: Option<&mut dyn FnMut() -> Id>,
    accepts_unproven: bool,
) -> Result<Joined, JoinError> {
    let mut devices = sort(candidates);
    let basis = label_that_counts(&devices)?;
    let next = counted_from_all(&basis, &devices.found);
    devices.set_used_aside(&basis);
    refuse_copies(&devices.found)?;
    refuse_other_redundancy(&basis, configured)?;
    let sources = devices.found.iter().filter(|found| found.is_source(&basis));
    refuse_apart(sources.map(|found| (found.name.as_str(), found.opened)))?;
    let newest = NewestSource::of(&devices.found, &basis);
    let mut assembly = Assembly::new(basis, next, newest, Permits { new_id, accepts_unproven });
    assembly.admit(devices);
    let absent = assembly.absent();
    assembly.refuse_unproven(&absent)?;
    assembly.take_logs()?;
    assembly.need_enough()?;
    Ok(assembly.finish(absent))
}

/// The label that counts. All devices with labels have to be of its pool.
fn label_that_counts(devices: &Sorted) -> Result<ArrayLabel, JoinError> {
    let Some(newest) = newest(&devices.found)? else {
        let blank = devices.blank.iter().map(|blank| format!("; {} is blank", blank.name));
        let others = devices.left_out.iter().map(|(name, why)| format!("; {name}: {why}"));
        return Err(JoinError::NoLabel { why: blank.chain(others).collect() });
    };
    match devices.found.iter().find(|found| found.label.pool != newest.label.pool) {
        Some(other) => Err(JoinError::Foreign { device: newest.name.clone(), other: other.name.clone() }),
        None => Ok(newest.label.clone()),
    }
}

/// The device whose label counts. An epoch begins when the label of its opening is durable on all members that take part: a label of a
/// change that came to nothing is of an older epoch. Of changes in the same epoch the later one counts. Two with the same number were made
/// by openings that did not know of each other. Of these the one counts which all devices have that hold everything by it: the other was
/// never durable, so nothing was answered by it.
fn newest(found: &[Found]) -> Result<Option<&Found>, JoinError> {
    let time = |found: &Found| (found.opened.epoch, found.label.generation);
    let Some(last) = found.iter().map(time).max() else { return Ok(None) };
    let mut newest: Vec<&Found> = found.iter().filter(|found| time(found) == last).collect();
    newest.sort_by_key(|found| std::cmp::Reverse(found.label.serial));
    let is_of_all = |one: &&Found| {
        let basis = &one.label;
        found.iter().filter(|other| other.is_source(basis)).all(|other| other.agrees(basis))
    };
    let (first, rest) = (newest[0], &newest[1..]);
    let Some(other) = rest.iter().find(|other| !other.agrees(&first.label)) else { return Ok(Some(first)) };
    let of_all: Vec<&Found> = newest.iter().copied().filter(|one| is_of_all(one)).collect();
    match of_all.first() {
        Some(one) if of_all.iter().all(|other| other.agrees(&one.label)) => Ok(Some(one)),
        _ => Err(JoinError::Split { device: first.name.clone(), other: other.name.clone() }),
    }
}

/// The label that counts, with the highest counters of all labels that there are: the next one counts up from all of them.
fn counted_from_all(basis: &ArrayLabel, found: &[Found]) -> ArrayLabel {
    let mut label = basis.clone();
    for other in found.iter().map(|found| &found.label) {
        label.serial = label.serial.max(other.serial);
        label.generation = label.generation.max(other.generation);
    }
    label
}

/// Refuses two devices that are the same member.
fn refuse_copies(found: &[Found]) -> Result<(), JoinError> {
    for (at, one) in found.iter().enumerate() {
        if let Some(other) = found[..at].iter().find(|other| other.id() == one.id()) {
            return Err(JoinError::Copy { device: one.name.clone(), other: other.name.clone() });
        }
    }
    Ok(())
}

/// Refuses an array of another redundancy than is configured, where one is.
fn refuse_other_redundancy(basis: &ArrayLabel, configured: Option<Redundancy>) -> Result<(), JoinError> {
    let is = Redundancy { data: basis.shape.data, parity: basis.shape.parity };
    match configured.filter(|configured| *configured != is) {
        Some(configured) => Err(JoinError::Redundancy { is: is.to_string(), configured: configured.to_string() }),
        None => Ok(()),
    }
}
