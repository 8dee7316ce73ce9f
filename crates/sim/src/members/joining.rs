//! Making one device of members: a new one, or the one that is there.

use super::{Members, Several};
use crate::coverage::Coverage;
use crate::device::SimDevice;
use forebay_block::Device;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{self, Candidate, Consent, new_mirror};
use forebay_volume::parity::{self, Joined, new_array};

/// What a rebuild copies, in bytes a second: so slowly that power fails within one.
const REBUILD_BYTES_PER_S: u64 = 8 << 20;
const POOL: Id = [7; 16];

/// Where the log of an array has places, and what an entry begins with.
const SLOT_BYTES: u64 = 8192;
const ENTRY: &[u8] = b"FBPE";

fn boxed(device: &SimDevice) -> Box<dyn Device> {
    Box::new(device.clone())
}

fn capacity(members: &Members, devices: &[SimDevice]) -> Vec<Box<dyn Device>> {
    devices[members.capacity.clone()].iter().map(boxed).collect()
}

fn candidates(members: &Members, devices: &[SimDevice], is_there: impl Fn(usize) -> bool) -> Vec<Candidate> {
    let there = members.places.iter().enumerate().filter(|(member, _)| is_there(*member));
    let candidate = |device: &SimDevice| Candidate {
        name: device.name().to_owned(),
        device: Ok(boxed(device)),
        contents: Vec::new(),
    };
    there.map(|(_, &at)| candidate(&devices[at])).collect()
}

/// Devices for a new pool.
pub fn create(members: &Members, devices: &[SimDevice]) -> Devices {
    let each = members.places.iter().map(|&at| boxed(&devices[at])).collect();
    let ids: Vec<Id> = (1..=members.places.len() as u8).map(|member| [member; 16]).collect();
    match &members.several {
        Several::None => Devices::new(devices.iter().map(boxed).collect()),
        Several::Mirror => {
            let (mirror, view) = new_mirror(each, POOL, &ids);
            let first: [Box<dyn Device>; 1] = [Box::new(mirror)];
            Devices::mirrored(first.into_iter().chain(capacity(members, devices)).collect(), view)
        }
        Several::Array { shape, .. } => {
            let (array, view) = new_array(each, *shape, POOL, &ids);
            Devices::new(vec![boxed(&devices[0]), Box::new(array)]).with_array(view)
        }
    }
}

/// Devices of the pool that is there.
pub fn join(members: &mut Members, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
    match members.several {
        Several::None => Ok(Devices::new(devices.iter().map(boxed).collect())),
        Several::Mirror => join_mirror(members, devices, is_writable),
        Several::Array { .. } => join_array(members, devices, is_writable),
    }
}

fn join_mirror(members: &mut Members, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
    let mut capacity = Devices::new(capacity(members, devices));
    let culprit = &members.culprits[0];
    let is_there = |member: usize| if member == culprit.member { !culprit.is_absent } else { !members.is_alone };
    let candidates = candidates(members, devices, is_there);
    let mut new_id = || members.new_id();
    let joined = match mirror::join(candidates, &mut capacity, is_writable.then_some(&mut new_id), Consent::default()) {
        Ok(joined) => joined,
        // It was left behind: no more than that is refused.
        Err(mirror::JoinError::Stale { .. } | mirror::JoinError::Unread { .. }) if members.is_alone => {
            members.is_alone = false;
            return join(members, devices, is_writable);
        }
        // A label of a capacity device was torn: whoever is there may be one that was left behind.
        Err(mirror::JoinError::Unread { .. }) if members.culprits[0].is_absent => {
            members.culprits[0].is_absent = false;
            return join(members, devices, is_writable);
        }
        Err(error) => return Err(error.to_string()),
    };
    members.must_recover |= members.is_alone && is_writable;
    joined.view.set_rebuild_rate(REBUILD_BYTES_PER_S);
    let list = [Box::new(joined.mirror) as Box<dyn Device>].into_iter().chain(capacity.list).collect();
    Ok(Devices::mirrored(list, joined.view))
}

/// Members of a mirror that are away are there again; false where none is.
pub fn come_back(members: &mut Members) -> bool {
    let were_away = members.is_alone || members.culprits[0].is_absent;
    (members.is_alone, members.culprits[0].is_absent) = (false, false);
    were_away
}

fn join_array(members: &mut Members, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
    let is_absent =
        |member: usize| members.culprits.iter().any(|culprit| culprit.member == member && culprit.is_absent);
    let candidates = candidates(members, devices, |member| !is_absent(member));
    members.found_open += u64::from(is_writable && has_open_rows(members, devices));
    let mut new_id = || members.new_id();
    let Joined { array, view, .. } =
        parity::join(candidates, None, if is_writable { Some(&mut new_id) } else { None }, false)
            .map_err(|error| error.to_string())?;
    view.members().set_rebuild_rate(REBUILD_BYTES_PER_S);
    members.array = Some(view.clone());
    Ok(Devices::new(vec![boxed(&devices[0]), Box::new(array)]).with_array(view))
}

fn has_open_rows(members: &Members, devices: &[SimDevice]) -> bool {
    let Several::Array { shape, .. } = &members.several else { return false };
    let log = shape.head_bytes..shape.head_bytes + u64::from(shape.log_slots) * SLOT_BYTES;
    members.places.iter().any(|&at| devices[at].count_places(log.clone(), SLOT_BYTES, ENTRY) > 0)
}

/// With one member more missing than there is parity for an array is refused.
pub fn is_refused(members: &mut Members, devices: &[SimDevice], coverage: &mut Coverage) -> Result<(), String> {
    let Several::Array { parity, .. } = &members.several else { return Ok(()) };
    let others = (0..members.places.len()).filter(|&member| !members.is_culprit(member));
    let missing: Vec<usize> = (members.culprits.iter().map(|culprit| culprit.member).chain(others))
        .take(parity.redundancy.parity + 1)
        .collect();
    let candidates = candidates(members, devices, |member| !missing.contains(&member));
    let mut new_id = || members.new_id();
    match parity::join(candidates, None, Some(&mut new_id), false) {
        Err(parity::JoinError::TooFew { .. }) => {
            coverage.count("arrays refused with too few members");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
        Ok(_) => Err(format!("members {missing:?} are missing, and it was put together without them")),
    }
}
