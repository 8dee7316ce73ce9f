//! Puts an array together from the devices that are there: decides which of them hold everything that their labels say.

use super::array::Array;
use super::candidates::{Blank, Found, believed, sort};
use super::chores::Upkeep;
use super::code::Code;
use super::core::Core;
use super::found::FoundRows;
use super::fronts::Fronts;
use super::look::{UNREAD_MAX, read_logs};
use super::members::Members;
use super::open_rows::OpenRows;
use super::refusal::{JoinError, missing};
use super::roster::{FIRST_PLACE, Roster};
use super::unflushed::Unflushed;
use super::view::ArrayView;
use crate::layout::Id;
use crate::layout::array_label::ArrayLabel;
use crate::layout::array_shape::{Redundancy, Shape};
use crate::layout::codec::COUNTER_LIMIT;
use crate::layout::member_label::fits;
use crate::mirror::{
    Candidate, Member, MemberState, MemberStatus, MirrorStatus, MirrorView, Ranges, Unproven, missing_ids,
};
use crate::recovery::checkpoints::is_older;
use crate::recovery::opened::{Opened, refuse_apart};
use forebay_block::{Device, Geometry};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};

/// An array that can be used.
pub struct Joined {
    /// The array.
    pub array: Array,
    /// A handle to it.
    pub view: ArrayView,
    /// Devices that are not part of it, and why.
    pub left_out: Vec<(String, String)>,
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
        let holds = |other: &&Found| {
            basis.ids.iter().position(|id| *id == other.id()).is_some_and(|number| basis.is_in_sync(number))
        };
        found.iter().filter(holds).all(|other| other.agrees(basis))
    };
    let (first, rest) = (newest[0], &newest[1..]);
    let Some(other) = rest.iter().find(|other| !other.agrees(&first.label)) else { return Ok(Some(first)) };
    let of_all: Vec<&Found> = newest.iter().copied().filter(|one| is_of_all(one)).collect();
    match of_all.first() {
        Some(one) if of_all.iter().all(|other| other.agrees(&one.label)) => Ok(Some(one)),
        _ => Err(JoinError::Split { device: first.name.clone(), other: other.name.clone() }),
    }
}

