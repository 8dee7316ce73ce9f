//! Translates the configuration for the server: exports, sources of evidence, and disks that differ from the pool's.

use crate::config::{self, Config};
use crate::evidence::Wanted;
use anyhow::{Result, bail};
use forebay_export::{Export, Exports};
use forebay_volume::Engine;
use tracing::warn;

/// A configured source of evidence.
pub fn wanted(config: &Config, part: &config::Evidence) -> Wanted {
    Wanted {
        disk: config.evidence_disk(part).to_owned(),
        device: part.device.clone(),
        mount: part.mount.clone(),
        hints: part.hints,
        files: part.files,
    }
}

/// A configured export.
///
/// # Errors
/// The pool has no such disk.
pub fn new_export(config: &Config, export: &config::Export, engine: &Engine) -> Result<Export> {
    let disk_name = config.export_disk(export);
    let Some(disk) = engine.disk_named(disk_name) else {
        let known: Vec<&str> = engine.disks().map(|disk| disk.name.as_str()).collect();
        bail!(
            "the export at {} is for disk {disk_name:?}, which the pool does not have (it has: {}); leave the export \
             out, start, and add it with `forebay disk CONFIG add`",
            export.door(),
            known.join(", ")
        );
    };
    Ok(Export {
        name: config.export_name(export).to_owned(),
        disk: disk.id,
        size_bytes: disk.size_bytes,
        // A pool that is read-only only while it recovers from a failed flush does not count: that passes.
        read_only: export.read_only || engine.lasting_read_only_reason().is_some(),
        tag: export.class.as_deref().and_then(|class| engine.prism().table().id_of(class)),
        description: format!("disk {disk_name} of pool {}", config.pool.name),
        access: config.access(export),
    })
}

/// Makes the names of exports known to the rules, which may refer to them.
pub fn name_exports(table: &Exports, engine: &mut Engine) {
    let names: Vec<(u16, String)> = table.iter().map(|(index, export)| (index, export.name.clone())).collect();
    engine.prism_mut().set_exports(&names);
}

/// Logs each disk whose removal was begun and interrupted by a crash.
pub fn name_unfinished_removals(engine: &Engine) {
    for name in engine.disks().filter(|disk| disk.is_being_removed()).map(|disk| &disk.name) {
        warn!(
            "disk {name:?} is what is left of one whose removal was not finished, and takes space: `forebay disk CONFIG remove {name} --destroy-data {name}` \
             finishes it"
        );
    }
}

/// Logs where the configured disks differ from those of the pool, which are the ones that count.
pub fn compare_disks(config: &Config, engine: &Engine) {
    for disk in &config.disk {
        match engine.disk_named(&disk.name) {
            None => warn!(
                "disk {:?} is configured, but the pool does not have it: `forebay disk CONFIG add` makes it",
                disk.name
            ),
            Some(real) if real.size_bytes != disk.size.0 => warn!(
                "disk {:?} has {} bytes, not the {} configured: `forebay disk CONFIG resize` changes it",
                disk.name, real.size_bytes, disk.size.0
            ),
            Some(_) => {}
        }
    }
}
