//! blktrace's binary records: 48 bytes in the machine's byte order, followed by data (include/uapi/linux/blktrace_api.h).

use crate::{Flags, Op};

pub(crate) const RECORD_BYTES: usize = 48;
/// The upper bytes of the magic number; the lowest is the version.
pub(crate) const MAGIC: u32 = 0x6561_7400;
pub(crate) const VERSION: u32 = 7;

// Categories, in the upper half of the action.
pub(crate) const TC_READ: u32 = 1 << 16;
pub(crate) const TC_WRITE: u32 = 1 << 17;
pub(crate) const TC_FLUSH: u32 = 1 << 18;
pub(crate) const TC_SYNC: u32 = 1 << 19;
pub(crate) const TC_QUEUE: u32 = 1 << 20;
pub(crate) const TC_ISSUE: u32 = 1 << 22;
pub(crate) const TC_COMPLETE: u32 = 1 << 23;
pub(crate) const TC_FS: u32 = 1 << 24;
pub(crate) const TC_PC: u32 = 1 << 25;
pub(crate) const TC_NOTIFY: u32 = 1 << 26;
pub(crate) const TC_AHEAD: u32 = 1 << 27;
pub(crate) const TC_META: u32 = 1 << 28;
pub(crate) const TC_DISCARD: u32 = 1 << 29;
pub(crate) const TC_DRV_DATA: u32 = 1 << 30;
pub(crate) const TC_FUA: u32 = 1 << 31;

// Actions, in the lower half of the action.
pub(crate) const TA_QUEUE: u32 = 1;
pub(crate) const TA_BACKMERGE: u32 = 2;
pub(crate) const TA_REQUEUE: u32 = 6;
pub(crate) const TA_ISSUE: u32 = 7;
pub(crate) const TA_COMPLETE: u32 = 8;
pub(crate) const TA_INSERT: u32 = 12;
/// The id of the control group precedes the data.
pub(crate) const TA_CGROUP: u32 = 1 << 8;

// Notifications.
pub(crate) const TN_PROCESS: u32 = 0;
pub(crate) const TN_TIMESTAMP: u32 = 1;

/// One record, without its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub sequence: u32,
    pub time_ns: u64,
    pub sector: u64,
    pub len_bytes: u32,
    pub action: u32,
    pub pid: u32,
    pub device: u32,
    pub cpu: u32,
    pub error: u16,
    /// Bytes of data behind the record.
    pub data_bytes: u16,
}

/// Whether four bytes are a magic number of the known version, and in which byte order: `Some(true)` if big-endian.
pub(crate) fn byte_order(magic: [u8; 4]) -> Option<bool> {
    if u32::from_le_bytes(magic) == MAGIC | VERSION {
        Some(false)
    } else if u32::from_be_bytes(magic) == MAGIC | VERSION {
        Some(true)
    } else {
        None
    }
}

impl Record {
    /// Decodes a record in the byte order of its magic number; `None` if it has none.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let is_big = byte_order([bytes[0], bytes[1], bytes[2], bytes[3]])?;
        let word16 = |at: usize| {
            let word = [bytes[at], bytes[at + 1]];
            if is_big { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) }
        };
        let word32 = |at: usize| {
            let word = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            if is_big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let word64 = |at: usize| {
            let (first, second) = (u64::from(word32(at)), u64::from(word32(at + 4)));
            if is_big { first << 32 | second } else { second << 32 | first }
        };
        Some(Self {
            sequence: word32(4),
            time_ns: word64(8),
            sector: word64(16),
            len_bytes: word32(24),
            action: word32(28),
            pid: word32(32),
            device: word32(36),
            cpu: word32(40),
            error: word16(44),
            data_bytes: word16(46),
        })
    }

    /// Encodes the record, little-endian.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&(MAGIC | VERSION).to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.time_ns.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.len_bytes.to_le_bytes());
        put(&self.action.to_le_bytes());
        put(&self.pid.to_le_bytes());
        put(&self.device.to_le_bytes());
        put(&self.cpu.to_le_bytes());
        put(&self.error.to_le_bytes());
        put(&self.data_bytes.to_le_bytes());
        bytes
    }
}

/// The operation of a request by its action. Writes of zeroes without data are writes here: there is no bit for them.
pub(crate) fn op(action: u32, len_bytes: u32) -> Op {
    if action & TC_DISCARD != 0 {
        Op::Discard
    } else if action & TC_FLUSH != 0 && len_bytes == 0 {
        Op::Flush
    } else if action & TC_WRITE != 0 {
        Op::Write
    } else {
        Op::Read
    }
}

const FLAGS: [(u32, Flags); 5] = [
    (TC_META, Flags::META),
    (TC_SYNC, Flags::SYNC),
    (TC_FUA, Flags::FUA),
    (TC_FLUSH, Flags::PREFLUSH),
    (TC_AHEAD, Flags::READ_AHEAD),
];

/// The flags of a request by the categories of its action.
pub(crate) fn flags(action: u32, op: Op) -> Flags {
    let is_set = |&&(bit, flag): &&(u32, Flags)| action & bit != 0 && !(op == Op::Flush && flag == Flags::PREFLUSH);
    FLAGS.iter().filter(is_set).fold(Flags::default(), |flags, &(_, flag)| flags.with(flag))
}

/// The categories of a request.
pub(crate) fn categories(op: Op, flags: Flags) -> u32 {
    let of_op = match op {
        Op::Read | Op::Access => TC_READ,
        Op::Write | Op::WriteZeroes => TC_WRITE,
        Op::Discard => TC_WRITE | TC_DISCARD,
        Op::Flush => TC_READ | TC_FLUSH,
    };
    let of_flags = FLAGS.iter().filter(|&&(_, flag)| flags.has(flag)).fold(0, |bits, &(bit, _)| bits | bit);
    TC_FS | of_op | of_flags
}
