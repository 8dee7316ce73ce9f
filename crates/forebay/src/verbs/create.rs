//! `forebay create CONFIG`.

use crate::config;
use crate::output::{self, Format};
use crate::pool;
use anyhow::{Result, bail};
use forebay_device::OpenMode;
use forebay_volume::layout::format_id;
use serde_json::json;
use std::path::Path;

/// Formats the pool, unless anything lies on its devices.
///
/// # Errors
/// What was found, or what could not be done.
pub fn run(file: &Path, destroy_data: bool, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    if let Some(target) = config.targets().find(|target| !target.is_persistent()) {
        bail!(
            "target {target} is memory and is gone when this command ends: run `forebay serve {}` at once, it formats such \
             a pool when it starts",
            file.display()
        );
    }
    let mut devices = pool::open_devices(&config, OpenMode::ReadWrite)?;
    let found = pool::signatures(&mut devices)?;
    if !found.is_empty() {
        let lines: Vec<String> = found
            .iter()
            .map(|(name, signatures)| {
                let list: Vec<String> = signatures.iter().map(ToString::to_string).collect();
                format!("{name} holds {}", list.join(", "))
            })
            .collect();
        let list = lines.join("\n  ");
        if !destroy_data {
            bail!(
                "there is data on the devices, and nothing was written:\n  {list}\nIf it is to be lost for ever, wipe it \
                 (wipefs -a PATH) or repeat with --destroy-data"
            );
        }
        eprintln!("forebay: formatting over what was found, as asked:\n  {list}");
    }
    let superblock = pool::format(&config, &mut devices, &mut pool::Ids::Random)?;
    let id = format_id(&superblock.pool);
    match format {
        Format::Json => output::json(json!({
            "pool": { "name": superblock.name, "id": id, "band_bytes": superblock.band_bytes },
            "disks": config.disk.iter().map(|disk| json!({ "name": disk.name, "size_bytes": disk.size.0 })).collect::<Vec<_>>(),
        })),
        Format::Table => output::line(&format!(
            "created pool {:?} ({id}): {} devices, bands of {}, {} disks; serve it with `forebay serve {}`",
            superblock.name,
            superblock.members.len(),
            output::size(superblock.band_bytes),
            config.disk.len(),
            file.display()
        )),
    }
}
