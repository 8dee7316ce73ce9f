//! Opening the devices of a pool.

use crate::config::Config;
use anyhow::{Result, anyhow, bail};
use forebay_block::Device;
use forebay_device::bucket::{self, BucketError};
use forebay_device::{OpenError, OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::parity::ArrayView;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Opens all targets, fast ones first.
///
/// # Errors
/// Which target, why, and what to do.
pub fn open_devices(config: &Config, mode: OpenMode) -> Result<Devices> {
    refuse_one_file_twice(config)?;
    let mut list = Vec::new();
    for target in config.targets() {
        list.push(open_target(target, mode)?);
    }
    Ok(Devices::new(list))
}

/// Makes devices in buckets that hold none yet, for a new pool.
///
/// # Errors
/// What lies there instead, or why it cannot be made.
pub fn make_in_buckets(config: &Config) -> Result<()> {
    for uri in config.targets().filter_map(Target::bucket) {
        bucket::create(uri).map_err(|error| anyhow!("target {uri}: {error}"))?;
    }
    Ok(())
}

/// Deletes what devices in buckets hold, which a new pool would write over only in time.
///
/// # Errors
/// Why it cannot be deleted.
pub fn clear_buckets(config: &Config) -> Result<()> {
    for uri in config.targets().filter_map(Target::bucket) {
        bucket::clear(uri).map_err(|error| anyhow!("target {uri}: {error}"))?;
    }
    Ok(())
}

/// Opening a bucket takes it from whoever serves it; a pool that is being served is known by its fast devices, which are for one to hold.
///
/// # Errors
/// Which device is in use.
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

/// Two names may lead to one file: links, or two nodes of one device. A pool over it twice would overwrite itself.
///
/// # Errors
/// Which two.
pub fn refuse_one_file_twice(config: &Config) -> Result<()> {
    let mut seen: Vec<(&Target, (bool, u64, u64))> = Vec::new();
    let bases = config.disk.iter().filter_map(|disk| Some(&disk.base.as_ref()?.0));
    for target in config.targets().chain(bases) {
        // What cannot be looked at is reported when it is opened.
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
/// Why, and what to do.
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

/// Whether there is no device where one is configured.
#[must_use]
pub fn is_missing(target: &Target) -> bool {
    target.path().is_some() && open_target(target, OpenMode::ReadOnly).is_err_and(|error| is_lost(&error))
}

/// Whether opening failed because there is nothing of that name.
pub fn is_absent(error: &anyhow::Error) -> bool {
    let open_error = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    matches!(open_error, Some(OpenError::Open { source, .. }) if source.kind() == ErrorKind::NotFound)
}

/// Whether opening failed because the device that was there once is not there any more.
pub fn is_lost(error: &anyhow::Error) -> bool {
    let open_error = error.chain().find_map(|cause| cause.downcast_ref::<OpenError>());
    // ENXIO, ENODEV: the node of a device that went; a file of no length is what `truncate` or a typing error leaves.
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

/// The devices of a capacity tier, and a handle where they are one with parity.
pub type CapacityTier = (Vec<Box<dyn Device>>, Option<ArrayView>);

/// Devices, of which the capacity device is one with parity where there is a handle of it.
pub fn with_array(devices: Devices, array: Option<ArrayView>) -> Devices {
    match array {
        Some(array) => devices.with_array(array),
        None => devices,
    }
}
