//! Formatting a new pool.

use super::members::write_superblock;
use crate::engine::{AdminError, EngineOptions, Parts};
use crate::io::Devices;
use crate::layout::base::Base;
use crate::layout::root::Root;
use crate::layout::superblock::Superblock;
use crate::pool::drive;
use crate::space::extents::device_bits;
use forebay_block::IoError;
use forebay_prism::{ClassTable, Prism};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a pool could not be formatted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FormatError {
    /// A device failed.
    #[error("device {device}: {source}")]
    Io {
        /// The device.
        device: String,
        /// The failure.
        source: IoError,
    },
    /// A disk cannot be made.
    #[error("disk {name:?}: {source}")]
    Disk {
        /// The disk.
        name: String,
        /// Why.
        source: AdminError,
    },
    /// The first checkpoint failed.
    #[error("the first checkpoint could not be written: {0}")]
    Checkpoint(String),
}

/// A disk to be made.
#[derive(Clone, Debug)]
pub struct NewDisk {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// What it lies over.
    pub base: Option<Base>,
}

/// Writes an empty pool laid out by `superblock`. The superblocks come last: until then nothing recognises the devices
/// as a pool.
///
/// # Errors
/// See [`FormatError`]. Checks that do not need a write come first.
pub fn format(
    devices: &mut Devices,
    superblock: &Superblock,
    classes: ClassTable,
    disks: &[NewDisk],
    options: EngineOptions,
) -> Result<(), FormatError> {
    devices.begin_members();
    let mut engine = Parts {
        superblock: superblock.clone(),
        names: devices.list.iter().map(|device| device.name().to_owned()).collect(),
        volatile: device_bits(devices.list.len()),
        copies: devices.copies(),
        variants: devices.variants(),
        flushed_behind: 0,
        unit_grains: devices.unit_grains(),
        discards: 0,
        options,
        root: Root { next_disk: 1, ..Root::default() },
        disks: BTreeMap::new(),
        prism: Prism::new(classes),
        leaves: 0,
        epoch: superblock.epoch,
        checkpoint: 0,
        journal_head: (0, 1, 1),
    }
    .build();
    for disk in disks {
        let added = engine.add_disk(&disk.name, disk.size_bytes);
        let made = added.and_then(|id| disk.base.map_or(Ok(()), |base| engine.lay_over(id, base)));
        made.map_err(|source| FormatError::Disk { name: disk.name.clone(), source })?;
    }
    engine.request_checkpoint(true);
    drive(&mut engine, devices, |engine| !engine.checkpoint_pending() || engine.checkpoint_failed());
    if engine.checkpoint_number() == 0 {
        let reason = engine.status().counters.last_checkpoint_error;
        return Err(FormatError::Checkpoint(reason.unwrap_or_else(|| "a device flush failed".to_owned())));
    }
    for device in (0..devices.list.len()).rev() {
        let superblock = Superblock { index: device as u16, serving: true, ..superblock.clone() };
        let name = devices.list[device].name().to_owned();
        write_superblock(devices, device, &superblock).map_err(|source| FormatError::Io { device: name, source })?;
    }
    Ok(())
}
