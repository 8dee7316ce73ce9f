//! Exports as block devices of this machine's kernel.

use crate::config::Config;
use crate::output;
use anyhow::{Context, Result};
use forebay_block::checksum::crc32c;
use forebay_export::ublk::{Ublk, UblkError, UblkState, Wanted, is_waiting, release};
use forebay_export::{Export, Reactor, ServerControl};
use std::io::ErrorKind;
use tracing::{error, info, warn};

/// The devices of this server.
pub struct BlockDevices {
    /// The pool's name on its devices.
    pool: Vec<u8>,
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
    /// Makes those that are configured, or takes them over from the server before; and those that `forebay attach` made, as
    /// far as they still wait.
    ///
    /// # Errors
    /// Where the kernel has no ublk, or refuses.
    pub fn open(config: &Config, pool: &[u8], reactor: &mut Reactor) -> Result<Self> {
        let mut devices = Self { pool: pool.to_vec(), devices: Vec::new() };
        let asked = |name: &str| config.export.iter().find(|export| config.export_name(export) == name)?.ublk;
        let exports: Vec<(u16, Export)> =
            reactor.exports().iter().map(|(index, export)| (index, export.clone())).collect();
        for (index, export) in exports {
            let Some(asked) = asked(&export.name) else {
                if is_waiting(marker(pool, &export.name)) {
                    let ublk = devices.make(&export, None)?;
                    reactor.attach(Box::new(ublk), index).context("too many devices")?;
                }
                continue;
            };
            let ublk = devices.make(&export, asked.number())?;
            let number = ublk.state().number;
            if asked.number().is_some_and(|asked| asked != number) {
                warn!(
                    "export {:?} keeps /dev/ublkb{number}, under which it is in use, until that is unmounted and the server has \
                     been restarted",
                    export.name
                );
            }
            reactor.attach(Box::new(ublk), index).context("too many devices")?;
        }
        Ok(devices)
    }

    /// Makes one for an export of the running server; it is there when its state says so.
    ///
    /// # Errors
    /// Where the kernel refuses. That it has no ublk is [`UblkError::NoDriver`].
    pub fn attach(&mut self, export: &Export, index: u16, server: &mut ServerControl<'_>) -> Result<()> {
        let ublk = self.make(export, None)?;
        let number = ublk.state().number;
        if let Err(why) = server.attach(Box::new(ublk), index) {
            self.forget(number);
            // Nobody has opened it: it was never live.
            let _ = release(number);
            return Err(why.into());
        }
        Ok(())
    }

    /// The device of an export: `/dev/ublkbN`, and whether it can be used; not yet where that is left out.
    pub fn of(&self, export: &str) -> Option<(String, Option<bool>)> {
        let device = self.devices.iter().find(|device| device.export == export)?;
        Some((format!("/dev/ublkb{}", device.state.number), device.state.is_live()))
    }

    /// A device was taken away.
    pub fn forget(&mut self, number: u32) {
        self.devices.retain(|device| device.state.number != number);
    }

    fn make(&mut self, export: &Export, number: Option<u32>) -> Result<Ublk> {
        let Export { name, size_bytes, read_only, .. } = export;
        let marker = marker(&self.pool, name);
        let wanted = Wanted { number, marker, size_bytes: *size_bytes, read_only: *read_only };
        let ublk = Ublk::open(wanted).map_err(|why| explained(why, name))?;
        self.devices.push(Device { export: name.clone(), state: ublk.state(), reported: false });
        Ok(ublk)
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
    let text = format!("export {export:?}: {}{advice}", output::chain(&why.clone().into()));
    anyhow::Error::new(why).context(text)
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
