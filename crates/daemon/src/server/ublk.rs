//! Exports as block devices of this machine's kernel.

use super::handle::Announce;
use super::ublk_left::LeftDevices;
use crate::config::Config;
use crate::text;
use anyhow::{Context, Result, anyhow, ensure};
use forebay_block::DiskId;
use forebay_block::checksum::crc32c;
use forebay_export::ublk::{Ublk, UblkError, UblkState, Wanted, is_waiting, release as take_away, waiting};
use forebay_export::{Export, Reactor, ServerControl};
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};
use tracing::{error, info, warn};

/// How long a stop waits for the removal of block devices.
const RELEASE_LIMIT: Duration = Duration::from_secs(10);
/// A device without an export is marked by a checksum over export and disk id. Its export is named in messages by
/// trying disk ids below this number, those of pools that have not had more disks.
const DISKS_NAMED: u16 = 64;

/// The ublk devices of this server.
pub struct BlockDevices {
    /// The pool's name as it enters the marks of its devices.
    pool: Vec<u8>,
    devices: Vec<Device>,
    opening: Vec<Opening>,
    release: Option<Release>,
    /// Whether the whole pool is served. Only then may a device be taken over that has seen the pool's newest data.
    is_whole: bool,
    /// Exports whose devices wait for a server. They were found while the other devices were made.
    waiting: Vec<(u16, Export)>,
    /// Devices whose exports are gone.
    left: LeftDevices,
}

/// Removal of unused devices before the server stops. The server must serve each device until it is removed.
struct Release {
    begun: Instant,
    /// Result of each removal; `None` while some devices are still being made.
    ended: Option<Receiver<Ended>>,
}

/// Result of removing one device.
struct Ended {
    export: String,
    number: u32,
    /// Whether the device was removed; false where it is in use.
    is_gone: Result<bool, UblkError>,
}

/// A device that is being made on a thread of its own. The kernel makes and removes devices one after another, and
/// may wait for writes of this server to a device that it removes.
struct Opening {
    export: Export,
    opened: Receiver<Result<Ublk>>,
    /// The error, until a request collects it.
    failed: Option<anyhow::Error>,
}

struct Device {
    export: String,
    state: UblkState,
    reported: bool,
}

/// The mark of an export, which the kernel keeps with the device. It distinguishes the export from all others on this
/// machine, and from an earlier export of the same name on another disk: a file system mounted there has cached
/// blocks of that disk.
fn marker(pool: &[u8], export: &str, disk: DiskId) -> u64 {
    let all = [pool, export.as_bytes(), &disk.0.to_le_bytes()].concat();
    u64::from(crc32c(pool)) << 32 | u64::from(crc32c(&all))
}

fn marker_of(pool: &[u8], export: &Export) -> u64 {
    marker(pool, &export.name, export.disk)
}

/// Whether a mark belongs to any export of this pool.
fn is_of_pool(pool: &[u8], marker: u64) -> bool {
    marker >> 32 == u64::from(crc32c(pool))
}

/// Makes a device for an export, or takes over the one that waits for it.
fn make(pool: &[u8], export: &Export, number: Option<u32>) -> Result<Ublk> {
    let Export { name, size_bytes, read_only, .. } = export;
    let wanted = Wanted { number, marker: marker_of(pool, export), size_bytes: *size_bytes, read_only: *read_only };
    Ublk::open(wanted).map_err(|why| explained(why, name))
}

/// The configured block device of an export, whose NBD address may be in a section of its own.
fn asked(config: &Config, name: &str) -> Option<crate::config::Ublk> {
    let mut sections = config.export.iter().filter(|export| config.export_name(export) == name);
    sections.find_map(|export| export.ublk)
}