/// Puts an array together from the devices that are there. `new_id` names a member that replaces another; without it nothing is changed: no
/// member is rebuilt, and no label written. `accepts_unproven`: a member is used even if it may be none any more while one that is missing
/// held everything, or if it is an older state of the device.
///
/// # Errors
/// Why these devices cannot be used, see [`JoinError`].
pub fn join(
    candidates: Vec<Candidate>,
    configured: Option<Redundancy>,
    mut new_id: Option<&mut dyn FnMut() -> Id>,
    accepts_unproven: bool,
) -> Result<Joined, JoinError> {
    let (found, blank, mut left_out) = sort(candidates);
    let Some(newest) = newest(&found)? else {
        let blank = blank.iter().map(|Blank { name, .. }| format!("; {name} is blank"));
        let others = left_out.iter().map(|(name, why)| format!("; {name}: {why}"));
        return Err(JoinError::NoLabel { why: blank.chain(others).collect() });
    };
    let basis = newest.label.clone();
    if let Some(other) = found.iter().find(|found| found.label.pool != basis.pool) {
        return Err(JoinError::Foreign { device: newest.name.clone(), other: other.name.clone() });
    }
    let mut label = basis.clone();
    for other in found.iter().map(|found| &found.label) {
        label.serial = label.serial.max(other.serial);
        label.generation = label.generation.max(other.generation);
    }
    let (found, used) = believed(found, &basis);
    let mut blank = VecDeque::from(blank);
    for Found { name, device, place, holds, .. } in used {
        match holds.unwrap_or_default() {
            holds if holds.is_empty() => blank.push_back(Blank { name, device, place }),
            holds => left_out
                .push((name, format!("it was a member, and has been used since: it holds {}", holds.join(", ")))),
        }
    }
    for (at, one) in found.iter().enumerate() {
        if let Some(other) = found[..at].iter().find(|other| other.id() == one.id()) {
            return Err(JoinError::Copy { device: one.name.clone(), other: other.name.clone() });
        }
    }
    let is = Redundancy { data: basis.shape.data, parity: basis.shape.parity };
    if let Some(configured) = configured.filter(|configured| *configured != is) {
        return Err(JoinError::Redundancy { is: is.to_string(), configured: configured.to_string() });
    }
    let number_of = |found: &Found| basis.ids.iter().position(|id| *id == found.id());
    let is_source = |found: &&Found| number_of(found).is_some_and(|number| basis.is_in_sync(number));
    refuse_apart(found.iter().filter(is_source).map(|found| (found.name.as_str(), found.opened)))?;
    let opened: Vec<Opened> = found.iter().filter(is_source).map(|found| found.opened).collect();
    let epoch = opened.iter().map(|opened| opened.epoch).max().unwrap_or(0);
    // All members that hold everything have an epoch before any of them is served in it.
    let is_served = opened.iter().any(|opened| opened.epoch == epoch && opened.is_served);
    let checkpoints =
        found.iter().filter(is_source).filter_map(|found| found.checkpoints).max_by_key(|&(_, newest)| newest);
    let mut differs = false;
    let mut members: Vec<Member> = basis.ids.iter().map(|_| Member::new(None, MemberState::Out)).collect();
    let mut names = vec![String::new(); members.len()];
    let mut places = vec![FIRST_PLACE; members.len()];
    let (mut to_rebuild, mut goes_on, mut unproven) = (VecDeque::new(), None, None);
    // Whether the member whose rebuild goes on was there in the last opening.
    let mut was_there = false;
    for found in found {
        let number = number_of(&found);
        let Found { name, device, label: own, place, opened, checkpoints: own_checkpoints, holds } = found;
        let Some(number) = number else {
            // It was replaced: what it holds does not count any more.
            blank.push_back(Blank { name, device, place });
            continue;
        };
        if let Err(why) = fits(device.geometry(), basis.shape.member_bytes, basis.logical_block_bytes) {
            left_out.push((name, why));
            continue;
        }
        differs |= (own.generation, own.in_sync, own.rebuilding) != (basis.generation, basis.in_sync, basis.rebuilding)
            || own.ids != basis.ids;
        // A device of an older epoch is an older state of it.
        let is_current = opened.epoch.saturating_add(1) >= epoch;
        let is_old = !accepts_unproven && is_older(own_checkpoints, checkpoints);
        let is_before = !accepts_unproven && is_served && opened.epoch < epoch;
        if basis.is_in_sync(number) && is_current && !is_before && !is_old {
            members[number].state = MemberState::InSync;
            unproven = unproven.or(holds.map(|_| name.clone()));
        } else if basis.rebuilding == Some(number as u8) && is_current {
            goes_on = Some(number);
            was_there = !is_served || opened.epoch >= epoch;
        } else {
            // The entries in its log are of another time and carry its id. A new id keeps them from being believed once it holds everything
            // again.
            if let Some(new_id) = &mut new_id {
                label.ids[number] = new_id();
            }
            to_rebuild.push_back(number);
        }
        (members[number].device, names[number]) = (Some(device), name);
        places[number] = place;
    }
    let absent = missing_ids(&basis.ids, |number| basis.is_in_sync(number), &members);
    if new_id.is_some() && !accepts_unproven {
        Unproven::refuse(unproven, &absent)?;
    }
    let mut log = FoundRows::default();
    let is_live = |&number: &usize| members[number].state == MemberState::InSync || goes_on == Some(number);
    let live = (0..members.len()).filter(is_live).collect();
    for (number, unread) in read_logs(&mut members, live, &basis, &mut log) {
        // An unreadable place may hold all that is left of a row: the member is rebuilt, where enough others are there.
        let others = members.iter().filter(|member| member.state == MemberState::InSync).count();
        let is_spare = members[number].state != MemberState::InSync || others > basis.shape.data;
        // These places are erased in any case: otherwise the next start could not read them either.
        log.unsure.extend(&unread);
        if let Some(new_id) = new_id.as_mut().filter(|_| is_spare) {
            label.ids[number] = new_id();
            members[number].state = MemberState::Out;
            goes_on = goes_on.filter(|&other| other != number);
            to_rebuild.push_back(number);
        } else if unread.len() > UNREAD_MAX && new_id.is_some() {
            // Not just single places are bad: the device may be readable another time.
            return Err(JoinError::Unread { device: names[number].clone() });
        }
    }
    let (there, needed) =
        (members.iter().filter(|member| member.state == MemberState::InSync).count(), basis.shape.data);
    // A member that was rebuilt except for some places, while the member that has these is lost for good.
    let last = goes_on.filter(|_| there + 1 == needed && basis.missing > 0 && was_there);
    if there < needed && !(accepts_unproven && last.is_some()) {
        let missing = missing(&basis, &members, &names, &left_out);
        let lacking = last.map(|number| (names[number].clone(), basis.missing));
        return Err(JoinError::TooFew { there, members: members.len(), needed, missing, lacking });
    }
    if let Some(number) = last {
        members[number].state = MemberState::InSync;
        (goes_on, differs) = (None, true);
    }
    if let Some(new_id) = &mut new_id {
        for Blank { name, device, place } in blank {
            let Some(number) = members.iter().position(|member| member.device.is_none()) else {
                left_out.push((name, "the capacity tier has all its members".to_owned()));
                continue;
            };
            match fits(device.geometry(), basis.shape.member_bytes, basis.logical_block_bytes) {
                Ok(()) => {
                    (label.ids[number], names[number], members[number].device) = (new_id(), name, Some(device));
                    places[number] = place;
                    to_rebuild.push_back(number);
                }
                Err(why) => left_out.push((name, why)),
            }
        }
        let next = goes_on.or_else(|| to_rebuild.pop_front());
        (label.rebuilt_rows, label.missing) = goes_on.map_or((0, 0), |_| (basis.rebuilt_rows, basis.missing));
        label.rebuilding = next.map(|number| number as u8);
        if let Some(number) = next {
            members[number].state = MemberState::Rebuilding;
        }
    } else {
        to_rebuild.clear();
        (label.rebuilding, label.rebuilt_rows, label.missing) = (None, 0, 0);
        left_out.extend(blank.into_iter().map(|Blank { name, .. }| (name, "it holds nothing that counts".to_owned())));
    }
    label.in_sync = (0..members.len())
        .filter(|&number| members[number].state == MemberState::InSync)
        .fold(0, |bits, number| bits | 1 << number);
    let of = |label: &ArrayLabel| (label.in_sync, label.rebuilding, label.ids.clone());
    let is_new = new_id.is_some() && (differs || of(&label) != of(&basis));
    log.newest = log.newest.max((epoch << 32).min(COUNTER_LIMIT / 2));
    let (array, view) = array_of(members, names, (label, places, is_new), to_rebuild, log, false);
    view.unreadable(if last.is_some() { basis.missing } else { 0 });
    view.members().set_missing(absent);
    Ok(Joined { array, view, left_out })
}

