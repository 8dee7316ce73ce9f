//! `forebay create CONFIG`.

use crate::output::{self, Format};
use anyhow::{Result, anyhow, bail};
use forebay_daemon::config::{self, Config};
use forebay_daemon::contents;
use forebay_daemon::pool;
use forebay_device::{OpenMode, Target};
use forebay_volume::Devices;
use forebay_volume::layout::format_id;
use forebay_volume::recovery::read_superblock;
use serde_json::json;
use std::path::Path;

/// Formats the pool, unless a device holds data.
///
/// # Errors
/// The data found, or what failed.
pub fn run(file: &Path, destroy_data: bool, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    if let Some(target) = config.targets().find(|target| !target.is_persistent()) {
        bail!(
            "target {target} is memory and is gone when this command ends: run `forebay serve {}` at once, it formats such \
             a pool when it starts",
            file.display()
        );
    }
    // A served pool is recognised by its fast devices before its bucket is opened, which would take the bucket from the server.
    pool::refuse_while_served(&config)?;
    pool::make_in_buckets(&config)?;
    let open = |mode| {
        pool::open_devices(&config, mode).map_err(|error| match pool::is_absent(&error) {
            true => anyhow!("{error}; for a pool over files make it first: truncate -s 1G PATH"),
            false => error,
        })
    };
    let has_buckets = config.targets().any(|target| target.bucket().is_some());
    if has_buckets && !destroy_data {
        // A bucket in use by another pool's server can be recognised only by its contents, and opening it for writing would take it away:
        // so it is opened read-only first.
        refuse_loss(&what_would_be_lost(&config, &mut open(OpenMode::ReadOnly)?)?)?;
    }
    let mut devices = open(OpenMode::ReadWrite)?;
    let found = what_would_be_lost(&config, &mut devices)?;
    if !destroy_data {
        refuse_loss(&found)?;
    }
    if !found.is_empty() {
        output::complain(format!("formatting over what was found, as asked:\n  {}", found.join("\n  ")));
        if has_buckets {
            drop(devices);
            pool::clear_buckets(&config)?;
            devices = pool::open_devices(&config, OpenMode::ReadWrite)?;
        }
    }
    for note in pool::backing_notes(&config) {
        output::complain(format!("note: {note}"));
    }
    let superblock = pool::format(&config, &mut devices, &mut pool::Ids::Random)?;
    let id = format_id(&superblock.pool);
    match format {
        Format::Json => output::json(json!({
            "pool": { "name": superblock.name, "id": id, "band_bytes": superblock.band_bytes },
            "disks": config.disk.iter().map(|disk| json!({ "name": disk.name, "size_bytes": disk.size.0 })).collect::<Vec<_>>(),
        })),
        Format::Table => output::text(&format!(
            "created pool {:?} ({id}): {}, bands of {}, {}; serve it with `forebay serve {}`",
            superblock.name,
            output::count((config.fast.len() + config.capacity.len()) as u64, "device"),
            output::size(superblock.band_bytes),
            output::count(config.disk.len() as u64, "disk"),
            file.display()
        )),
    }
}

fn refuse_loss(found: &[String]) -> Result<()> {
    if !found.is_empty() {
        bail!(
            "there is data on the devices, and nothing was written:\n  {}\nIf all of it is to be lost for ever, repeat with \
             --destroy-data",
            found.join("\n  ")
        );
    }
    Ok(())
}

/// A sentence for each device that holds data: a pool, a known signature, or unknown content.
fn what_would_be_lost(config: &Config, devices: &mut Devices) -> Result<Vec<String>> {
    let mut lost = Vec::new();
    let mut blank = Vec::new();
    let mut has_pool = false;
    let paths: Vec<_> = config.targets().map(Target::path).collect();
    for at in 0..devices.list.len() {
        let name = devices.list[at].name().to_owned();
        let look = |error| anyhow::Error::new(error).context(format!("cannot look at {name}"));
        if let Ok((superblock, _)) = read_superblock(devices, at) {
            has_pool = true;
            lost.push(format!(
                "{name} holds the {} device of Forebay pool {:?} ({})",
                superblock.member().role.name(),
                superblock.name,
                format_id(&superblock.pool)
            ));
            continue;
        }
        match contents::anything(devices.list[at].as_mut(), paths.get(at).copied().flatten()).map_err(look)? {
            found if found.is_empty() => blank.push(name),
            found => lost.push(format!("{name} holds {}", found.join(", "))),
        }
    }
    if has_pool && !blank.is_empty() {
        lost.push(format!(
            "{} blank: if the pool has lost a device, formatting does not mend it but loses the rest (docs/when-a-device-fails.md)",
            blank.join(" and ") + if blank.len() == 1 { " is" } else { " are" }
        ));
    }
    Ok(lost)
}
