//! The probes' events in the layout of `bpf/capture.bpf.c`, in this machine's byte order.

use crate::{Flags, Lifetime, Op};

/// Length of a process's name in bytes, including its final zero (`TASK_COMM_LEN`).
pub const COMM_BYTES: usize = 16;

const ISSUE_BYTES: usize = 88;
const COMPLETE_BYTES: usize = 24;
const REQUEUE_BYTES: usize = 16;
const INSERT_BYTES: usize = 32;

/// The process that issued a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Process id.
    pub pid: u32,
    /// Whether it is one of the processes to be recorded.
    pub is_wanted: bool,
    /// Name of the process, padded with zeros.
    pub comm: [u8; COMM_BYTES],
}

/// A request is issued to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    /// Identity of the request until it completes.
    pub key: u64,
    /// Index of the disk among the watched ones.
    pub disk: u8,
    /// The operation.
    pub op: Op,
    /// The kernel's flags of the request.
    pub flags: Flags,
    /// The write-lifetime hint.
    pub lifetime: Lifetime,
    /// Time of the issue by the monotonic clock, in nanoseconds.
    pub time_ns: u64,
    /// Time when the request was made, by the same clock; 0 if it is not known.
    pub begun_ns: u64,
    /// First sector of 512 bytes on the disk.
    pub sector: u64,
    /// Inode of the file; 0 if it is not known.
    pub inode: u64,
    /// Generation of the inode, since inode numbers are reused for other files.
    pub generation: u32,
    /// Device number of the file system in the kernel's form (`major << 20 | minor`).
    pub file_system: u32,
    /// Control group that the request is charged to; 0 if it is not known.
    pub cgroup: u64,
    /// Length in bytes.
    pub len_bytes: u32,
    /// The issuing process.
    pub issuer: Issuer,
}

/// A request has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Identity of the request.
    pub key: u64,
    /// Index of the disk among the watched ones.
    pub disk: u8,
    /// The operation.
    pub op: Op,
    /// Whether it failed.
    pub failed: bool,
    /// Length in bytes; 0 for the end of a flush sequence.
    pub len_bytes: u32,
    /// Time of the completion by the monotonic clock, in nanoseconds.
    pub time_ns: u64,
}

/// An event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request was issued.
    Issue(Issue),
    /// A request has completed.
    Complete(Complete),
    /// The device returned a request, which will be issued again.
    Requeue {
        /// Identity of the request.
        key: u64,
        /// Index of the disk.
        disk: u8,
    },
    /// A request waits in a scheduler; the process that inserted it made it.
    Insert {
        /// Identity of the request.
        key: u64,
        /// The process.
        by: Issuer,
    },
}

impl Event {
    /// Decodes an event; `None` if the bytes are no event, or one of an operation that transfers no data (zone management).
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.first()? {
            1 => issue(bytes.first_chunk()?).map(Self::Issue),
            2 => complete(bytes.first_chunk()?).map(Self::Complete),
            3 => {
                let bytes = bytes.first_chunk::<REQUEUE_BYTES>()?;
                Some(Self::Requeue { key: u64_at(bytes, 8), disk: bytes[3] })
            }
            4 => {
                let bytes = bytes.first_chunk::<INSERT_BYTES>()?;
                let by = Issuer { pid: u32_at(bytes, 4), is_wanted: bytes[1] != 0, comm: comm_at(bytes, 16) };
                Some(Self::Insert { key: u64_at(bytes, 8), by })
            }
            _ => None,
        }
    }
}

fn issue(bytes: &[u8; ISSUE_BYTES]) -> Option<Issue> {
    Some(Issue {
        op: op(bytes[1])?,
        flags: Flags(u16::from_ne_bytes([bytes[2], bytes[3]])),
        lifetime: Lifetime::ALL.get(usize::from(bytes[4])).copied().unwrap_or_default(),
        disk: bytes[5],
        key: u64_at(bytes, 8),
        time_ns: u64_at(bytes, 16),
        begun_ns: u64_at(bytes, 24),
        sector: u64_at(bytes, 32),
        inode: u64_at(bytes, 40),
        cgroup: u64_at(bytes, 48),
        len_bytes: u32_at(bytes, 56),
        file_system: u32_at(bytes, 64),
        generation: u32_at(bytes, 68),
        issuer: Issuer { pid: u32_at(bytes, 60), is_wanted: bytes[6] != 0, comm: comm_at(bytes, 72) },
    })
}

fn complete(bytes: &[u8; COMPLETE_BYTES]) -> Option<Complete> {
    Some(Complete {
        op: op(bytes[1])?,
        failed: bytes[2] != 0,
        disk: bytes[3],
        len_bytes: u32_at(bytes, 4),
        key: u64_at(bytes, 8),
        time_ns: u64_at(bytes, 16),
    })
}

/// Decodes the probes' number of an operation.
fn op(number: u8) -> Option<Op> {
    Some(match number {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Discard,
        3 => Op::WriteZeroes,
        4 => Op::Flush,
        _ => return None,
    })
}

fn array_at<const N: usize, const LEN: usize>(bytes: &[u8; LEN], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().unwrap_or([0; N])
}

fn u64_at<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> u64 {
    u64::from_ne_bytes(array_at(bytes, at))
}

fn u32_at<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> u32 {
    u32::from_ne_bytes(array_at(bytes, at))
}

fn comm_at<const LEN: usize>(bytes: &[u8; LEN], at: usize) -> [u8; COMM_BYTES] {
    array_at(bytes, at)
}