/// The geometry of a new array over such devices.
#[must_use]
pub fn geometry_of<'a>(
    shape: &Shape,
    logical_block_bytes: u32,
    members: impl Iterator<Item = &'a Geometry>,
) -> Geometry {
    let (mut volatile_cache, mut durable_writes) = (false, true);
    for geometry in members {
        volatile_cache |= geometry.volatile_cache;
        durable_writes &= !geometry.volatile_cache || geometry.durable_writes;
    }
    Geometry {
        size_bytes: shape.size_bytes(),
        logical_block_bytes,
        optimal_band_bytes: None,
        volatile_cache,
        durable_writes,
        // The array learns from discards what is free, whether or not its members support them.
        discards: true,
    }
}

/// Makes a new array over these devices, whatever they hold; its label is written with the first change. `ids`: one for each device.
#[must_use]
pub fn new_array(devices: Vec<Box<dyn Device>>, shape: Shape, pool: Id, ids: &[Id]) -> (Array, ArrayView) {
    let names = devices.iter().map(|device| device.name().to_owned()).collect();
    let logical = devices.iter().map(|device| device.geometry().logical_block_bytes).max().unwrap_or(512);
    let label = ArrayLabel {
        pool,
        member: 0,
        generation: 0,
        serial: 0,
        shape,
        ids: ids.to_vec(),
        in_sync: (0..devices.len()).fold(0, |bits, number| bits | 1 << number),
        rebuilding: None,
        rebuilt_rows: 0,
        missing: 0,
        logical_block_bytes: logical,
    };
    let members = devices.into_iter().map(|device| Member::new(Some(device), MemberState::InSync)).collect();
    let places = vec![FIRST_PLACE; label.ids.len()];
    array_of(members, names, (label, places, true), VecDeque::new(), FoundRows::default(), true)
}

