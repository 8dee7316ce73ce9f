//! Blocking control commands to `/dev/ublk-control`.

#![allow(unsafe_code)]

use super::UblkError;
use super::abi::{self, DeviceInfo};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fmt;

/// A connection to the driver.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    fd: OwnedFd,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl Control {
    /// Opens the driver.
    ///
    /// # Errors
    /// The kernel has no ublk, or this user may not use it.
    pub fn open() -> Result<Self, UblkError> {
        let fd = rustix::fs::open("/dev/ublk-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|source| UblkError::NoDriver { source })?;
        let ring = IoUring::builder().build(4).map_err(|error| UblkError::of("io_uring_setup", &error))?;
        Ok(Self { ring, fd })
    }

    pub(super) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    fn run(&mut self, operation: &'static str, command: u32, bytes: [u8; 80]) -> Result<(), UblkError> {
        let entry = opcode::UringCmd80::new(types::Fd(self.fd.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: what the command points to is alive until its completion, which is waited for below.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| UblkError::System { operation, source: Errno::AGAIN })?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(UblkError::of(operation, &error)),
            }
            if let Some(entry) = self.ring.completion().next() {
                return match entry.result() {
                    0.. => Ok(()),
                    error => Err(UblkError::System { operation, source: Errno::from_raw_os_error(-error) }),
                };
            }
        }
    }

    pub(super) fn info(&mut self, number: u32) -> Result<DeviceInfo, UblkError> {
        let mut info = DeviceInfo::default();
        let address = &raw mut info as u64;
        let bytes = abi::control_command(number, address, size_of::<DeviceInfo>() as u16, 0);
        self.run("UBLK_CMD_GET_DEV_INFO", abi::GET_DEV_INFO, bytes)?;
        Ok(info)
    }

    pub(super) fn add(&mut self, mut info: DeviceInfo, number: u32) -> Result<DeviceInfo, UblkError> {
        info.number = number;
        let address = &raw mut info as u64;
        let bytes = abi::control_command(number, address, size_of::<DeviceInfo>() as u16, 0);
        self.run("UBLK_CMD_ADD_DEV", abi::ADD_DEV, bytes)?;
        Ok(info)
    }

    pub(super) fn set_parameters(&mut self, number: u32, parameters: &[u8]) -> Result<(), UblkError> {
        let bytes = abi::control_command(number, parameters.as_ptr() as u64, parameters.len() as u16, 0);
        self.run("UBLK_CMD_SET_PARAMS", abi::SET_PARAMS, bytes)
    }

    pub(super) fn start_recovery(&mut self, number: u32) -> Result<(), UblkError> {
        let bytes = abi::control_command(number, 0, 0, 0);
        self.run("UBLK_CMD_START_USER_RECOVERY", abi::START_USER_RECOVERY, bytes)
    }

    /// Deletes a device, without waiting for processes that still have it open.
    pub(super) fn delete(&mut self, number: u32) -> Result<(), UblkError> {
        self.run("UBLK_CMD_DEL_DEV_ASYNC", abi::DEL_DEV_ASYNC, abi::control_command(number, 0, 0, 0))
    }

    /// The device with this mark; `None` where there is none.
    pub(super) fn find(&mut self, marker: u64) -> Option<DeviceInfo> {
        self.all().into_iter().find(|info| info.marker == marker)
    }

    /// All devices that this user may examine.
    pub(super) fn all(&mut self) -> Vec<DeviceInfo> {
        let Ok(entries) = std::fs::read_dir("/sys/class/ublk-char") else { return Vec::new() };
        let numbers = entries.filter_map(|entry| {
            entry.ok()?.file_name().to_str()?.strip_prefix("ublkc").and_then(|number| number.parse::<u32>().ok())
        });
        // A device that cannot be examined belongs to another user, or has just gone.
        numbers.filter_map(|number| self.info(number).ok()).collect()
    }
}
