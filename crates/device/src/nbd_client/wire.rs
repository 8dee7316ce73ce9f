//! Constants of the NBD protocol (NetworkBlockDevice/nbd, doc/proto.md), under its names without the prefix.

pub(super) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(super) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(super) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same bits in both directions.
pub(super) const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
pub(super) const FLAG_NO_ZEROES: u16 = 1 << 1;

pub(super) const OPT_ABORT: u32 = 2;
pub(super) const OPT_GO: u32 = 7;
pub(super) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(super) const OPT_SET_META_CONTEXT: u32 = 10;

pub(super) const REP_ACK: u32 = 1;
pub(super) const REP_INFO: u32 = 3;
pub(super) const REP_META_CONTEXT: u32 = 4;
/// Set in every reply type that is an error.
pub(super) const REP_ERROR_BIT: u32 = 1 << 31;

pub(super) const INFO_EXPORT: u16 = 0;
pub(super) const INFO_BLOCK_SIZE: u16 = 3;

pub(super) const CMD_READ: u16 = 0;
pub(super) const CMD_WRITE: u16 = 1;
pub(super) const CMD_DISC: u16 = 2;
pub(super) const CMD_FLUSH: u16 = 3;
pub(super) const CMD_TRIM: u16 = 4;
pub(super) const CMD_CACHE: u16 = 5;
pub(super) const CMD_WRITE_ZEROES: u16 = 6;
pub(super) const CMD_BLOCK_STATUS: u16 = 7;

pub(super) const CMD_FLAG_FUA: u16 = 1 << 0;
pub(super) const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub(super) const CMD_FLAG_DF: u16 = 1 << 2;
pub(super) const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub(super) const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

pub(super) const REPLY_FLAG_DONE: u16 = 1 << 0;
pub(super) const REPLY_TYPE_NONE: u16 = 0;
pub(super) const REPLY_TYPE_OFFSET_DATA: u16 = 1;
pub(super) const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
pub(super) const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Set in every chunk type that is an error.
pub(super) const REPLY_TYPE_ERROR_BIT: u16 = 1 << 15;

/// Longest string of the protocol, in bytes.
pub(super) const STRING_MAX_BYTES: usize = 4096;

/// Reads big-endian numbers off the front of a message; `None` where it is too short.
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }
}