fn array_of(
    members: Vec<Member>,
    names: Vec<String>,
    (label, places, is_new): (ArrayLabel, Vec<usize>, bool),
    to_rebuild: VecDeque<usize>,
    found: FoundRows,
    is_blank: bool,
) -> (Array, ArrayView) {
    let shape = label.shape;
    let geometries: Vec<Geometry> =
        members.iter().filter_map(|member| Some(member.device.as_ref()?.geometry().clone())).collect();
    let geometry = geometry_of(&shape, label.logical_block_bytes, geometries.iter());
    let shown = members.iter().zip(&names).zip(&label.ids).map(|((member, name), id)| MemberStatus {
        name: name.clone(),
        id: *id,
        state: member.state,
        why: member.device.is_none().then(|| "it is not there".to_owned()),
        failed_reads: 0,
        configured: None,
    });
    let status = MirrorStatus {
        members: shown.collect(),
        generation: label.generation,
        rebuilt_bytes: label.rebuilt_rows * crate::layout::array_shape::BLOCK,
        size_bytes: shape.member_bytes,
        mended_blocks: 0,
        unreadable_blocks: 0,
        broken: None,
    };
    let member = Geometry { size_bytes: shape.member_bytes, ..geometry.clone() };
    let view = ArrayView::new(MirrorView::new(status, label.pool, member), shape);
    let there: Vec<&str> = names.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let mut found = found;
    let mut unsure = std::mem::take(&mut found.unsure);
    if geometry.volatile_cache && !is_blank {
        unsure.extend(0..shape.log_slots);
    }
    let mut upkeep = Upkeep { is_settling: !found.is_empty() || !unsure.is_empty(), ..Upkeep::default() };
    if let Some(member) = label.rebuilding {
        upkeep.begin_rebuild(usize::from(member), label.rebuilt_rows);
    }
    let core = Core {
        // A label has no other shape.
        code: Code::new(shape.data, shape.parity),
        pool: label.pool,
        open: OpenRows::new(&shape, found.slots(), unsure, geometry.volatile_cache),
        sequence: found.newest,
        found,
        settled: BTreeSet::new(),
        unflushed: Unflushed::default(),
        fronts: Fronts::new(&shape, is_blank),
        roster: Roster::new((label, places), is_new, to_rebuild, view.clone()),
        upkeep,
        view: view.clone(),
        locks: Ranges::default(),
        held: VecDeque::new(),
        starved: Vec::new(),
        logged: Vec::new(),
        discarding: Vec::new(),
        next: VecDeque::new(),
        jobs: Slab::new(),
        ops: Slab::new(),
        next_lock: 0,
        flushes: 0,
        is_flushing: false,
        to_flush: Vec::new(),
        lost: None,
        is_volatile: geometry.volatile_cache,
        done: Vec::new(),
        unanswered: Vec::new(),
        members: Members::new(members),
        shape,
    };
    (Array::new(there.join(" + "), geometry, core), view)
}
