//! What a reload does to exports: those that are gone or different end, new ones begin, and who may see them changes. Exports in use stay as they were.

use super::access::SocketAccess;
use super::configured::new_export;
use super::snapshot::Fixed;
use super::users;
use crate::config::{self, Config, Export};
use crate::pool::PoolBackend;
use crate::text::chain;
use forebay_export::{Access, Listen, ServerControl, TlsNeed};
use forebay_volume::Engine;
use std::collections::BTreeMap;

/// What a reload has done, and what it could not do.
#[derive(Default)]
pub(super) struct Outcome {
    pub done: Vec<String>,
    pub refused: Vec<String>,
    /// Exports that stay as they were: clients use them, or a virtual machine may.
    pub kept: Vec<String>,
}

/// Exports that are block devices, by name: of the kernel with their numbers, of virtual machines with their sockets. A
/// start alone changes them.
pub(super) struct AsDevices {
    pub of_kernel: BTreeMap<String, config::Ublk>,
    pub of_machines: BTreeMap<String, String>,
}

impl AsDevices {
    /// As a configuration has them.
    pub fn of(config: &Config) -> Self {
        let name = |export: &Export| config.export_name(export).to_owned();
        let sections = || config.export.iter();
        Self {
            of_kernel: sections().filter_map(|export| Some((name(export), export.ublk?))).collect(),
            of_machines: sections().filter_map(|export| Some((name(export), export.vhost.clone()?))).collect(),
        }
    }

    fn is_of_machine(&self, name: &str) -> bool {
        self.of_machines.contains_key(name)
    }
}

/// From the exports of the configuration in force to those of the new one.
pub(super) struct ExportChanges<'a> {
    pub before: &'a Config,
    pub new: &'a Config,
    /// Since the start, and by the new configuration.
    pub devices: [&'a AsDevices; 2],
    pub outcome: &'a mut Outcome,
}

