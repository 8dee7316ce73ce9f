//! Sends read-only commands through the kernel's NVMe pass-through.
//!
//! ABI: Linux include/uapi/linux/nvme_ioctl.h (`struct nvme_passthru_cmd`, `NVME_IOCTL_ADMIN_CMD`). The commands: NVM
//! Express Base Specification 2.0, 5.15 (Get Features), 5.16 (Get Log Page), 5.17 (Identify).

use super::page::{PAGE_BYTES, Page, says_nothing};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// SMART / Health Information.
pub(super) const LOG_HEALTH: u8 = 0x02;
/// A vendor-specific number; on drives that follow the OCP specification, the extended SMART log.
pub(super) const LOG_OCP: u8 = 0xC0;

/// Power Management (5.27.1.2): the current power state.
pub(super) const FEATURE_POWER: u8 = 0x02;
/// Autonomous Power State Transition (5.27.1.9).
pub(super) const FEATURE_SLEEP: u8 = 0x0C;
/// Length of the table of that feature: 32 entries of 8 bytes.
const SLEEP_TABLE_BYTES: usize = 256;
/// Length of the data structure that Identify returns.
pub(super) const IDENTIFY_BYTES: usize = 4096;

const OPCODE_GET_LOG_PAGE: u8 = 0x02;
const OPCODE_IDENTIFY: u8 = 0x06;
const OPCODE_GET_FEATURES: u8 = 0x0A;
/// Value of CNS (Controller or Namespace Structure) that selects the controller.
const CNS_CONTROLLER: u32 = 0x01;
/// Namespace number of the whole controller.
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

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Query {
    /// A log page of 512 bytes.
    Log(u8),
    /// The controller's data structure.
    Identify,
    /// The current value of a feature.
    Feature(u8),
}

impl Query {
    /// Count of bytes that the drive sends.
    fn bytes(self) -> usize {
        match self {
            Self::Log(_) => PAGE_BYTES,
            Self::Identify => IDENTIFY_BYTES,
            Self::Feature(FEATURE_SLEEP) => SLEEP_TABLE_BYTES,
            Self::Feature(_) => 0,
        }
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(log) => write!(f, "log page {log:#04x}"),
            Self::Identify => f.write_str("Identify Controller"),
            Self::Feature(feature) => write!(f, "feature {feature:#04x}"),
        }
    }
}

/// A buffer for the longest answer, aligned to its own size: drivers accept any address on a boundary of 4 bytes, and
/// a buffer within one page needs only one entry.
#[repr(C, align(4096))]
struct Buffer([u8; IDENTIFY_BYTES]);

/// The answer of a drive.
#[derive(Debug)]
pub(super) struct Answer {
    /// The data, in the length of the query.
    pub(super) data: Vec<u8>,
    /// Dword 0 of the completion.
    pub(super) result: u32,
}

/// The reason why a query has no answer.
#[derive(Debug, Error)]
pub(super) enum QueryError {
    #[error("cannot open {}: {source}{}", path.display(), remedy(source))]
    Open { path: PathBuf, source: io::Error },
    #[error("the kernel did not pass {query} on to {}: {source}{}", path.display(), remedy(source))]
    Kernel { query: Query, path: PathBuf, source: io::Error },
    #[error("{} refused {query} with NVMe status {status:#06x}{}", path.display(), meaning(*status))]
    Refused { query: Query, path: PathBuf, status: u16 },
    #[error("{} answered {query} with an empty page", path.display())]
    Empty { query: Query, path: PathBuf },
}

impl QueryError {
    /// Whether the drive itself refused, which it will do again.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// Advice on an error of the kernel.
pub(super) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root (the kernel asks for CAP_SYS_ADMIN)",
        _ => "",
    }
}

/// The meaning of a status code; empty where it is none of those that refusals of these queries have.
fn meaning(status: u16) -> &'static str {
    match status & 0x7FF {
        0x001 => " (invalid opcode)",
        0x002 => " (invalid field: it has no such page or feature)",
        0x00B => " (invalid namespace)",
        0x109 => " (invalid log page: it has none)",
        _ => "",
    }
}

