//! The capacity tier of a configuration: devices each by itself, or several with parity as one.

use super::devices::{CapacityTier, open_target, refuse_one_file_twice};
use super::fast::{self, DOCUMENT, candidate, new_ids};
use super::missing::explain_unopened;
use crate::config::Config;
use anyhow::{Context, Result, anyhow, ensure};
use forebay_block::{Device, Geometry};
use forebay_device::OpenMode;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::parity::{self, ArrayView, JoinError, Joined, Shape, plan_shape};
use serde_json::{Value, json};
use tracing::warn;

/// Whether they are configured as one with parity, or the first of them is a member of such.
fn is_array(config: &Config) -> bool {
    if config.pool.redundancy.is_some() {
        return true;
    }
    config.capacity.iter().any(|device| {
        let opened =
            open_target(&device.target.0, OpenMode::ReadOnly).ok().filter(|_| device.target.0.bucket().is_none());
        opened.is_some_and(|device| parity::read_label(&mut Devices::new(vec![device]), 0).is_some())
    })
}

/// Opens the tier. Of one with parity as many devices may be missing as there is parity for.
///
/// # Errors
/// Why it cannot be used, and what to do.
pub fn open(config: &Config, mode: OpenMode) -> Result<CapacityTier> {
    if is_array(config) {
        return join(config, mode);
    }
    let list: Result<Vec<_>> = config.capacity.iter().map(|device| open_target(&device.target.0, mode)).collect();
    Ok((list?, None))
}

/// The same for reading what is left: devices that cannot be opened are left out.
///
/// # Errors
/// Too few are there of a tier with parity.
pub fn open_what_is_there(
    config: &Config,
    mut open: impl FnMut(&forebay_device::Target) -> Option<Box<dyn Device>>,
) -> Result<CapacityTier> {
    if is_array(config) {
        return join(config, OpenMode::ReadOnly);
    }
    Ok((config.capacity.iter().filter_map(|device| open(&device.target.0)).collect(), None))
}

fn join(config: &Config, mode: OpenMode) -> Result<CapacityTier> {
    let candidates = config.capacity.iter().map(|device| candidate(&device.target.0, mode)).collect();
    let configured = config.pool.redundancy.map(|redundancy| redundancy.0);
    let mut ids = new_ids();
    let new_id: Option<&mut dyn FnMut() -> Id> = if mode == OpenMode::ReadWrite { Some(&mut ids) } else { None };
    let Joined { array, view, left_out } =
        parity::join(candidates, configured, new_id).map_err(|error| explain(config, error))?;
    for (name, why) in left_out {
        warn!(
            cause = "parity member left out",
            advice = "The pool is served by the other members. Replace the device, or clear it to have it rebuilt (docs/parity.md)",
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
        JoinError::TooFew { .. } => "attach the missing devices or correct their targets; nothing was changed",
        JoinError::Redundancy { .. } => "correct pool.redundancy, which cannot be changed after `create`",
    };
    anyhow!("{error}; {advice} ({DOCUMENT})")
}

/// The shape of a new tier with parity, and what it is like as one device; none where none is configured.
///
/// # Errors
/// Why devices like these cannot be one.
pub fn plan(config: &Config, members: &[Geometry], fast_bytes: u64) -> Result<Option<(Shape, Geometry)>> {
    let Some(redundancy) = config.pool.redundancy else { return Ok(None) };
    let planned = plan_shape(members, redundancy.0, config.band_bytes(), fast_bytes);
    Ok(Some(planned.context("the capacity tier cannot be laid out on these devices")?))
}

/// Makes one device with parity of those behind the first.
pub fn make(devices: Devices, fast: usize, (shape, pool): (Shape, Id), ids: &[Id]) -> Devices {
    let mut devices = devices;
    let members = devices.list.split_off(fast);
    let (array, view) = parity::new_array(members, shape, pool, ids);
    devices.list.push(Box::new(array));
    devices.with_array(view)
}

/// Gives devices that are configured, and are no members that work, to the tier. What was done, and what was refused.
pub fn offer(config: &Config, view: &ArrayView) -> (Vec<String>, Vec<String>) {
    if let Err(why) = refuse_one_file_twice(config) {
        return (Vec::new(), vec![why.to_string()]);
    }
    let targets = config.capacity.iter().map(|device| &device.target.0);
    fast::offer_to(targets, view.members(), "the capacity tier", |devices| {
        let label = parity::read_label(devices, 0).filter(|label| label.pool == view.members().pool());
        label.and_then(|label| label.ids.get(usize::from(label.member)).copied())
    })
}

/// The tier, for programs.
pub fn json(view: &ArrayView) -> Value {
    let mut value = fast::json(view.members());
    let shape = view.shape();
    value["redundancy"] = json!(format!("{}+{}", shape.data, shape.parity));
    value
}

/// Whether a configuration can be one with parity.
///
/// # Errors
/// Why not.
pub fn check(config: &Config) -> Result<()> {
    let Some(redundancy) = config.pool.redundancy.map(|redundancy| redundancy.0) else { return Ok(()) };
    let (needed, given) = (redundancy.data + redundancy.parity, config.capacity.len());
    ensure!(
        needed == given,
        "pool.redundancy {redundancy} takes {needed} [[capacity]] sections, and there are {given}"
    );
    if let Some(device) = config.capacity.iter().find(|device| device.target.0.bucket().is_some()) {
        anyhow::bail!(
            "{}: a bucket keeps its own copies, and is no member of a capacity tier with parity",
            device.target.0
        );
    }
    if let Some(band) = config.band_bytes() {
        let row = redundancy.data as u64 * 4096;
        ensure!(
            band.is_multiple_of(row),
            "capacity.band is {band} bytes: with redundancy {redundancy} it is over all devices, and a multiple of {row}"
        );
    }
    Ok(())
}
