//! Exports as block devices of virtual machines.

use super::access::SocketAccess;
use super::users::peer_name;
use crate::config::Config;
use crate::output;
use anyhow::{Context, Result, anyhow};
use forebay_export::vhost::{Vhost, VhostEvent, Wanted};
use forebay_export::{Listen, Reactor};
use tracing::{info, warn};

/// The devices of this server.
#[derive(Default)]
pub struct MachineDevices {
    devices: Vec<Device>,
}

struct Device {
    export: String,
    vhost: Vhost,
}

impl MachineDevices {
    /// Listens for those that are configured, and adds where to `uris`.
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
            let wanted = Wanted { path: path.clone(), name: name.to_owned(), size_bytes, read_only };
            let (vhost, door) =
                Vhost::open(&wanted).map_err(|why| anyhow!("export {name:?}: {}", output::chain(&why.into())))?;
            access.apply(&path)?;
            reactor.attach(Box::new(door), index).context("too many devices")?;
            uris.push(Listen::Unix(path).vhost_uri(name));
            devices.push(Device { export: name.to_owned(), vhost });
        }
        Ok(Self { devices })
    }

    /// Says which machines have come and gone.
    pub fn report(&self) {
        for Device { export, vhost } in &self.devices {
            for event in vhost.take_events() {
                match event {
                    VhostEvent::Opened(peer) => info!("{} uses export {export:?} by vhost", peer_name(&peer)),
                    VhostEvent::Closed(peer, None) => {
                        info!("{} has disconnected from export {export:?}", peer_name(&peer));
                    }
                    VhostEvent::Closed(peer, Some(why)) => warn!(
                        cause = "vhost",
                        advice = "Look at how the machine was started, and at its guest's driver",
                        "{} was disconnected from export {export:?}: {why}",
                        peer_name(&peer)
                    ),
                    VhostEvent::Refused(peer) => warn!(
                        cause = "vhost",
                        advice = "Give each machine an export of its own",
                        "{} was refused at export {export:?}: another machine uses it",
                        peer_name(&peer)
                    ),
                }
            }
        }
    }

    /// The server has stopped: waits until each machine has what was answered.
    pub fn release(&self) {
        for Device { export, vhost } in &self.devices {
            if !vhost.has_ended() {
                warn!("the machine that uses export {export:?} by vhost takes nothing: it was not waited for");
            }
        }
        self.report();
    }
}
