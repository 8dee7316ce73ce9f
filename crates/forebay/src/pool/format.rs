//! Formatting the pool of a configuration.

use super::Budget;
use crate::config::Config;
use anyhow::{Context, Result};
use forebay_prism::ClassTable;
use forebay_volume::Devices;
use forebay_volume::layout::Id;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::recovery::{self, format::NewDisk};

fn random_id() -> Result<Id> {
    let mut id = Id::default();
    getrandom::fill(&mut id).context("the system gives no random numbers")?;
    Ok(id)
}

/// Lays the pool out and writes it. Whatever was on the devices is lost.
///
/// # Errors
/// What does not fit, or which device failed.
pub fn format(config: &Config, devices: &mut Devices) -> Result<Superblock> {
    let geometries: Vec<_> = devices.list.iter().map(|device| device.geometry().clone()).collect();
    let ids: Vec<Id> = geometries.iter().map(|_| random_id()).collect::<Result<_>>()?;
    let options = PoolOptions { name: config.pool.name.clone(), band_bytes: config.band_bytes(), journal_bytes: None };
    let (fast, capacity) = geometries.split_first().context("the configuration names no device")?;
    let superblock =
        plan(&options, fast, capacity, random_id()?, &ids).context("the pool cannot be laid out on these devices")?;
    let classes = ClassTable::from_configured(&config.class_specs())?;
    let disks: Vec<NewDisk> =
        config.disk.iter().map(|disk| NewDisk { name: disk.name.clone(), size_bytes: disk.size.0 }).collect();
    let engine = Budget::of(config.memory.limit.0).engine();
    recovery::format(devices, &superblock, classes, &disks, config.pool.overcommit, engine)
        .context("the pool cannot be formatted")?;
    Ok(superblock)
}
