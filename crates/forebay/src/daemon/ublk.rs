//! Exports as block devices of this machine's kernel.

use crate::config::Config;
use crate::output;
use anyhow::{Context, Result, anyhow};
use forebay_block::checksum::crc32c;
use forebay_export::Reactor;
use forebay_export::ublk::{Ublk, UblkError, UblkState, Wanted, release};
use std::io::ErrorKind;
use tracing::{error, info, warn};

/// The devices of this server.
#[derive(Default)]
pub struct BlockDevices {
    devices: Vec<Device>,
}

struct Device {
    export: String,
    state: UblkState,
    reported: bool,
}

/// Tells an export of a pool from all others on this machine: the kernel keeps it with the device.
fn marker(pool: &[u8], export: &str) -> u64 {
    let both = [pool, export.as_bytes()].concat();
    u64::from(crc32c(pool)) << 32 | u64::from(crc32c(&both))
}

impl BlockDevices {
    /// Makes those that are configured, or takes them over from the server before.
    ///
    /// # Errors
    /// Where the kernel has no ublk, or refuses.
    pub fn open(config: &Config, pool: &[u8], reactor: &mut Reactor) -> Result<Self> {
        let mut devices = Vec::new();
        for export in &config.export {
            let Some(asked) = export.ublk else { continue };
            let name = config.export_name(export);
            let Some((index, served)) = reactor.exports().find(name) else { continue };
            let (size_bytes, read_only) = (served.size_bytes, served.read_only);
            let wanted = Wanted { number: asked.number(), marker: marker(pool, name), size_bytes, read_only };
            let ublk = Ublk::open(wanted).map_err(|why| explained(why, name))?;
            let state = ublk.state();
            if asked.number().is_some_and(|number| number != state.number) {
                warn!(
                    "export {name:?} keeps /dev/ublkb{}, under which it is in use, until that is unmounted and the server has \
                     been restarted",
                    state.number
                );
            }
            reactor.attach(Box::new(ublk), index).context("too many devices")?;
            devices.push(Device { export: name.to_owned(), state, reported: false });
        }
        Ok(Self { devices })
    }

    /// Says of each device once when it can be used; whether that is said of all.
    pub fn are_reported(&mut self) -> bool {
        for device in self.devices.iter_mut().filter(|device| !device.reported) {
            let UblkState { number, is_recovered, .. } = device.state;
            match device.state.is_live() {
                None => continue,
                Some(true) => {
                    let how = if is_recovered { "goes on where the server before was" } else { "is new" };
                    info!("export {:?} is /dev/ublkb{number}, which {how}", device.export);
                    // Who would read that has gone; the server has not.
                    let _ = output::line(&format!("ready /dev/ublkb{number}"));
                }
                Some(false) => error!(
                    cause = "ublk",
                    advice = "Look at the kernel's log (`dmesg`), then restart the server",
                    "the kernel did not start /dev/ublkb{number} of export {:?}",
                    device.export
                ),
            }
            device.reported = true;
        }
        self.devices.iter().all(|device| device.reported)
    }

    /// The server has stopped: devices that nobody uses go, the others wait for the next server.
    pub fn release(&self) {
        for Device { export, state, .. } in &self.devices {
            match release(state.number) {
                Ok(true) => {}
                Ok(false) => warn!(
                    cause = "ublk",
                    advice = "Start the server again, or unmount before it is stopped",
                    "/dev/ublkb{} of export {export:?} is in use: what is read and written there waits until the server is back",
                    state.number
                ),
                Err(why) => warn!("/dev/ublkb{} cannot be taken away: {}", state.number, output::chain(&why.into())),
            }
        }
    }
}

fn explained(why: UblkError, export: &str) -> anyhow::Error {
    let advice = match &why {
        UblkError::NoDriver { source } if source.kind() == ErrorKind::PermissionDenied => {
            "; block devices need root: run the server as root, or use `nbd` in place of `ublk`"
        }
        UblkError::NoDriver { .. } => {
            "; load the driver (`modprobe ublk_drv`, Linux 6.12 or later), or use `nbd` in place of `ublk`"
        }
        UblkError::System { .. } => "; look at the kernel's log (`dmesg`)",
        UblkError::OtherSize { .. } => {
            "; unmount what is on that device, `disk resize` the disk back, or take `ublk` out of the [[export]]"
        }
    };
    anyhow!("export {export:?}: {}{advice}", output::chain(&why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_pool_and_no_other_export_has_the_mark() {
        let all = [marker(b"one", "a"), marker(b"one", "b"), marker(b"two", "a")];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(all[0], marker(b"one", "a"));
    }
}
