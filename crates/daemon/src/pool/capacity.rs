//! Opens the capacity tier of a configuration: independent devices, or a parity array of several.

use super::access::Access;
use super::devices::{CapacityTier, open_target};
use super::fast::{self, candidate, new_ids};
use super::missing::explain_unopened;
use super::offers::{APART, ATTACH_OR_ACCEPT, DOCUMENT, Offers};
use super::watched::Watched;
use crate::config::Config;
use anyhow::{Context, Result, anyhow};
use forebay_block::{Device, Geometry};
use forebay_device::OpenMode;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::parity::{self, ArrayView, JoinError, Joined, Shape, plan_shape};
use serde_json::{Value, json};
use tracing::warn;

/// Whether any of the opened devices carries the label of a parity array. The list is put back as it was.
fn is_member(list: &mut Vec<Box<dyn Device>>) -> bool {
    let mut devices = Devices::new(std::mem::take(list));
    let found = (0..devices.list.len()).any(|number| parity::read_label(&mut devices, number).is_some());
    *list = devices.list;
    found
}

/// Opens the capacity tier. In a parity array as many devices may be missing as there is parity.
///
/// # Errors
/// The tier cannot be used; the message says why, and what to do.
pub fn open(config: &Config, access: Access, watched: &mut Watched) -> Result<CapacityTier> {
    if config.pool.redundancy.is_some() {
        return join(config, access, watched);
    }
    let list: Result<Vec<_>> =
        config.capacity.iter().map(|device| open_target(&device.target.0, access.mode)).collect();
    alone_or_joined(config, list?, access, watched)
}

/// As [`open`], to read what is left: independent devices that cannot be opened are left out.
///
/// # Errors
/// Too few members of a parity array are there.
pub fn open_what_is_there(
    config: &Config,
    watched: &mut Watched,
    open: impl FnMut(&forebay_device::Target) -> Option<Box<dyn Device>>,
) -> Result<CapacityTier> {
    if config.pool.redundancy.is_some() {
        return join(config, Access::READ_ONLY, watched);
    }
    let list = config.capacity.iter().map(|device| &device.target.0).filter_map(open).collect();
    alone_or_joined(config, list, Access::READ_ONLY, watched)
}

/// Opens the devices independently, unless their labels say that they form a parity array.
fn alone_or_joined(
    config: &Config,
    mut list: Vec<Box<dyn Device>>,
    access: Access,
    watched: &mut Watched,
) -> Result<CapacityTier> {
    if is_member(&mut list) {
        // `join` opens the devices again, and each can be opened only once.
        drop(list);
        return join(config, access, watched);
    }
    Ok((list, None))
}

fn join(config: &Config, access: Access, watched: &mut Watched) -> Result<CapacityTier> {
    let Access { mode, accepts_loss, .. } = access;
    let candidates =
        config.capacity.iter().map(|device| watched.candidate(candidate(&device.target.0, mode))).collect();
    let configured = config.pool.redundancy.map(|redundancy| redundancy.0);
    let mut ids = new_ids();
    let new_id: Option<&mut dyn FnMut() -> Id> = if mode == OpenMode::ReadWrite { Some(&mut ids) } else { None };
    let Joined { array, view, left_out } =
        parity::join(candidates, configured, new_id, accepts_loss).map_err(|error| explain(config, error))?;
    if configured.is_none() {
        let Shape { data, parity, .. } = view.shape();
        warn!(
            cause = "redundancy not configured",
            advice = "Add it to [pool], so that the file describes the pool",
            "the capacity devices are one tier with parity, and the configuration has no redundancy = \"{data}+{parity}\""
        );
    }
    view.members().set_left_out(&fast::in_order(&left_out, config.capacity.iter().map(|device| &device.target.0)));
    for (name, why) in left_out {
        warn!(
            cause = "parity member left out",
            advice = "The pool is served by the other members. Attach the device where it is missing; where it holds something else clear it (zeros over all of it), or put another one in its place: that is rebuilt (docs/parity.md)",
            "{name} is no member of the capacity tier with parity: {why}"
        );
    }
    Ok((vec![Box::new(array)], Some(view)))
}

fn explain(config: &Config, error: JoinError) -> anyhow::Error {
    let advice = match &error {
        JoinError::NoLabel { .. } => return explain_unopened(config, anyhow!("{error} ({DOCUMENT})")),
        JoinError::Foreign { .. } => {
            "correct the targets in the configuration (`forebay inspect PATH` shows what a device is)"
        }
        JoinError::Copy { .. } => "detach the copy; nothing was changed",
        JoinError::Split { .. } => {
            "leave out of the configuration the one that was away from the others, which is rebuilt when it is given back; nothing was changed"
        }
        JoinError::Apart(_) => APART,
        JoinError::Unproven(_) => ATTACH_OR_ACCEPT,
        JoinError::Unread { .. } => "repair the path to it, and start again; nothing was changed",
        JoinError::TooFew { lacking: Some((name, blocks)), .. } => {
            return anyhow!(
                "{error}; attach the missing devices or correct their targets; nothing was changed. Where they are lost for ever, \
                 `forebay serve --accept-loss CONFIG` goes on with {name}, which was being rebuilt and lacks {} of 4 KiB, \
                 which are lost then: a scrub lists what hosts had there ({DOCUMENT})",
                crate::text::count(u64::from(*blocks), "block")
            );
        }
        JoinError::TooFew { .. } => "attach the missing devices or correct their targets; nothing was changed",
        JoinError::Redundancy { .. } => "correct pool.redundancy, which cannot be changed after `create`",
    };
    anyhow!("{error}; {advice} ({DOCUMENT})")
}

/// Shape of a new parity array, and its geometry as one device; `None` where no parity is configured.
///
/// # Errors
/// Devices of these sizes cannot form the array.
pub fn plan(config: &Config, members: &[Geometry], fast_bytes: u64) -> Result<Option<(Shape, Geometry)>> {
    let Some(redundancy) = config.pool.redundancy else { return Ok(None) };
    let planned = plan_shape(members, redundancy.0, config.band_bytes(), fast_bytes);
    Ok(Some(planned.context("the capacity tier cannot be laid out on these devices, and nothing of it was written")?))
}

/// Replaces the devices behind the first `fast` ones by a new parity array of them.
pub fn make(devices: Devices, fast: usize, (shape, pool): (Shape, Id), ids: &[Id]) -> Devices {
    let mut devices = devices;
    let members = devices.list.split_off(fast);
    let (array, view) = parity::new_array(members, shape, pool, ids);
    devices.list.push(Box::new(array));
    devices.with_array(view)
}

/// Examines configured devices that are not working members of the array, as [`fast::look`] does.
pub fn look(config: &Config, view: &ArrayView) -> Offers {
    let targets = config.capacity.iter().map(|device| &device.target.0);
    let pool = view.members().pool();
    fast::look_at(config, targets, (view.members(), "the capacity tier"), |devices| parity::former(devices, pool))
}

/// State of the array, as JSON for the status.
pub fn json(view: &ArrayView) -> Value {
    let mut value = fast::json(view.members());
    let shape = view.shape();
    value["rows_in_doubt"] = json!(view.rows_in_doubt());
    value["rebuild_waits_for"] = json!(view.rebuild_waits_for());
    value["settling"] = json!(view.is_settling());
    value["redundancy"] = json!(format!("{}+{}", shape.data, shape.parity));
    value
}
