//! Opens the devices of a pool.

use crate::config::Config;
use anyhow::{Result, anyhow, bail};
use forebay_block::Device;
use forebay_device::bucket::{self, BucketError};
use forebay_device::{OpenError, OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::parity::ArrayView;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Opens all targets: fast devices first, then capacity devices.
///
/// # Errors
/// A target cannot be opened; the message names it and says why, and what to do.
pub fn open_devices(config: &Config, mode: OpenMode) -> Result<Devices> {
    refuse_one_file_twice(config)?;
    let mut list = Vec::new();
    for target in config.targets() {
        list.push(open_target(target, mode)?);
    }
    Ok(Devices::new(list))
}

/// Creates the devices of a new pool in those targets that are buckets. The buckets must be empty.
///
/// # Errors
/// Something lies in the bucket already, or the device cannot be created.
pub fn make_in_buckets(config: &Config) -> Result<()> {
    for uri in config.targets().filter_map(Target::bucket) {
        bucket::create(uri).map_err(|error| anyhow!("target {uri}: {error}"))?;
    }
    Ok(())
}

/// Deletes the former contents of devices in buckets. A new pool would overwrite them only little by little.
///
/// # Errors
/// An object cannot be deleted.
pub fn clear_buckets(config: &Config) -> Result<()> {
    for uri in config.targets().filter_map(Target::bucket) {
        bucket::clear(uri).map_err(|error| anyhow!("target {uri}: {error}"))?;
    }
    Ok(())
}

/// Refuses to open a bucket while its pool is served, because opening it to write would fence the running server off.
/// A served pool is recognised by its fast devices, which only one process can hold.
///
/// # Errors
/// A device is in use; the message names it.
pub fn refuse_while_served(config: &Config) -> Result<()> {
    if config.targets().all(|target| target.bucket().is_none()) {
        return Ok(());
    }
    for fast in &config.fast {
        match open_target(&fast.target.0, OpenMode::ReadOnly) {
            Err(error) if is_in_use(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_in_use(error: &anyhow::Error) -> bool {
    let open_error = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    matches!(open_error, Some(OpenError::InUse { .. }))
}

/// Refuses a configuration in which two targets or bases are the same file, by links or by two nodes of one device. A
/// pool would overwrite itself.
///
/// # Errors
/// The two names.
pub fn refuse_one_file_twice(config: &Config) -> Result<()> {
    let mut seen: Vec<(&Target, (bool, u64, u64))> = Vec::new();
    let bases = config.disk.iter().filter_map(|disk| Some(&disk.base.as_ref()?.0));
    for target in config.targets().chain(bases) {
        // A target without metadata is reported when it is opened.
        let Some(metadata) = target.path().and_then(|path| path.metadata().ok()) else { continue };
        let identity = match metadata.file_type().is_block_device() {
            true => (true, metadata.rdev(), 0),
            false => (false, metadata.dev(), metadata.ino()),
        };
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == identity) {
            bail!(
                "targets {other} and {target} are one and the same device: a pool needs a device of its own for each member, and for each base of a disk"
            );
        }
        seen.push((target, identity));
    }
    Ok(())
}

/// Opens one target.
///
/// # Errors
/// The reason, and what to do.
pub fn open_target(target: &Target, mode: OpenMode) -> Result<Box<dyn forebay_block::Device>> {
    forebay_device::open(target, mode).map_err(|error| {
        let advice = match &error {
            OpenError::Open { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "; give this user the right to read and write it"
            }
            _ => "",
        };
        let error = anyhow::Error::new(error);
        let text = format!("target {target}: {error}{advice}");
        error.context(text)
    })
}

/// Whether the configured path of a device does not lead to a device.
#[must_use]
pub fn is_missing(target: &Target) -> bool {
    target.path().is_some() && open_target(target, OpenMode::ReadOnly).is_err_and(|error| is_lost(&error))
}

/// Whether opening failed because the path does not exist.
pub fn is_absent(error: &anyhow::Error) -> bool {
    let open_error = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    matches!(open_error, Some(OpenError::Open { source, .. }) if source.kind() == ErrorKind::NotFound)
}

/// Whether opening failed because a device that existed once is gone.
pub fn is_lost(error: &anyhow::Error) -> bool {
    let open_error = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    // ENXIO and ENODEV come from the node of a device that was removed. An empty file is what `truncate` or a
    // mistyped path leaves.
    let is_gone = |source: &std::io::Error| {
        let errno = rustix::io::Errno::from_io_error(source);
        source.kind() == ErrorKind::NotFound
            || matches!(errno, Some(rustix::io::Errno::NXIO | rustix::io::Errno::NODEV))
    };
    match open_error {
        Some(OpenError::Open { source, .. } | OpenError::Probe { source, .. }) => is_gone(source),
        Some(
            OpenError::TooSmall { .. }
            | OpenError::NoStore { .. }
            | OpenError::Bucket { source: BucketError::Absent, .. },
        ) => true,
        _ => false,
    }
}

/// The devices of a capacity tier, with a handle of the parity array where they form one.
pub type CapacityTier = (Vec<Box<dyn Device>>, Option<ArrayView>);

/// Attaches the handle of the parity array, where there is one, to the pool's devices.
pub fn with_array(devices: Devices, array: Option<ArrayView>) -> Devices {
    match array {
        Some(array) => devices.with_array(array),
        None => devices,
    }
}
