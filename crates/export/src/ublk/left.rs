//! Devices that former servers have left, and devices that are not needed any more.

use super::UblkError;
use super::abi::{self, DeviceInfo};
use super::control::Control;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// How long another process may briefly have a device open that was just written to.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Whether a device with this mark waits for a server. False where the kernel has no ublk.
#[must_use]
pub fn is_waiting(marker: u64) -> bool {
    Control::open().is_ok_and(|mut control| control.find(marker).is_some())
}

/// A device left by a former server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// `N` of `/dev/ublkbN`.
    pub number: u32,
    /// The mark with which it was made.
    pub marker: u64,
}

/// Devices of Forebay that wait for a server and whose mark `is_meant` accepts. Empty where the kernel has no ublk.
#[must_use]
pub fn waiting(is_meant: impl Fn(u64) -> bool) -> Vec<Left> {
    let Ok(mut control) = Control::open() else { return Vec::new() };
    let all = control.all().into_iter().filter(|info| is_meant(info.marker) && is_left(info));
    all.map(|info| Left { number: info.number, marker: info.marker }).collect()
}

/// Whether a device was made with Forebay's flags, and its server has gone. A device that is still served belongs to
/// the server of another copy of the pool.
fn is_left(info: &DeviceInfo) -> bool {
    let has_server = || std::path::Path::new(&format!("/proc/{}", info.server_pid)).exists();
    info.flags & abi::FLAGS == abi::FLAGS && (info.state == abi::QUIESCED || !has_server())
}

/// Deletes a device that a former server left, unless it is in use. It may have gone meanwhile, and its number may
/// belong to another device, which is not touched. Returns whether it was deleted.
///
/// # Errors
/// The kernel refuses.
pub fn release_left(left: Left) -> Result<bool, UblkError> {
    release_where(left.number, |info| info.marker == left.marker && is_left(info))
}

/// Deletes a device, unless it is in use. Returns whether it was deleted. The device must still be served, on another
/// thread than this: a process that opens it may wait for a read, and the kernel may submit a last write.
///
/// # Errors
/// The kernel refuses.
pub fn release(number: u32) -> Result<bool, UblkError> {
    release_where(number, |_| true)
}

fn release_where(number: u32, is_it: impl Fn(&DeviceInfo) -> bool) -> Result<bool, UblkError> {
    // A device that is mounted, or lies below another device, cannot be opened exclusively.
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claimed = rustix::fs::open(format!("/dev/ublkb{number}"), flags, Mode::empty());
    if !matches!(claimed, Ok(_) | Err(Errno::NOENT | Errno::NXIO)) {
        return Ok(false);
    }
    // A process that examines each device after a write (udev) has it open for a moment.
    let begun = Instant::now();
    while is_open(number) {
        if begun.elapsed() >= LOOK_LIMIT {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // The exclusive open is still held, so nobody can mount the device meanwhile.
    let mut control = Control::open()?;
    if !is_it(&control.info(number)?) {
        return Ok(false);
    }
    control.delete(number)?;
    Ok(true)
}

/// Whether another process has the device or one of its partitions open without claiming it, as virtual machines and
/// databases do; as far as this user may see.
fn is_open(number: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let devices: Vec<u64> = std::fs::read_dir("/dev")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix("ublkb")?.strip_prefix(&number.to_string()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
        })
        .filter_map(|entry| Some(entry.metadata().ok()?.rdev()))
        .collect();
    let own = std::process::id().to_string();
    let others = processes.flatten().filter(|process| {
        let name = process.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit) && name != own.as_str()
    });
    let mut files = others.filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    files
        .any(|file| std::fs::metadata(file.path()).is_ok_and(|open| open.rdev() != 0 && devices.contains(&open.rdev())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_or_not_made_as_ours_are_is_not_left() {
        let own = std::process::id().cast_signed();
        let live = DeviceInfo { flags: abi::FLAGS, state: 1, server_pid: own, ..DeviceInfo::default() };
        assert!(!is_left(&live), "its server is there: this process");
        assert!(is_left(&DeviceInfo { state: abi::QUIESCED, ..live }));
        // No process has this number (proc(5), pid_max).
        assert!(is_left(&DeviceInfo { server_pid: i32::MAX, ..live }), "killed a moment ago");
        assert!(!is_left(&DeviceInfo { flags: 1 << 6, state: abi::QUIESCED, ..live }), "of another program");
    }
}
