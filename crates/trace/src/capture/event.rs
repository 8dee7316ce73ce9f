//! The probes' events, as `bpf/capture.bpf.c` lays them out, in the byte order of this machine.

use crate::{Flags, Lifetime, Op};

/// Bytes of a process's name, its final zero included (`TASK_COMM_LEN`).
pub const COMM_BYTES: usize = 16;

const ISSUE_BYTES: usize = 88;
const COMPLETE_BYTES: usize = 24;
const REQUEUE_BYTES: usize = 16;
const INSERT_BYTES: usize = 32;

/// Who issued a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// Process id.
    pub pid: u32,
    /// Whether it is one of the processes that are asked for.
    pub is_wanted: bool,
    /// Its name, filled with zeros.
    pub comm: [u8; COMM_BYTES],
}

/// A request is issued to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Issue {
    /// Identity of the request until it completes.
    pub key: u64,
    /// Index of the disk among those that are watched.
    pub disk: u8,
    /// What it does.
    pub op: Op,
    /// Flags.
    pub flags: Flags,
    /// Hint.
    pub lifetime: Lifetime,
    /// When, by the monotonic clock.
    pub time_ns: u64,
    /// When the request was made, by the same clock; 0 where it is not known.
    pub begun_ns: u64,
    /// First sector of 512 bytes on the disk.
    pub sector: u64,
    /// Inode; 0 where it is not known.
    pub inode: u64,
    /// Generation of the inode: its number is used again for other files.
    pub generation: u32,
    /// Device number of its file system, as the kernel has it (`major << 20 | minor`).
    pub file_system: u32,
    /// Control group that pays for it; 0 where it is not known.
    pub cgroup: u64,
    /// Length in bytes.
    pub len_bytes: u32,
    /// Who issued it.
    pub issuer: Issuer,
}

/// A request has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    /// Which.
    pub key: u64,
    /// Index of the disk.
    pub disk: u8,
    /// What it did.
    pub op: Op,
    /// Whether it failed.
    pub failed: bool,
    /// Bytes of it; 0 for the end of a flush sequence.
    pub len_bytes: u32,
    /// When, by the monotonic clock.
    pub time_ns: u64,
}

/// Something happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Issued.
    Issue(Issue),
    /// Completed.
    Complete(Complete),
    /// The device gave it back, and it will be issued again.
    Requeue {
        /// Which.
        key: u64,
        /// Index of the disk.
        disk: u8,
    },
    /// It waits in a scheduler; who inserted it is who made it.
    Insert {
        /// Which.
        key: u64,
        /// Who.
        by: Issuer,
    },
}

impl Event {
    /// The event of these bytes; `None` where they are none, or one of an operation that moves no data (zone management).
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

/// The probes' numbers of operations.
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
