//! Assembles one device from members: a new one, or the existing one.

use super::Members;
use super::group::{Group, Several};
use crate::coverage::Coverage;
use crate::device::SimDevice;
use forebay_block::Device;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::layout::page::PAGE_BYTES;
use forebay_volume::mirror::{self, Candidate, Consent, MirrorView, new_mirror};
use forebay_volume::parity::{self, Joined, new_array};

/// Rate of rebuilds in bytes a second: slow enough that the power fails during one.
const REBUILD_BYTES_PER_S: u64 = 8 << 20;
const POOL: Id = [7; 16];

fn boxed(device: &SimDevice) -> Box<dyn Device> {
    Box::new(device.clone())
}

fn capacity(members: &Members, devices: &[SimDevice]) -> Vec<Box<dyn Device>> {
    devices[1..=members.capacity].iter().map(boxed).collect()
}

fn candidates(group: &Group, devices: &[SimDevice], is_there: impl Fn(usize) -> bool) -> Vec<Candidate> {
    let there = group.places.iter().enumerate().filter(|(member, _)| is_there(*member));
    let candidate = |device: &SimDevice| Candidate {
        name: device.name().to_owned(),
        device: Ok(boxed(device)),
        contents: Vec::new(),
    };
    there.map(|(_, &at)| candidate(&devices[at])).collect()
}

/// All devices of a pool: a fast device, which may be a mirror, and capacity devices.
fn all_of(fast: (Box<dyn Device>, Option<MirrorView>), capacity: Devices) -> Devices {
    let array = capacity.array().cloned();
    let (fast, mirror) = fast;
    let list = std::iter::once(fast).chain(capacity.list).collect();
    let devices = match mirror {
        Some(view) => Devices::mirrored(list, view),
        None => Devices::new(list),
    };
    match array {
        Some(view) => devices.with_array(view),
        None => devices,
    }
}

/// Devices for a new pool.
pub fn create(members: &Members, devices: &[SimDevice]) -> Devices {
    let each = |group: &Group| group.places.iter().map(|&at| boxed(&devices[at])).collect();
    let ids = |group: &Group, first: u8| (first..first + group.places.len() as u8).map(|id| [id; 16]).collect();
    let capacity = match &members.array {
        Some(group) => {
            let Several::Array { shape, .. } = &group.several else { return Devices::new(Vec::new()) };
            // Members of both groups have ids of their own.
            let ids: Vec<Id> = ids(group, if members.mirror.is_some() { 50 } else { 1 });
            let (array, view) = new_array(each(group), *shape, POOL, &ids);
            Devices::new(vec![Box::new(array)]).with_array(view)
        }
        None => Devices::new(capacity(members, devices)),
    };
    let fast: (Box<dyn Device>, _) = match &members.mirror {
        Some(group) => {
            let ids: Vec<Id> = ids(group, 1);
            let (mirror, view) = new_mirror(each(group), POOL, &ids);
            (Box::new(mirror), Some(view))
        }
        None => (boxed(&devices[0]), None),
    };
    all_of(fast, capacity)
}

/// Devices of the existing pool.
///
/// # Errors
/// Why the present members cannot be used.
pub fn join(members: &mut Members, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
    let mut capacity = match &mut members.array {
        Some(group) => join_array(group, devices, is_writable)?,
        None => Devices::new(capacity(members, devices)),
    };
    let fast = match &mut members.mirror {
        Some(group) => join_mirror(group, devices, &mut capacity, is_writable)?,
        None => (boxed(&devices[0]), None),
    };
    Ok(all_of(fast, capacity))
}

fn join_mirror(
    group: &mut Group,
    devices: &[SimDevice],
    capacity: &mut Devices,
    is_writable: bool,
) -> Result<(Box<dyn Device>, Option<MirrorView>), String> {
    let candidates = candidates(group, devices, |member| group.is_there(member));
    let mut new_id = || group.new_id();
    let joined = match mirror::join(candidates, capacity, is_writable.then_some(&mut new_id), Consent::default()) {
        Ok(joined) => joined,
        // It was left behind, and is refused only for that.
        Err(mirror::JoinError::Stale { .. } | mirror::JoinError::Unread { .. }) if group.is_alone => {
            group.is_alone = false;
            return join_mirror(group, devices, capacity, is_writable);
        }
        // It is blank, because the power failed before it was rebuilt.
        Err(mirror::JoinError::NoLabel { .. }) if group.is_alone && is_blank(group, devices) => {
            group.is_alone = false;
            return join_mirror(group, devices, capacity, is_writable);
        }
        // A label of a capacity device was torn: the present member may be one that was left behind.
        Err(mirror::JoinError::Unread { .. }) if group.culprits[0].is_absent => {
            group.culprits[0].is_absent = false;
            return join_mirror(group, devices, capacity, is_writable);
        }
        Err(error) => return Err(error.to_string()),
    };
    group.must_recover |= group.is_alone && is_writable;
    joined.view.set_rebuild_rate(REBUILD_BYTES_PER_S);
    Ok((Box::new(joined.mirror), Some(joined.view)))
}

/// Whether the present members hold no data of a pool.
fn is_blank(group: &Group, devices: &[SimDevice]) -> bool {
    let there = group.places.iter().enumerate().filter(|(member, _)| group.is_there(*member));
    there.map(|(_, &at)| &devices[at]).all(|device| {
        let page_bytes = PAGE_BYTES as u64;
        let pages = device.geometry().size_bytes / page_bytes;
        device.places_with(0..pages * page_bytes, page_bytes, b"FB").is_empty()
    })
}

/// Returns the absent members of a mirror; false where none is absent.
pub fn come_back(members: &mut Members) -> bool {
    let mut were_away = false;
    for group in members.groups_mut() {
        were_away |= group.is_alone || group.culprits[0].is_absent;
        (group.is_alone, group.culprits[0].is_absent) = (false, false);
    }
    were_away
}

fn join_array(group: &mut Group, devices: &[SimDevice], is_writable: bool) -> Result<Devices, String> {
    let candidates = candidates(group, devices, |member| group.is_there(member));
    group.found_open += u64::from(is_writable && !group.logged_rows(devices).is_empty());
    let mut new_id = || group.new_id();
    let Joined { array, view, .. } =
        parity::join(candidates, None, if is_writable { Some(&mut new_id) } else { None }, false)
            .map_err(|error| error.to_string())?;
    view.members().set_rebuild_rate(REBUILD_BYTES_PER_S);
    group.array = Some(view.clone());
    Ok(Devices::new(vec![Box::new(array)]).with_array(view))
}

/// An array with one member more missing than parity covers is refused.
pub fn expect_refusal(members: &mut Members, devices: &[SimDevice], coverage: &mut Coverage) -> Result<(), String> {
    let Some(group) = &mut members.array else { return Ok(()) };
    let Several::Array { parity, .. } = &group.several else { return Ok(()) };
    let others = (0..group.places.len()).filter(|&member| !group.is_culprit(member));
    let missing: Vec<usize> = (group.culprits.iter().map(|culprit| culprit.member).chain(others))
        .take(parity.redundancy.parity + 1)
        .collect();
    let candidates = candidates(group, devices, |member| !missing.contains(&member));
    let mut new_id = || group.new_id();
    match parity::join(candidates, None, Some(&mut new_id), false) {
        Err(parity::JoinError::TooFew { .. }) => {
            coverage.count("arrays refused with too few members");
            Ok(())
        }
        Err(error) => Err(error.to_string()),
        Ok(_) => Err(format!("members {missing:?} are missing, and it was put together without them")),
    }
}