fn command(query: Query, buffer: &mut Buffer) -> PassthruCommand {
    let bytes = query.bytes() as u32;
    let (opcode, namespace, dword10) = match query {
        // The upper half holds the number of dwords less one. Retain Asynchronous Event stays 0, as in nvme-cli: bit
        // 15 is reserved before NVMe 1.3, and drives of version 1.0 are measured, too.
        Query::Log(log) => (OPCODE_GET_LOG_PAGE, ALL_NAMESPACES, ((bytes / 4 - 1) << 16) | u32::from(log)),
        Query::Identify => (OPCODE_IDENTIFY, 0, CNS_CONTROLLER),
        // Select 0: the current value.
        Query::Feature(feature) => (OPCODE_GET_FEATURES, 0, u32::from(feature)),
    };
    PassthruCommand {
        opcode,
        namespace,
        data_address: if bytes == 0 { 0 } else { (&raw mut buffer.0) as u64 },
        data_bytes: bytes,
        dword10,
        // 0 is the kernel's own limit for admin commands (60 s). A shorter one would reset a slow drive.
        timeout_ms: 0,
        ..PassthruCommand::default()
    }
}

/// Sends a query to the drive behind a namespace's block device or a controller's character device.
pub(super) fn ask(path: &Path, query: Query) -> Result<Answer, QueryError> {
    let file = File::open(path).map_err(|source| QueryError::Open { path: path.to_owned(), source })?;
    let mut buffer = Box::new(Buffer([0; IDENTIFY_BYTES]));
    let mut command = command(query, &mut buffer);
    // SAFETY: the kernel reads and writes one nvme_passthru_cmd through the pointer, whose layout ours has, and up to
    // data_bytes bytes at data_address, which is the buffer of at least that length; both outlive the call, which returns
    // when the command is done. The caller made sure that this is an NVMe device, for which the number means this.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    if status < 0 {
        return Err(QueryError::Kernel { query, path: path.to_owned(), source: io::Error::last_os_error() });
    }
    if status > 0 {
        // The status field without its phase bit: 15 bits.
        return Err(QueryError::Refused { query, path: path.to_owned(), status: (status & 0x7FFF) as u16 });
    }
    Ok(Answer { data: buffer.0[..query.bytes()].to_vec(), result: command.result })
}

/// Reads a log page.
pub(super) fn read_log(path: &Path, log: u8) -> Result<Page, QueryError> {
    let query = Query::Log(log);
    let data = ask(path, query)?.data;
    let empty = || QueryError::Empty { query, path: path.to_owned() };
    let page: Page = data.try_into().map_err(|_| empty())?;
    if says_nothing(&page) { Err(empty()) } else { Ok(page) }
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
        assert_eq!(offset_of!(PassthruCommand, result), 68);
        let mut buffer = Buffer([0; IDENTIFY_BYTES]);
        let mut of = |query| command(query, &mut buffer);
        assert_eq!(of(Query::Log(LOG_HEALTH)).dword10, 0x007F_0002);
        assert_eq!(of(Query::Log(LOG_OCP)).dword10, 0x007F_00C0);
        let identify = of(Query::Identify);
        assert_eq!((identify.opcode, identify.namespace, identify.dword10, identify.data_bytes), (0x06, 0, 1, 4096));
        let feature = of(Query::Feature(FEATURE_SLEEP));
        assert_eq!((feature.opcode, feature.dword10, feature.data_bytes), (0x0A, 0x0C, 256));
        let feature = of(Query::Feature(FEATURE_POWER));
        assert_eq!((feature.dword10, feature.data_bytes, feature.data_address), (0x02, 0, 0));
    }

    #[test]
    fn what_is_not_there_or_no_drive_is_said() {
        let error = read_log(Path::new("/nonexistent/nvme0n1"), LOG_HEALTH).expect_err("not there");
        assert!(error.to_string().contains("/nonexistent/nvme0n1") && !error.is_refusal(), "{error}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = read_log(file.path(), LOG_HEALTH).expect_err("a file has no log pages");
        assert!(matches!(error, QueryError::Kernel { query: Query::Log(LOG_HEALTH), .. }), "{error}");
    }

    #[test]
    fn a_refusal_is_put_in_words() {
        let error = QueryError::Refused { query: Query::Log(LOG_OCP), path: "/dev/nvme0n1".into(), status: 0x4109 };
        assert_eq!(
            error.to_string(),
            "/dev/nvme0n1 refused log page 0xc0 with NVMe status 0x4109 (invalid log page: it has none)"
        );
        assert!(error.is_refusal());
    }
}
