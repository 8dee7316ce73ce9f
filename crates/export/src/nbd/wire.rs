//! Numbers on the wire, all big-endian. Source: the NBD protocol document (`doc/proto.md` of
//! <https://github.com/NetworkBlockDevice/nbd>, section "Values"), and its branch `extension-ext-header` for what is
//! marked "extended headers".

/// First eight bytes of the server: `NBDMAGIC` ("Newstyle negotiation").
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: second eight bytes of the server, and start of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Start of every option reply ("Fixed newstyle negotiation").
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Start of a compact request ("Request message").
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Start of an extended request (extended headers).
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Start of a simple reply ("Simple reply message").
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Start of a structured reply chunk ("Structured reply chunk message").
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Start of an extended reply chunk (extended headers).
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Length of a compact request header in bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of an extended request header in bytes.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Length of an option header in bytes.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Zeros after the reply to `NBD_OPT_EXPORT_NAME`, unless both sides agreed to leave them out.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;
/// Longest string of the protocol in bytes ("Conventions").
pub const STRING_BYTES_MAX: usize = 4096;

/// Handshake flag: fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag: the padding after `NBD_OPT_EXPORT_NAME` may be left out.
pub const FLAG_NO_ZEROES: u16 = 2;

/// Transmission flags ("Transmission flags").
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is offered.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is offered.
    pub const SEND_FUA: u16 = 1 << 3;
    /// TRIM is offered.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is offered.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// "Don't fragment" is offered; only with structured replies or extended headers.
    pub const SEND_DF: u16 = 1 << 7;
    /// Flush and FUA on one connection cover all of them.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is offered.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// WRITE_ZEROES with FAST_ZERO is offered.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Option types ("Option types").
pub mod option {
    /// Choose an export, without a way to report an error.
    pub const EXPORT_NAME: u32 = 1;
    /// End the session.
    pub const ABORT: u32 = 2;
    /// List the exports.
    pub const LIST: u32 = 3;
    /// Upgrade to TLS.
    pub const STARTTLS: u32 = 5;
    /// Describe an export.
    pub const INFO: u32 = 6;
    /// Describe an export and start transmission.
    pub const GO: u32 = 7;
    /// Use structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// List metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Select metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Use extended headers (extended headers).
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Option reply types ("Option reply types").
pub mod reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// A detail of an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Unknown option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// Malformed option.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// Not without TLS.
    pub const ERR_TLS_REQD: u32 = (1 << 31) + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
    /// The server is stopping.
    pub const ERR_SHUTDOWN: u32 = (1 << 31) + 7;
    /// Too large an option.
    pub const ERR_TOO_BIG: u32 = (1 << 31) + 9;
    /// Extended headers were agreed already (extended headers).
    pub const ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;
}

/// Information types of INFO and GO (`NBD_REP_INFO`).
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Canonical name.
    pub const NAME: u16 = 1;
    /// Description for a human.
    pub const DESCRIPTION: u16 = 2;
    /// Size constraints.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Request types ("Request types").
pub mod command {
    /// Read.
    pub const READ: u16 = 0;
    /// Write.
    pub const WRITE: u16 = 1;
    /// End the session.
    pub const DISC: u16 = 2;
    /// Make durable.
    pub const FLUSH: u16 = 3;
    /// Discard.
    pub const TRIM: u16 = 4;
    /// Prefetch.
    pub const CACHE: u16 = 5;
    /// Zero.
    pub const WRITE_ZEROES: u16 = 6;
    /// Metadata of a range.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Command flags ("Command flags").
pub mod command_flag {
    /// Durable when answered.
    pub const FUA: u16 = 1;
    /// WRITE_ZEROES must leave the range allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// READ must come back in one chunk.
    pub const DF: u16 = 1 << 2;
    /// BLOCK_STATUS with one extent.
    pub const REQ_ONE: u16 = 1 << 3;
    /// WRITE_ZEROES fast or not at all.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// The length is that of a payload (extended headers).
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Flag of the last chunk of a reply ("Structured reply flags").
pub const CHUNK_DONE: u16 = 1;

/// Structured reply types ("Structured reply types").
pub mod chunk {
    /// Success without payload.
    pub const NONE: u16 = 0;
    /// Data.
    pub const OFFSET_DATA: u16 = 1;
    /// Extents, 32 bits.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents, 64 bits (extended headers).
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Error.
    pub const ERROR: u16 = (1 << 15) + 1;
    /// Error at an offset.
    pub const ERROR_OFFSET: u16 = (1 << 15) + 2;
}

/// Reads a big-endian u16 at `at`; `None` beyond the end.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a big-endian u32 at `at`; `None` beyond the end.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads a big-endian u64 at `at`; `None` beyond the end.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
