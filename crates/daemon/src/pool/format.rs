//! Formatting the pool of a configuration.

use super::ids::Ids;
use super::{Budget, backing, base};
use crate::config::{Config, Disk};
use anyhow::{Context, Result, anyhow};
use forebay_block::Geometry;
use forebay_device::rewrites_larger_sectors;
use forebay_prism::ClassTable;
use forebay_volume::layout::Id;
use forebay_volume::layout::plan::{PoolOptions, plan};
use forebay_volume::layout::superblock::Superblock;
use forebay_volume::mirror::{clear_labels, new_geometry};
use forebay_volume::recovery::{self, FormatError, format::NewDisk};
use forebay_volume::{Devices, EngineOptions};

/// Context of errors before anything was written.
const NOT_LAID_OUT: &str = "the pool cannot be laid out on these devices, and nothing of it was written";

fn new_disk(disk: &Disk) -> Result<NewDisk> {
    let (name, size_bytes) = (disk.name.clone(), disk.size.0);
    let base = disk.base.as_ref().map(|target| base::open(&name, size_bytes, &target.0)).transpose()?;
    Ok(NewDisk { name, size_bytes, base: base.map(|(_, base)| base) })
}

/// Lays out the pool and writes it. All former contents of the devices are lost.
///
/// # Errors
/// The layout does not fit, or a device failed.
pub fn format(config: &Config, devices: &mut Devices, ids: &mut Ids<'_>) -> Result<Superblock> {
    let (members, is_mirrored) = (config.fast.len(), config.fast.len() > 1);
    let pool_id = ids.draw()?;
    let device_ids: Vec<Id> = devices.list.iter().map(|_| ids.draw()).collect::<Result<_>>()?;
    let options = PoolOptions {
        name: config.pool.name.clone(),
        band_bytes: config.band_bytes(),
        journal_bytes: None,
        is_mirrored,
        bands_offset_bytes: None,
    };
    let geometries: Vec<_> = devices.list.iter().map(|device| device.geometry().clone()).collect();
    let (fast, capacity) = geometries.split_at_checked(members).context("the configuration names no device")?;
    let fast = match fast {
        [fast] => fast.clone(),
        several => new_geometry(several),
    };
    // A drive that rewrites 4 KiB for a smaller write could tear a neighbouring batch of the journal. With 4 KiB
    // blocks no two batches share such a sector.
    let mut paths = config.fast.iter().filter_map(|member| member.target.0.path());
    let least_bytes = if paths.any(rewrites_larger_sectors) { 4096 } else { 512 };
    let fast = Geometry { logical_block_bytes: fast.logical_block_bytes.max(least_bytes), ..fast };
    let (member_ids, capacity_ids) = device_ids.split_at(members);
    let array = super::capacity::plan(config, capacity, fast.size_bytes)?;
    let (options, capacity) = match &array {
        Some((shape, geometry)) => {
            let band_bytes = Some(shape.band_bytes);
            let bands_offset_bytes = Some(shape.head_bytes);
            (PoolOptions { band_bytes, bands_offset_bytes, ..options }, std::slice::from_ref(geometry))
        }
        None => (options, capacity),
    };
    // A mirror or an array has the id of its first member.
    let ids: Vec<Id> = member_ids.iter().take(1).chain(&capacity_ids[..capacity.len()]).copied().collect();
    let superblock = plan(&options, &fast, capacity, pool_id, &ids).context(NOT_LAID_OUT)?;
    backing::allocate_journal(config, superblock.members[0].data_offset_bytes).context(NOT_LAID_OUT)?;
    let classes = ClassTable::from_configured(&config.class_specs())?;
    let disks: Vec<NewDisk> = config.disk.iter().map(new_disk).collect::<Result<_>>()?;
    let overcommit = config.pool.overcommit;
    let engine = EngineOptions { overcommit, ..Budget::of(config.memory.limit.0).engine() };
    // Labels of a former pool could have a higher generation than the new ones.
    clear_labels(devices).map_err(|(at, error)| anyhow!("{}: {error}", devices.list[at].name()))?;
    if let Some((shape, _)) = array {
        let all = std::mem::replace(devices, Devices::new(Vec::new()));
        *devices = super::capacity::make(all, members, (shape, pool_id), capacity_ids);
    }
    if is_mirrored {
        super::fast::make(devices, members, pool_id, member_ids);
    }
    recovery::format(devices, &superblock, classes, &disks, engine)
        .map_err(|error| match &error {
            FormatError::Disk { name, source } => anyhow!("disk {name:?}: {}", Budget::explain(source)),
            _ => error.into(),
        })
        .context("the pool cannot be formatted")?;
    Ok(superblock)
}
