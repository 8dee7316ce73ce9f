//! Exports as block devices of virtual machines.

use super::access::SocketAccess;
use super::users::peer_name;
use crate::config::Config;
use crate::log::{Causes, Report, Severity, not_accepted};
use crate::pool::now_ns;
use crate::text;
use anyhow::{Context, Result, anyhow};
use forebay_export::vhost::{Vhost, VhostEvent, Wanted};
use forebay_export::{Listen, Reactor};
use std::time::Instant;
use tracing::warn;

/// The devices of this server.
#[derive(Default)]
pub struct MachineDevices {
    devices: Vec<Device>,
    /// Machines come and go as often as they like: each kind of line at most once a minute for each export.
    causes: Causes,
}

struct Device {
    export: String,
    vhost: Vhost,
}

/// Where virtual machines find exports, by their names.
pub fn machine_uris(config: &Config) -> Vec<(String, String)> {
    let uri = |export: &crate::config::Export| {
        let name = config.export_name(export).to_owned();
        let uri = Listen::Unix(export.vhost_path()?).vhost_uri(&name);
        Some((name, uri))
    };
    config.export.iter().filter_map(uri).collect()
}

impl MachineDevices {
    /// Listens for those that are configured, and adds where to `uris`. Not where only a part of the pool is served: a machine that waits for a server has seen
    /// newer data.
    ///
    /// # Errors
    /// Where a socket is in use, or the system refuses.
    pub fn open(config: &Config, access: &SocketAccess, reactor: &mut Reactor, uris: &mut Vec<String>) -> Result<Self> {
        let mut devices = Vec::new();
        for export in &config.export {
            let Some(path) = export.vhost_path() else { continue };
            let name = config.export_name(export);
            let Some((index, served)) = reactor.exports().find(name) else { continue };
            let (size_bytes, read_only) = (served.size_bytes, served.read_only);
            let private = config.has_private_sockets();
            let wanted = Wanted { path: path.clone(), name: name.to_owned(), size_bytes, read_only, private };
            let (vhost, door) =
                Vhost::open(&wanted).map_err(|why| anyhow!("export {name:?}: {}", text::chain(&why.into())))?;
            access.apply_to_export(&path)?;
            reactor.attach(Box::new(door), index).context("too many devices")?;
            uris.push(Listen::Unix(path).vhost_uri(name));
            devices.push(Device { export: name.to_owned(), vhost });
        }
        Ok(Self { devices, causes: Causes::default() })
    }

    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.devices.is_empty()
    }

    /// Says which machines have come and gone.
    pub fn report(&mut self) {
        for Device { export, vhost } in &self.devices {
            for event in vhost.take_events() {
                let (severity, cause, message, advice) = match event {
                    VhostEvent::Opened(peer) => {
                        let message = format!("{} uses export {export:?} by vhost", peer_name(&peer));
                        (Severity::Notice, "vhost connected", message, "")
                    }
                    VhostEvent::Closed(peer, None) => {
                        let message = format!("{} has disconnected from export {export:?}", peer_name(&peer));
                        (Severity::Notice, "vhost disconnected", message, "")
                    }
                    VhostEvent::Closed(peer, Some(why)) => (
                        Severity::Warning,
                        "vhost",
                        format!("{} was disconnected from export {export:?}: {why}", peer_name(&peer)),
                        "Look at how the machine was started, and at its guest's driver",
                    ),
                    VhostEvent::Refused(peer) => (
                        Severity::Warning,
                        "vhost refused",
                        format!("{} was refused at export {export:?}: another machine uses it", peer_name(&peer)),
                        "Give each machine an export of its own",
                    ),
                    VhostEvent::NotAccepted(why) => {
                        let door = format!("export {export:?} by vhost");
                        self.causes.happened(now_ns(), &not_accepted(&door, why));
                        continue;
                    }
                };
                self.causes.happened(now_ns(), &Report { severity, cause, about: export, message, advice });
            }
        }
    }

    /// The server has stopped: waits until each machine has what was answered.
    pub fn release(&mut self) {
        let since = Instant::now();
        for Device { export, vhost } in &self.devices {
            if !vhost.has_ended(since) {
                warn!("the machine that uses export {export:?} by vhost takes nothing: it was not waited for");
            }
        }
        self.report();
    }
}
