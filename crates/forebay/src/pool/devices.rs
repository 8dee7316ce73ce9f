//! Opening the devices of a pool, and what already lies on them.

use crate::config::Config;
use anyhow::{Context, Result};
use forebay_device::{OpenError, OpenMode, Signature, Target, detect};
use forebay_volume::Devices;

/// Opens all targets, fast ones first.
///
/// # Errors
/// Which target, why, and what to do.
pub fn open_devices(config: &Config, mode: OpenMode) -> Result<Devices> {
    let mut list = Vec::new();
    for target in config.targets() {
        list.push(open_target(target, mode)?);
    }
    Ok(Devices::new(list))
}

/// Opens one target.
///
/// # Errors
/// Why, and what to do.
pub fn open_target(target: &Target, mode: OpenMode) -> Result<Box<dyn forebay_block::Device>> {
    forebay_device::open(target, mode).map_err(|error| {
        let advice = match &error {
            OpenError::Open { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                format!(
                    "; for a pool over files make it first: truncate -s 1G {}. Where a device of a pool is lost, `forebay serve` reads \
                     what is left: with --without-fast, or for a capacity device with --degraded",
                    path.display()
                )
            }
            OpenError::Open { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                "; give this user the right to read and write it".to_owned()
            }
            _ => String::new(),
        };
        anyhow::anyhow!("target {target}: {error}{advice}")
    })
}

/// What lies on each device: its name and what was found.
///
/// # Errors
/// A device that cannot be read.
pub fn signatures(devices: &mut Devices) -> Result<Vec<(String, Vec<Signature>)>> {
    let mut found = Vec::new();
    for device in &mut devices.list {
        let name = device.name().to_owned();
        let signatures = detect(device.as_mut()).with_context(|| format!("cannot look at {name}"))?;
        if !signatures.is_empty() {
            found.push((name, signatures));
        }
    }
    Ok(found)
}