impl ExportChanges<'_> {
    /// Removes exports that are not configured any more, or differently, whatever made them. Those with clients stay, and
    /// those that are block devices of virtual machines by this file or the one before.
    pub fn end(&mut self, engine: &Engine, server: &mut ServerControl<'_>) {
        let Self { before, new, devices: [started, wanted], outcome } = self;
        let of_machines = started.of_machines.keys().chain(wanted.of_machines.keys());
        let changed = of_machines.filter(|name| started.is_of_machine(name) != wanted.is_of_machine(name));
        outcome.kept.extend(changed.cloned());
        let known: Vec<_> = server.exports().iter().map(|(index, export)| (index, export.clone())).collect();
        for (index, known) in known {
            let name = &known.name;
            let was_named = before.export_named(name).is_some();
            let section = new.export_named(name);
            if section.map_or(!was_named, |export| is_as_configured(&known, export, new, engine)) {
                let opens_more =
                    section.map(|export| new.access(export)).is_some_and(|access| opens_more(&access, &known.access));
                if wanted.is_of_machine(name) && opens_more {
                    outcome.refused.push(format!(
                        "export {name:?} is reached where it was until the next start: a virtual machine uses it, or may"
                    ));
                }
                continue;
            }
            if started.is_of_machine(name) || wanted.is_of_machine(name) {
                outcome.kept.push(name.clone());
                outcome.refused.push(format!(
                    "export {name:?} stays as it was until the next start: a virtual machine finds it there (`vhost`), or may look for it"
                ));
                continue;
            }
            let users = users::of_disk(&[(index, name.clone())], &[], server);
            if users.is_empty() {
                // The export was found above, so this cannot fail.
                let _ = server.exports().remove(name);
                outcome.done.push(format!("export {name} was removed"));
            } else {
                outcome
                    .refused
                    .push(format!("export {name:?} stays as it was: {}; then send SIGHUP again", users.join("; ")));
                outcome.kept.push(name.clone());
            }
        }
    }

    /// Applies who may see which export. Like TLS, this affects clients that connect from now on. Exports that stay as they
    /// were are seen by whom they were: what the file says of them now is meant for another disk, or for one that can
    /// only be read.
    pub fn change_access(&mut self, server: &mut ServerControl<'_>) {
        let Self { before, new, devices: [_, wanted], outcome } = self;
        match (&before.tls, &new.tls) {
            (None, None) => {}
            (Some(_), None) => outcome.done.push("TLS is not offered any more".to_owned()),
            _ => outcome.done.push("certificates and keys of TLS were read".to_owned()),
        }
        // Exports made by `disk add` are not in the file; the default access applies to them.
        let (by_default, now) = (before.access_by_default(), new.access_by_default());
        let access = |known: &forebay_export::Export| match new.export_named(&known.name) {
            Some(export) if wanted.is_of_machine(&known.name) => {
                // The disk of a machine gets no new doors, but who may come by those that it has changes.
                let access = new.access(export);
                let (nbd, network) = (access.nbd && known.access.nbd, access.network && known.access.network);
                Some(Access { nbd, network, ..access })
            }
            Some(export) => Some(new.access(export)),
            None => (known.access == by_default).then(|| now.clone()),
        };
        let known: Vec<_> = server.exports().iter().map(|(_, export)| export.clone()).collect();
        for known in known.iter().filter(|known| !outcome.kept.contains(&known.name)) {
            if let Some(access) = access(known).filter(|access| *access != known.access)
                && server.exports().set_access(&known.name, access).is_ok()
            {
                outcome.done.push(format!("who may see export {} was changed", known.name));
            }
        }
    }

    /// An export that stays although the file does not name it was not considered when the file's addresses were
    /// checked. Where other machines can reach the server, such an export requires TLS over TCP.
    pub fn keep_from_others(&mut self, addresses: &[(Listen, Listen)], server: &mut ServerControl<'_>) {
        let Self { new, outcome, .. } = self;
        let is_remote = |at: &Listen| matches!(at, Listen::Tcp(at) if !at.ip().is_loopback());
        let is_reached = addresses.iter().any(|(_, bound)| is_remote(bound))
            || new.export.iter().filter_map(Export::listen).any(|at| is_remote(&at));
        if !is_reached || new.server.allow_remote_without_tls {
            return;
        }
        let is_kept = |name: &str| outcome.kept.iter().any(|kept| kept == name);
        let is_named = |name: &str| !is_kept(name) && new.export_named(name).is_some();
        let open =
            server.exports().iter().filter(|(_, known)| known.access.network && known.access.tls == TlsNeed::Never);
        let kept: Vec<_> = open.filter(|(_, known)| !is_named(&known.name)).map(|(_, known)| known.clone()).collect();
        for export in kept {
            let access = Access { tls: TlsNeed::Network, ..export.access };
            if server.exports().set_access(&export.name, access).is_ok() {
                outcome.refused.push(format!(
                    "export {:?} stays, and the server can be reached by others: who comes by TCP sees it in TLS only",
                    export.name
                ));
            }
        }
    }

    /// Adds configured exports that are missing, and listens at new addresses. `leaving` holds the names of disks
    /// that are being removed.
    pub fn begin(
        &mut self,
        access: &SocketAccess,
        addresses: &mut Vec<(Listen, Listen)>,
        (backend, leaving): (&PoolBackend, &[String]),
        server: &mut ServerControl<'_>,
        fixed: &mut Fixed,
    ) {
        let Self { new, devices: [_, wanted], outcome, .. } = self;
        for export in &new.export {
            let name = new.export_name(export);
            let is_there = server.exports().iter().any(|(_, known)| known.name == name);
            if is_there && (outcome.kept.iter().any(|kept| kept == name) || wanted.is_of_machine(name)) {
                continue;
            }
            if !is_there && waits_for_start(export) {
                outcome
                    .refused
                    .push(format!("export {name:?} is not there before the next start: it is a block device"));
                continue;
            }
            if let Some(address) = export.listen()
                && !addresses.iter().any(|(asked, _)| *asked == address)
            {
                match server.listen(&address) {
                    Ok(bound) => {
                        if let Listen::Unix(path) = &bound
                            && let Err(why) = access.apply_to_export(path)
                        {
                            outcome.refused.push(chain(&why));
                        }
                        outcome.done.push(format!("listening at {bound}"));
                        fixed.addresses.push(bound.clone());
                        addresses.push((address, bound));
                    }
                    Err(why) => {
                        outcome.refused.push(format!("export {name:?}: {}", chain(&why.into())));
                        continue;
                    }
                }
            }
            let bound = addresses.iter().find(|(asked, _)| Some(asked) == export.listen().as_ref());
            if let Some(own) = bound.map(|(_, bound)| (name.to_owned(), bound.clone()))
                && !fixed.own_addresses.contains(&own)
            {
                fixed.own_addresses.push(own);
            }
            if is_there {
                continue;
            }
            let disk = new.export_disk(export);
            // A new disk may have the name of one that is being removed.
            let is_there = backend.pool.engine.disk_named(disk).is_some();
            if !is_there && leaving.iter().any(|leaving| leaving == disk) {
                outcome.refused.push(format!("export {name:?} was not added: its disk {disk:?} is being removed"));
                continue;
            }
            let added = new_export(new, export, &backend.pool.engine)
                .and_then(|export| server.exports().add(export).map_err(anyhow::Error::from));
            match added {
                Ok(_) => outcome.done.push(format!("export {name} was added")),
                Err(why) => outcome.refused.push(format!("export {name:?} was not added: {}", chain(&why))),
            }
        }
        let configured = |address: &Listen| new.export.iter().any(|export| export.listen().as_ref() == Some(address));
        let left = addresses.iter().filter(|(asked, _)| !configured(asked));
        outcome.refused.extend(left.map(|(_, bound)| format!("{bound} is listened at until the next start")));
    }
}

/// Whether an export is as the configuration says, but for who may see it.
fn is_as_configured(known: &forebay_export::Export, export: &Export, config: &Config, engine: &Engine) -> bool {
    let disk = engine.disk_named(config.export_disk(export)).map(|disk| disk.id);
    let class = export.class.as_deref().and_then(|class| engine.prism().table().id_of(class));
    // A pool that takes no writes has no other exports than such that can only be read.
    let is_read_only = known.read_only == export.read_only || engine.lasting_read_only_reason().is_some();
    disk == Some(known.disk) && class == known.tag && is_read_only
}

/// Whether more clients could reach an export than before, whoever may see it.
fn opens_more(new: &Access, before: &Access) -> bool {
    new.nbd && !before.nbd || new.network && !before.network
}

/// Whether an export is only there from the next start on: one of a virtual machine, or one that nobody else could reach.
fn waits_for_start(export: &Export) -> bool {
    export.vhost.is_some() || export.ublk.is_some() && export.listen().is_none()
}

/// The exports in force after `new` was read: those that stay as they were (`kept`) have the section of before.
pub(super) fn exports_in_force(old: &Config, new: &Config, kept: &[String]) -> Vec<Export> {
    let is_kept = |name: &str| kept.iter().any(|kept| kept == name);
    // Without a name the disk is the only one of the old configuration, so its name is written out.
    let before = old.export.iter().filter(|export| is_kept(old.export_name(export))).map(|export| Export {
        disk: Some(old.export_disk(export).to_owned()),
        name: Some(old.export_name(export).to_owned()),
        ..export.clone()
    });
    before.chain(new.export.iter().filter(|export| !is_kept(new.export_name(export))).cloned()).collect()
}
