//! Exports as block devices of virtual machines.

use super::access::SocketAccess;
use super::users::peer_name;
use crate::config::{self, Config};
use crate::log::{Causes, Report, Severity, not_accepted};
use crate::pool::now_ns;
use crate::text;
use anyhow::{Context, Result, anyhow};
use forebay_export::vhost::{Vhost, VhostEvent, Wanted};
use forebay_export::{Export, Exports, Listen, Reactor};
use std::path::PathBuf;
use std::time::Instant;
use tracing::warn;

/// The vhost devices of this server.
#[derive(Default)]
pub struct MachineDevices {
    devices: Vec<Device>,
    /// Virtual machines come and go as they like, so each kind of line is logged at most once a minute per export.
    causes: Causes,
}

struct Device {
    export: String,
    uri: String,
    vhost: Vhost,
}

/// Served exports that are configured for virtual machines, with their sockets.
fn doors(config: &Config, exports: &Exports) -> Vec<(u16, Export, PathBuf)> {
    let door = |export: &config::Export| {
        let (index, served) = exports.find(config.export_name(export))?;
        Some((index, served.clone(), export.vhost_path()?))
    };
    config.export.iter().filter_map(door).collect()
}

/// Names of exports that are not offered to virtual machines because only part of the pool is served.
pub fn not_offered(config: &Config, exports: &Exports) -> Vec<String> {
    doors(config, exports).into_iter().map(|(_, export, _)| export.name).collect()
}

impl MachineDevices {
    /// Listens for virtual machines at all configured sockets. Must not be called where only part of the pool is
    /// served: a machine that waits for a server has seen newer data.
    ///
    /// # Errors
    /// A socket is in use, or the system refuses it.
    pub fn open(config: &Config, access: &SocketAccess, reactor: &mut Reactor) -> Result<Self> {
        let mut devices = Vec::new();
        for (index, Export { name, size_bytes, read_only, .. }, path) in doors(config, reactor.exports()) {
            let private = config.has_private_sockets();
            let wanted = Wanted { path: path.clone(), name: name.clone(), size_bytes, read_only, private };
            let (vhost, door) =
                Vhost::open(&wanted).map_err(|why| anyhow!("export {name:?}: {}", text::chain(&why.into())))?;
            access.apply_to_export(&path)?;
            reactor.attach(Box::new(door), index).context("too many devices")?;
            devices.push(Device { uri: Listen::Unix(path).vhost_uri(&name), export: name, vhost });
        }
        Ok(Self { devices, causes: Causes::default() })
    }

    /// Whether there are no devices.
    pub fn are_none(&self) -> bool {
        self.devices.is_empty()
    }

    /// The exports' names, each with the URI at which virtual machines find it.
    pub fn uris(&self) -> Vec<(String, String)> {
        self.devices.iter().map(|device| (device.export.clone(), device.uri.clone())).collect()
    }

    /// Logs which virtual machines have come and gone since the last call.
    pub fn report(&mut self) {
        for Device { export, vhost, .. } in &self.devices {
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

    /// Waits, after the server has stopped, until each virtual machine has received its completions.
    pub fn release(&mut self) {
        let since = Instant::now();
        for Device { export, vhost, .. } in &self.devices {
            if !vhost.has_ended(since) {
                warn!("the machine that uses export {export:?} by vhost takes nothing: it was not waited for");
            }
        }
        self.report();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_export::ServerConfig;

    /// Regression: the status named a socket for an export that was left out at the start and added later, although
    /// nothing listened there.
    #[test]
    fn regression_exports_that_were_left_out_are_nowhere_for_machines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let text = format!(
            "[pool]\nname = \"p\"\n[[fast]]\ntarget = \"ram:?size=64MiB\"\n[[capacity]]\ntarget = \"ram:?size=256MiB\"\nband = \"4MiB\"\n\
             [[disk]]\nname = \"db\"\nsize = \"8MiB\"\n[[export]]\ndisk = \"db\"\nvhost = \"unix:{}\"\n",
            path.display()
        );
        let config = config::of_text(&text, std::path::Path::new("pool.toml")).unwrap();
        let access = SocketAccess::of(&config.server).unwrap();
        let mut reactor = Reactor::new(ServerConfig::default()).unwrap();
        let devices = MachineDevices::open(&config, &access, &mut reactor).unwrap();
        assert!(devices.uris().is_empty() && !path.exists());
        assert!(not_offered(&config, reactor.exports()).is_empty());
    }
}
