//! What a server offers to clients: the exports of its configuration, where each can be reached, and what is announced
//! of them.

use super::access::SocketAccess;
use super::configured::{name_exports, new_export};
use super::handle::Announce;
use crate::config::{Config, notes_of_classes};
use crate::evidence::unknown;
use anyhow::{Result, bail};
use forebay_export::{Exports, Listen, Reactor};
use forebay_prism::rules::Present;
use forebay_volume::Engine;
use std::path::Path;
use tracing::warn;

/// Adds the exports to the table. Returns name and address of each that listens.
pub(super) fn exports(config: &Config, engine: &mut Engine, table: &mut Exports) -> Result<Vec<(String, Listen)>> {
    let mut listed = Vec::new();
    for export in &config.export {
        let name = config.export_name(export).to_owned();
        let disk = config.export_disk(export);
        if removal_was_begun(engine, disk) {
            // A crash interrupted the removal of this disk. The other exports are served.
            warn!(
                "export {name:?} is not served: the removal of its disk {disk:?} was begun; take it out of the configuration"
            );
            continue;
        }
        let made = new_export(config, export, engine)?;
        if table.find(&name).is_none_or(|(_, known)| known.name != name) {
            table.add(made)?;
        }
        if let Some(address) = export.listen() {
            listed.push((name, address));
        }
    }
    name_exports(table, engine);
    let (hints, files) = (config.evidence.iter().any(|e| e.hints), config.evidence.iter().any(|e| e.files));
    for (class, predicate) in unknown(engine.prism().table(), hints, files) {
        warn!("class {class}: {predicate:?} cannot be known without [[evidence]] and matches nothing");
    }
    warn_of_classes(engine, table);
    Ok(listed)
}

/// Notes on the classes that there are now, as the disks and exports are now.
pub(super) fn notes_now(engine: &Engine, exports: &Exports) -> Vec<String> {
    let disks: Vec<&str> = engine.disks().map(|disk| disk.name.as_str()).collect();
    let exports: Vec<(u16, &str)> = exports.iter().map(|(index, export)| (index, export.name.as_str())).collect();
    notes_of_classes(engine.prism().table(), Present { disks: &disks, exports: &exports })
}

/// Warns of what the classes have that has no effect now.
pub(super) fn warn_of_classes(engine: &Engine, exports: &Exports) {
    for note in notes_now(engine, exports) {
        warn!(cause = "class setting without effect", "{note}");
    }
}

/// Whether the only disk of this name is the rest of one whose removal was interrupted by a crash.
pub(super) fn removal_was_begun(engine: &Engine, disk: &str) -> bool {
    engine.disk_named(disk).is_none() && engine.disk_to_remove(disk).is_some()
}

/// Where clients can reach the exports.
pub(super) struct Listening {
    /// Each address as it was asked for, and as the system gave it.
    pub addresses: Vec<(Listen, Listen)>,
    /// The address of each export, by its name.
    pub of_exports: Vec<(String, Listen)>,
    pub uris: Vec<String>,
}

/// Listens at the addresses of exports, at each of them once.
pub(super) fn listen(
    exports: Vec<(String, Listen)>,
    reactor: &mut Reactor,
    access: &SocketAccess,
) -> Result<Listening> {
    let mut listening = Listening { addresses: Vec::new(), of_exports: Vec::new(), uris: Vec::new() };
    for (name, address) in exports {
        let known = listening.addresses.iter().find(|(asked, _)| *asked == address).map(|(_, bound)| bound);
        let bound: Listen = match known {
            Some(bound) => Listen::clone(bound),
            None => {
                let bound = reactor.listen(&address)?;
                if let Listen::Unix(path) = &bound {
                    access.apply_to_export(path)?;
                }
                listening.addresses.push((address, bound.clone()));
                bound
            }
        };
        let export = reactor.exports().find(&name).map(|(_, export)| export);
        listening.uris.extend(export.and_then(|export| bound.uri_of(export)));
        listening.of_exports.push((name, bound));
    }
    Ok(listening)
}

/// What is announced once the server is ready: a line for each export, or one that there is none.
pub(super) fn ready_lines(
    uris: impl Iterator<Item = String>,
    config: &Config,
    exports: &Exports,
    control: &Path,
) -> Vec<String> {
    let mut lines: Vec<String> = uris.map(|uri| format!("ready {uri}")).collect();
    if lines.is_empty() && !becomes_a_device(config, exports) {
        let full = std::path::absolute(control).unwrap_or_else(|_| control.to_owned());
        lines.push(format!("ready without exports, control socket {}", full.display()));
        warn!(
            cause = "no exports",
            advice = "Add an [[export]] with `nbd = \"unix:/path/to/socket\"` to the configuration and send SIGHUP",
            "no disk is exported"
        );
    }
    lines
}

/// Whether any served export becomes a block device of this machine. Such an export is announced only once its device
/// exists.
fn becomes_a_device(config: &Config, exports: &Exports) -> bool {
    let mut as_devices = config.export.iter().filter(|export| export.ublk.is_some());
    as_devices.any(|export| exports.find(config.export_name(export)).is_some())
}

/// Announces the exports that can be used. Where the first line cannot be written, the server ends, so that nobody
/// takes silence for success. A reader that goes after the first line (`grep -m 1 ready`) does not end the server.
pub(super) fn say(lines: &[String], announce: &mut Announce) -> Result<()> {
    for (at, line) in lines.iter().enumerate() {
        match announce(line) {
            Ok(()) => {}
            Err(error) if at == 0 => bail!("cannot say that the server is ready: {error:#}"),
            Err(error) => {
                warn!("{line:?} and what follows could not be said: {error:#}");
                break;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Regression: where the only export was a block device whose disk was being removed when the server crashed, the
    /// server never announced that it was ready.
    #[test]
    fn regression_an_export_that_was_left_out_becomes_no_device() {
        let text = "[pool]\nname = \"p\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\n\
                    band = \"4MiB\"\n[[disk]]\nname = \"db\"\nsize = \"8MiB\"\n[[export]]\ndisk = \"db\"\nublk = \"auto\"\n";
        let config = crate::config::of_text(text, Path::new("pool.toml")).unwrap();
        let mut exports = Exports::new();
        assert!(!becomes_a_device(&config, &exports));
        let (name, access) = ("db".to_owned(), config.access_by_default());
        let (disk, description) = (forebay_block::DiskId(1), String::new());
        exports
            .add(forebay_export::Export {
                name,
                disk,
                size_bytes: 8 << 20,
                read_only: false,
                tag: None,
                description,
                access,
            })
            .unwrap();
        assert!(becomes_a_device(&config, &exports));
    }

    /// Regression: a server with two exports ended uncleanly where the reader of its lines had gone after the first
    /// one.
    #[test]
    fn regression_a_reader_that_goes_after_the_first_line_ends_no_server() {
        let (send, said) = channel();
        let mut left = 1;
        let mut announce: Announce = Box::new(move |line| {
            anyhow::ensure!(left > 0, "Broken pipe");
            left -= 1;
            Ok(send.send(line.to_owned())?)
        });
        let lines = ["ready a".to_owned(), "ready b".to_owned(), "ready c".to_owned()];
        say(&lines, &mut announce).unwrap();
        assert_eq!(said.iter().take(1).collect::<Vec<_>>(), ["ready a"]);
        assert!(say(&lines, &mut announce).unwrap_err().to_string().contains("Broken pipe"));
    }
}