impl BlockDevices {
    /// Without devices yet; `pool` is the pool's name in their marks.
    pub fn new(pool: &[u8], is_whole: bool) -> Self {
        let (devices, opening, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Self { pool: pool.to_vec(), devices, opening, release: None, is_whole, waiting, left: LeftDevices::default() }
    }

    /// Makes the configured devices that do not exist yet.
    ///
    /// # Errors
    /// The kernel has no ublk, or refuses a device.
    pub fn make(&mut self, config: &Config, reactor: &mut Reactor) -> Result<()> {
        let exports: Vec<(u16, Export)> =
            reactor.exports().iter().map(|(index, export)| (index, export.clone())).collect();
        for (index, export) in exports {
            if is_waiting(marker_of(&self.pool, &export)) {
                self.waiting.push((index, export));
                continue;
            }
            let Some(asked) = asked(config, &export.name) else { continue };
            let is_held =
                |number: &u32| waiting(|mark| is_of_pool(&self.pool, mark)).iter().any(|left| left.number == *number);
            let held = asked.number().filter(is_held);
            if let Some(number) = held {
                error!(
                    cause = "ublk",
                    advice = "Configure what it was again and restart, or reboot; what is on it waits",
                    "/dev/ublkb{number} waits for an export that this pool had, of another disk or another name: export {:?} gets another number",
                    export.name
                );
            }
            let number = asked.number().filter(|_| held.is_none());
            let ublk = make(&self.pool, &export, number)?;
            self.devices.push(Device { export: export.name, state: ublk.state(), reported: false });
            reactor.attach(Box::new(ublk), index).context("too many devices")?;
        }
        Ok(())
    }

    /// Takes over the devices that wait for a server, including those that `forebay attach` made, and begins to
    /// remove devices without an export. This comes after everything else that may fail, because the kernel lets
    /// nobody begin a takeover twice. A device that cannot be taken over does not keep the others from being served.
    ///
    /// # Errors
    /// There are too many devices.
    pub fn take_over(&mut self, config: &Config, reactor: &mut Reactor) -> Result<()> {
        for (index, export) in std::mem::take(&mut self.waiting) {
            if !self.is_whole {
                // What is mounted on this device has seen newer data than the part of the pool that is served now.
                error!(
                    cause = "ublk",
                    advice = "Unmount what is on that device once the whole pool is served again",
                    "the block device of export {:?} waits for a server, and is not given what only a part of the pool holds",
                    export.name
                );
                continue;
            }
            let number = asked(config, &export.name).and_then(|asked| asked.number());
            let ublk = match make(&self.pool, &export, number) {
                Ok(ublk) => ublk,
                Err(why) => {
                    error!(
                        cause = "ublk",
                        advice = "Look at the kernel's log (`dmesg`); what is on that device waits",
                        "the block device of export {:?} cannot be taken over: {}",
                        export.name,
                        text::chain(&why)
                    );
                    continue;
                }
            };
            let (asked, UblkState { number, size_bytes, is_recovered, .. }) = (number, ublk.state());
            if is_recovered && asked.is_some_and(|asked| asked != number) {
                warn!(
                    "export {:?} keeps /dev/ublkb{number}, under which it is in use, until that is unmounted and the server has \
                     been restarted",
                    export.name
                );
            }
            if size_bytes != export.size_bytes {
                warn!(
                    "/dev/ublkb{number} of export {:?} keeps its size of {} ({} is the disk's), until that is unmounted and the \
                     server has been restarted",
                    export.name,
                    text::size(size_bytes),
                    text::size(export.size_bytes)
                );
            }
            self.devices.push(Device { export: export.name, state: ublk.state(), reported: false });
            reactor.attach(Box::new(ublk), index).context("too many devices")?;
        }
        if self.is_whole {
            let pool = &self.pool;
            let exports: Vec<u64> = reactor.exports().iter().map(|(_, export)| marker_of(pool, export)).collect();
            let exports_names = config.export.iter().map(|export| config.export_name(export).to_owned());
            let known = config.disk.iter().map(|disk| disk.name.clone()).chain(exports_names);
            let of_any_disk =
                |name: String| (0..DISKS_NAMED).map(move |disk| (marker(pool, &name, DiskId(disk)), name.clone()));
            let names = known.flat_map(of_any_disk).collect();
            self.left = LeftDevices::begin(|mark| is_of_pool(pool, mark) && !exports.contains(&mark), names);
        }
        Ok(())
    }

    /// Begins to make a device for an export of the running server.
    ///
    /// # Errors
    /// The error of the last attempt, once. [`UblkError::NoDriver`] where the kernel has no ublk.
    pub fn attach(&mut self, export: &Export) -> Result<()> {
        ensure!(self.release.is_none(), "the server stops");
        if let Some(at) = self.opening.iter().position(|opening| opening.export.name == export.name) {
            return match self.opening[at].failed.take() {
                None => Ok(()),
                Some(why) => {
                    self.opening.swap_remove(at);
                    Err(why)
                }
            };
        }
        ensure!(
            self.is_whole || !is_waiting(marker_of(&self.pool, export)),
            "a block device of this export waits for a server of the whole pool, and what is mounted there has seen newer data than \
             what can be served now: read the export by NBD, or unmount that device first"
        );
        let (sender, opened) = channel();
        let (pool, of) = (self.pool.clone(), export.clone());
        let thread = Builder::new().name("ublk".to_owned()).spawn(move || {
            // Where the receiver is gone, the device waits for the next server.
            let _ = sender.send(make(&pool, &of, None));
        });
        thread.context("cannot begin a thread")?;
        self.opening.push(Opening { export: export.clone(), opened, failed: None });
        Ok(())
    }

    /// Serves devices that have been made since the last call.
    pub fn serve_opened(&mut self, server: &mut ServerControl<'_>) {
        self.left.report();
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
                    self.devices.push(Device { export: export.name, state, reported: false });
                }
                Err(why) => {
                    opening.failed = Some(why);
                    at += 1;
                }
            }
        }
    }

    /// The device of an export: `/dev/ublkbN` where its number is known, and its state. `None` where the export has
    /// no device.
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

    /// Forgets a device that was removed.
    pub fn forget(&mut self, number: u32) {
        self.devices.retain(|device| device.state.number != number);
    }

    /// Announces each device once when it can be used. Returns whether all devices have been announced.
    pub fn are_reported(&mut self, announce: &mut Announce) -> bool {
        for device in self.devices.iter_mut().filter(|device| !device.reported) {
            let UblkState { number, is_recovered, .. } = device.state;
            match device.state.is_live() {
                None => continue,
                Some(true) => {
                    let how = if is_recovered { "goes on where the server before was" } else { "is new" };
                    info!("export {:?} is /dev/ublkb{number}, which {how}", device.export);
                    // The reader of the announcements may have gone; the server runs on.
                    let _ = announce(&format!("ready /dev/ublkb{number}"));
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

    /// Prepares the stop of the server: unused devices are removed, the others wait for the next server.
    pub fn begin_release(&mut self) {
        self.release = Some(Release { begun: Instant::now(), ended: None });
    }

    /// Whether a stop was begun.
    pub fn are_leaving(&self) -> bool {
        self.release.is_some()
    }

    /// Whether there are no devices, made or being made.
    pub fn are_none(&self) -> bool {
        self.devices.is_empty() && self.opening.is_empty()
    }

    /// Whether the block devices allow the server to stop. Always false before a stop was begun.
    pub fn may_stop(&mut self) -> bool {
        let is_starting = !self.opening.iter().all(|opening| opening.failed.is_some())
            || self.devices.iter().any(|device| device.state.is_live().is_none());
        let Some(release) = &mut self.release else { return false };
        let is_late = release.begun.elapsed() >= RELEASE_LIMIT;
        let Some(ended) = &release.ended else {
            // A device that is being made needs the server until it is ready.
            if is_starting && !is_late {
                return false;
            }
            let devices: Vec<(String, u32)> =
                self.devices.iter().map(|device| (device.export.clone(), device.state.number)).collect();
            let (sender, ended) = channel();
            let work = move || {
                for (export, number) in devices {
                    // The receiver is gone where the server has stopped.
                    if sender.send(Ended { export, number, is_gone: take_away(number) }).is_err() {
                        return;
                    }
                }
            };
            release.ended = Some(ended);
            // Where no thread can be started, the devices stay, as if they were in use.
            return Builder::new().name("ublk".to_owned()).spawn(work).is_err();
        };
        loop {
            match ended.try_recv() {
                Ok(Ended { is_gone: Ok(true), .. }) => {}
                Ok(Ended { export, number, is_gone: Ok(false) }) => warn!(
                    cause = "ublk",
                    advice = "Start the server again, or unmount before it is stopped",
                    "/dev/ublkb{number} of export {export:?} is in use: what is read and written there waits until the server is back"
                ),
                Ok(Ended { number, is_gone: Err(why), .. }) => {
                    warn!("/dev/ublkb{number} cannot be taken away: {}", text::chain(&why.into()));
                }
                Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => {
                    if is_late {
                        warn!(
                            "devices of ublk were not taken away within {} s: the server stops",
                            RELEASE_LIMIT.as_secs()
                        );
                    }
                    return is_late;
                }
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
    };
    let text = format!("export {export:?}: {}{advice}", text::chain(&why.clone().into()));
    anyhow::Error::new(why).context(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_pool_and_no_other_export_has_the_mark() {
        let all = [marker(b"one", "a", DiskId(1)), marker(b"one", "b", DiskId(1)), marker(b"two", "a", DiskId(1))];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2]);
        assert_eq!(all[0], marker(b"one", "a", DiskId(1)));
        assert!(is_of_pool(b"one", all[0]) && is_of_pool(b"one", all[1]) && !is_of_pool(b"one", all[2]));
    }

    /// Regression: a mounted device was taken over for the disk that its export had in the configuration by then, and
    /// cached data of one disk was written over another.
    #[test]
    fn regression_a_device_of_another_disk_is_not_taken_over() {
        assert_ne!(marker(b"one", "a", DiskId(1)), marker(b"one", "a", DiskId(2)));
    }
}
