//! The fast tier of a configuration: one device, or a mirror of several.

use super::devices::open_target;
use super::missing::explain_unopened;
use crate::config::Config;
use crate::contents;
use anyhow::{Result, anyhow};
use forebay_block::Device;
use forebay_device::{OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::mirror::{self, Candidate, JoinError, Joined};
use tracing::warn;

/// Where to read more.
pub const DOCUMENT: &str = "docs/when-a-device-fails.md";

/// A device as a candidate for the mirror.
pub fn candidate(target: &Target, mode: OpenMode) -> Candidate {
    let name = target.to_string();
    let (device, contents) = match open_target(target, mode) {
        // What is not known what it is will not be written over.
        Ok(mut device) => match contents::anything(device.as_mut(), target.path()) {
            Ok(found) => (Ok(device), found),
            Err(error) => (Err(error.to_string()), Vec::new()),
        },
        Err(error) => (Err(format!("{error:#}")), Vec::new()),
    };
    Candidate { name, device, contents }
}

/// Whether the only fast device is a member of a mirror.
pub fn carries_label(devices: &mut Devices) -> bool {
    mirror::read_label(devices, 0).is_some()
}

/// Opens the fast tier as a mirror, beside these capacity devices. In `mode` for reading only nothing is changed.
///
/// # Errors
/// Why it cannot be used, and what to do.
pub fn join(config: &Config, capacity: Vec<Box<dyn Device>>, mode: OpenMode) -> Result<Devices> {
    let candidates = config.fast.iter().map(|fast| candidate(&fast.target.0, mode)).collect();
    let mut capacity = Devices::new(capacity);
    let mut failed = None;
    let mut new_id = || {
        let mut id = Id::default();
        if let Err(error) = getrandom::fill(&mut id) {
            failed = Some(error);
        }
        id
    };
    let is_writable = mode == OpenMode::ReadWrite;
    let joined = mirror::join(candidates, &mut capacity, is_writable.then_some(&mut new_id))
        .map_err(|error| explain(config, error))?;
    if let Some(error) = failed {
        return Err(anyhow::Error::new(error).context("the system gives no random numbers"));
    }
    let Joined { mirror, view, left_out } = joined;
    for (name, why) in left_out {
        warn!(
            cause = "mirror member left out",
            advice = "The pool is served by the other members. Replace the device, or clear it to have it rebuilt (docs/when-a-device-fails.md)",
            "{name} is no member of the fast tier's mirror: {why}"
        );
    }
    Ok(Devices::mirrored(in_front(Box::new(mirror), capacity.list), view))
}

/// Makes a new mirror of the first devices.
pub fn make(devices: &mut Devices, members: usize, pool: Id, ids: &[Id]) {
    let capacity = devices.list.split_off(members);
    let (mirror, view) = mirror::new_mirror(std::mem::take(&mut devices.list), pool, ids);
    *devices = Devices::mirrored(in_front(Box::new(mirror), capacity), view);
}

fn in_front(fast: Box<dyn Device>, capacity: Vec<Box<dyn Device>>) -> Vec<Box<dyn Device>> {
    std::iter::once(fast).chain(capacity).collect()
}

fn explain(config: &Config, error: JoinError) -> anyhow::Error {
    let advice = match &error {
        // What the other devices say decides: nothing may lead to formatting over what is left.
        JoinError::NoLabel { .. } => return explain_unopened(config, anyhow!("{error} ({DOCUMENT})")),
        JoinError::Foreign { .. } => {
            "correct the targets in the configuration (`forebay inspect PATH` shows what a device is)"
        }
        JoinError::Stale { .. } => {
            "attach the missing device or correct its target. Where it is lost for ever, `forebay serve --without-fast CONFIG` \
             reads what the capacity tier holds"
        }
        JoinError::Split { .. } => "nothing was changed",
        JoinError::Copy { .. } => "detach the copy; nothing was changed",
    };
    anyhow!("{error}; {advice} ({DOCUMENT})")
}
