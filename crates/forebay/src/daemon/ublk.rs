//! Exports as block devices of this machine's kernel.

use crate::config::Config;
use crate::output;
use anyhow::{Context, Result, anyhow};
use forebay_block::checksum::crc32c;
use forebay_export::ublk::{Ublk, UblkError, UblkState, Wanted, is_waiting, release};
use forebay_export::{Export, Reactor, ServerControl};
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::Builder;
use tracing::{error, info, warn};

/// The devices of this server.
pub struct BlockDevices {
    /// The pool's name on its devices.
    pool: Vec<u8>,
    devices: Vec<Device>,
    opening: Vec<Opening>,
}

/// A device that is being made on a thread of its own: the kernel makes and removes one after another, and may wait for what this
/// server has yet to write to one that is removed.
struct Opening {
    export: Export,
    opened: Receiver<Result<Ublk>>,
    /// Why there is none, until that is asked for.
    failed: Option<anyhow::Error>,
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

/// Makes a device for an export, or takes over the one that waits for it.
fn make(pool: &[u8], export: &Export, number: Option<u32>) -> Result<Ublk> {
    let Export { name, size_bytes, read_only, .. } = export;
    let wanted = Wanted { number, marker: marker(pool, name), size_bytes: *size_bytes, read_only: *read_only };
    Ublk::open(wanted).map_err(|why| explained(why, name))
}

impl BlockDevices {
    /// Makes those that are configured, or takes them over from the server before; and those that `forebay attach` made, as
    /// far as they still wait.
    ///
    /// # Errors
    /// Where the kernel has no ublk, or refuses.
    pub fn open(config: &Config, pool: &[u8], reactor: &mut Reactor) -> Result<Self> {
        let mut devices = Self { pool: pool.to_vec(), devices: Vec::new(), opening: Vec::new() };
        // An export may have a section for NBD, too.
        let asked = |name: &str| {
            let mut sections = config.export.iter().filter(|export| config.export_name(export) == name);
            sections.find_map(|export| export.ublk)
        };
        let exports: Vec<(u16, Export)> =
            reactor.exports().iter().map(|(index, export)| (index, export.clone())).collect();
        for (index, export) in exports {
            let Some(asked) = asked(&export.name) else {
                if is_waiting(marker(pool, &export.name)) {
                    let ublk = make(pool, &export, None)?;
                    devices.add(export.name, ublk.state());
                    reactor.attach(Box::new(ublk), index).context("too many devices")?;
                }
                continue;
            };
            let ublk = make(pool, &export, asked.number())?;
            let number = ublk.state().number;
            if asked.number().is_some_and(|asked| asked != number) {
                warn!(
                    "export {:?} keeps /dev/ublkb{number}, under which it is in use, until that is unmounted and the server has \
                     been restarted",
                    export.name
                );
            }
            devices.add(export.name, ublk.state());
            reactor.attach(Box::new(ublk), index).context("too many devices")?;
        }
        Ok(devices)
    }

    /// Begins to make one for an export of the running server.
    ///
    /// # Errors
    /// Where the last attempt failed, once; that the kernel has no ublk is [`UblkError::NoDriver`].
    pub fn attach(&mut self, export: &Export) -> Result<()> {
        if let Some(at) = self.opening.iter().position(|opening| opening.export.name == export.name) {
            return match self.opening[at].failed.take() {
                None => Ok(()),
                Some(why) => {
                    self.opening.swap_remove(at);
                    Err(why)
                }
            };
        }
        let (sender, opened) = channel();
        let (pool, of) = (self.pool.clone(), export.clone());
        let thread = Builder::new().name("ublk".to_owned()).spawn(move || {
            // Who waited for it may have gone; then the device waits for a server.
            let _ = sender.send(make(&pool, &of, None));
        });
        thread.context("cannot begin a thread")?;
        self.opening.push(Opening { export: export.clone(), opened, failed: None });
        Ok(())
    }

    /// Serves those that have been made since.
    pub fn serve_opened(&mut self, server: &mut ServerControl<'_>) {
        let mut at = 0;
        while at < self.opening.len() {
            let opening = &mut self.opening[at];
            let opened = match opening.opened.try_recv() {
                Ok(opened) => opened,
                Err(TryRecvError::Disconnected) if opening.failed.is_none() => Err(anyhow!("the thread has ended")),
                Err(_) => {
                    at += 1;
                    continue;
                }
            };
            let export = opening.export.clone();
            let served = opened.and_then(|ublk| {
                let (index, _) = server.exports().find(&export.name).context("the export was removed")?;
                let state = ublk.state();
                server.attach(Box::new(ublk), index)?;
                Ok(state)
            });
            match served {
                Ok(state) => {
                    self.opening.swap_remove(at);
                    self.add(export.name, state);
                }
                Err(why) => {
                    opening.failed = Some(why);
                    at += 1;
                }
            }
        }
    }

    /// The device of an export: `/dev/ublkbN` where that is known, and how far it has come.
    pub fn of(&self, export: &str) -> Option<(Option<String>, &'static str)> {
        if let Some(device) = self.devices.iter().find(|device| device.export == export) {
            let state = match device.state.is_live() {
                None => "starting",
                Some(true) => "live",
                Some(false) => "failed",
            };
            return Some((Some(format!("/dev/ublkb{}", device.state.number)), state));
        }
        let is_opening = |opening: &Opening| opening.export.name == export && opening.failed.is_none();
        self.opening.iter().any(is_opening).then_some((None, "starting"))
    }

    /// A device was taken away.
    pub fn forget(&mut self, number: u32) {
        self.devices.retain(|device| device.state.number != number);
    }

    fn add(&mut self, export: String, state: UblkState) {
        self.devices.push(Device { export, state, reported: false });
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
