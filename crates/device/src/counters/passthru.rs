//! Get Log Page through the kernel's NVMe pass-through.
//!
//! ABI: Linux include/uapi/linux/nvme_ioctl.h (`struct nvme_passthru_cmd`, `NVME_IOCTL_ADMIN_CMD`). The command: NVM
//! Express Base Specification 2.0, 5.16 (Get Log Page).

use super::page::{PAGE_BYTES, Page, says_nothing};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// SMART / Health Information.
pub(super) const LOG_HEALTH: u8 = 0x02;
/// The vendor's own; on drives that follow the OCP specification its extended SMART log.
pub(super) const LOG_OCP: u8 = 0xC0;

const OPCODE_GET_LOG_PAGE: u8 = 0x02;
/// The whole controller rather than one namespace.
const ALL_NAMESPACES: u32 = 0xFFFF_FFFF;

/// `struct nvme_passthru_cmd`, field by field.
#[repr(C)]
#[derive(Default)]
struct PassthruCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dword2: u32,
    dword3: u32,
    metadata_address: u64,
    data_address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dword10: u32,
    dword11: u32,
    dword12: u32,
    dword13: u32,
    dword14: u32,
    dword15: u32,
    timeout_ms: u32,
    result: u32,
}

const COMMAND_BYTES: usize = size_of::<PassthruCommand>();
const _: () = assert!(COMMAND_BYTES == 72, "struct nvme_passthru_cmd has 72 bytes");

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`, with the encoding of asm-generic/ioctl.h (x86, ARM, RISC-V).
const ADMIN_COMMAND: libc::c_ulong = 0xC000_4E41 | ((COMMAND_BYTES as libc::c_ulong) << 16);

/// A page aligned to itself: drivers take any address on a boundary of 4 bytes, and one that crosses no page needs one
/// entry only.
#[repr(C, align(512))]
struct Buffer(Page);

/// Why a log page is not to be had.
#[derive(Debug, Error)]
pub(super) enum LogError {
    #[error("cannot open {}: {source}{}", path.display(), remedy(source))]
    Open { path: PathBuf, source: io::Error },
    #[error("the kernel did not pass log page {log:#04x} on to {}: {source}{}", path.display(), remedy(source))]
    Kernel { log: u8, path: PathBuf, source: io::Error },
    #[error("{} refused log page {log:#04x} with NVMe status {status:#06x}{}", path.display(), meaning(*status))]
    Refused { log: u8, path: PathBuf, status: u16 },
    #[error("{} answered log page {log:#04x} with an empty page", path.display())]
    Empty { log: u8, path: PathBuf },
}

impl LogError {
    /// Whether the drive itself said no, which it will say again.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// What to do about an error of the kernel's.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root (the kernel asks for CAP_SYS_ADMIN)",
        _ => "",
    }
}

/// Status code type and code in words, those that a refused log page has.
fn meaning(status: u16) -> &'static str {
    match status & 0x7FF {
        0x001 => " (invalid opcode)",
        0x002 => " (invalid field: no such log page)",
        0x00B => " (invalid namespace)",
        0x109 => " (invalid log page: it has none)",
        _ => "",
    }
}

fn command(log: u8, buffer: &mut Buffer) -> PassthruCommand {
    // Number of dwords, less one, in the upper half. Retain Asynchronous Event stays 0 as with nvme-cli: bit 15 is
    // reserved before NVMe 1.3, and drives of 1.0 are measured too.
    let dwords_less_one = PAGE_BYTES as u32 / 4 - 1;
    PassthruCommand {
        opcode: OPCODE_GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        data_address: (&raw mut buffer.0) as u64,
        data_bytes: PAGE_BYTES as u32,
        dword10: (dwords_less_one << 16) | u32::from(log),
        // 0 is the kernel's own time limit for admin commands (60 s): a shorter one would reset a drive that is slow.
        timeout_ms: 0,
        ..PassthruCommand::default()
    }
}

/// Reads a log page from the block device of a namespace, or from a controller's character device.
pub(super) fn read_log(path: &Path, log: u8) -> Result<Page, LogError> {
    let file = File::open(path).map_err(|source| LogError::Open { path: path.to_owned(), source })?;
    let mut buffer = Box::new(Buffer([0; PAGE_BYTES]));
    let mut command = command(log, &mut buffer);
    // SAFETY: the kernel reads and writes one nvme_passthru_cmd through the pointer, whose layout ours has, and up to
    // data_bytes bytes at data_address, which is the buffer of that length; both outlive the call, which returns when
    // the command is done. The caller made sure that this is an NVMe device, for which the number means this.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    if status < 0 {
        return Err(LogError::Kernel { log, path: path.to_owned(), source: io::Error::last_os_error() });
    }
    if status > 0 {
        // The status field without its phase bit: 15 bits.
        return Err(LogError::Refused { log, path: path.to_owned(), status: (status & 0x7FFF) as u16 });
    }
    if says_nothing(&buffer.0) {
        return Err(LogError::Empty { log, path: path.to_owned() });
    }
    Ok(buffer.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_command_has_the_kernels_layout() {
        assert_eq!(ADMIN_COMMAND, 0xC048_4E41);
        assert_eq!(offset_of!(PassthruCommand, namespace), 4);
        assert_eq!(offset_of!(PassthruCommand, data_address), 24);
        assert_eq!(offset_of!(PassthruCommand, data_bytes), 36);
        assert_eq!(offset_of!(PassthruCommand, dword10), 40);
        assert_eq!(offset_of!(PassthruCommand, timeout_ms), 64);
        let mut buffer = Buffer([0; PAGE_BYTES]);
        assert_eq!(command(LOG_HEALTH, &mut buffer).dword10, 0x007F_0002);
        assert_eq!(command(LOG_OCP, &mut buffer).dword10, 0x007F_00C0);
    }

    #[test]
    fn what_is_not_there_or_no_drive_is_said() {
        let error = read_log(Path::new("/nonexistent/nvme0n1"), LOG_HEALTH).expect_err("not there");
        assert!(error.to_string().contains("/nonexistent/nvme0n1") && !error.is_refusal(), "{error}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = read_log(file.path(), LOG_HEALTH).expect_err("a file has no log pages");
        assert!(matches!(error, LogError::Kernel { log: LOG_HEALTH, .. }), "{error}");
    }

    #[test]
    fn a_refusal_is_put_in_words() {
        let error = LogError::Refused { log: LOG_OCP, path: "/dev/nvme0n1".into(), status: 0x4109 };
        assert_eq!(
            error.to_string(),
            "/dev/nvme0n1 refused log page 0xc0 with NVMe status 0x4109 (invalid log page: it has none)"
        );
        assert!(error.is_refusal());
    }
}
