//! Requests of the transmission phase, parsed and checked before anything is allocated ("Request message", "Request
//! types", "Command flags").

use super::context::ContextSet;
use super::error::{Errno, ProtocolError};
use super::handshake::Style;
use super::wire::{self, command, command_flag as flag, u16_at, u32_at, u64_at};
use crate::exports::Export;
use crate::limits::{MIN_BLOCK_BYTES, SessionLimits};

/// A request as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Command flags.
    pub flags: u16,
    /// Request type.
    pub kind: u16,
    /// The client's identifier, returned in the reply.
    pub cookie: u64,
    /// Byte offset.
    pub offset_bytes: u64,
    /// Length of the range or payload, in bytes.
    pub len_bytes: u64,
    /// Bytes that follow the header.
    pub payload_bytes: u32,
}

/// Operation of a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// FLUSH.
    Flush,
    /// TRIM.
    Trim,
    /// CACHE.
    Cache,
    /// WRITE_ZEROES.
    WriteZeroes {
        /// Whether the range may be deallocated (NO_HOLE is not set).
        may_unmap: bool,
    },
    /// BLOCK_STATUS.
    Status {
        /// REQ_ONE: at most one extent per context.
        one: bool,
    },
}

impl Kind {
    /// Whether a range beyond the end is answered by `NBD_ENOSPC`.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::WriteZeroes { .. })
    }
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Carry the request out.
    Accept(Kind),
    /// Answer with this error after its payload was skipped.
    Refuse(Errno, &'static str),
    /// The client ends the session.
    Disconnect,
}

impl Header {
    /// Length of a request header, in bytes.
    #[must_use]
    pub fn wire_bytes(style: Style) -> usize {
        if style == Style::Extended { wire::EXTENDED_REQUEST_BYTES } else { wire::REQUEST_BYTES }
    }

    /// Parses a header; `None` where it is not complete.
    ///
    /// # Errors
    /// The magic is wrong, or the payload is longer than allowed: the stream cannot be followed any further.
    pub fn parse(bytes: &[u8], style: Style, limits: &SessionLimits) -> Result<Option<Self>, ProtocolError> {
        let expected = if style == Style::Extended { wire::EXTENDED_REQUEST_MAGIC } else { wire::REQUEST_MAGIC };
        let Some(magic) = u32_at(bytes, 0) else {
            return Ok(None);
        };
        if magic != expected {
            return Err(ProtocolError::RequestMagic(magic));
        }
        let (Some(flags), Some(kind), Some(cookie), Some(offset_bytes)) =
            (u16_at(bytes, 4), u16_at(bytes, 6), u64_at(bytes, 8), u64_at(bytes, 16))
        else {
            return Ok(None);
        };
        let len_bytes = if style == Style::Extended { u64_at(bytes, 24) } else { u32_at(bytes, 24).map(u64::from) };
        let Some(len_bytes) = len_bytes else {
            return Ok(None);
        };
        let has_payload =
            if style == Style::Extended { flags & flag::PAYLOAD_LEN != 0 } else { kind == command::WRITE };
        let payload_bytes = if has_payload {
            match u32::try_from(len_bytes) {
                Ok(len) if len <= limits.payload_bytes_max => len,
                _ => {
                    return Err(ProtocolError::PayloadLength { len_bytes, max_bytes: limits.payload_bytes_max });
                }
            }
        } else {
            0
        };
        Ok(Some(Self { flags, kind, cookie, offset_bytes, len_bytes, payload_bytes }))
    }

    /// Whether the request must be durable when answered. The flag is valid on every command, even where it is
    /// useless.
    #[must_use]
    pub fn fua(&self) -> bool {
        self.flags & flag::FUA != 0
    }

    /// Checks the request.
    #[must_use]
    pub fn judge(&self, export: &Export, style: Style, contexts: ContextSet, limits: &SessionLimits) -> Verdict {
        use Verdict::Refuse;
        let (kind, allowed) = match self.kind {
            command::READ => (Kind::Read, if style == Style::Simple { 0 } else { flag::DF }),
            // In a compact header PAYLOAD_LEN is an unknown flag.
            command::WRITE => (Kind::Write, if style == Style::Extended { flag::PAYLOAD_LEN } else { 0 }),
            command::DISC => return Verdict::Disconnect,
            command::FLUSH => (Kind::Flush, 0),
            command::TRIM => (Kind::Trim, 0),
            command::CACHE => (Kind::Cache, 0),
            command::WRITE_ZEROES => (
                Kind::WriteZeroes { may_unmap: self.flags & flag::NO_HOLE == 0 },
                // Zeroing only changes the map and is always faster than writing, so FAST_ZERO needs no more.
                flag::NO_HOLE | flag::FAST_ZERO,
            ),
            command::BLOCK_STATUS => (Kind::Status { one: self.flags & flag::REQ_ONE != 0 }, flag::REQ_ONE),
            _ => return Refuse(Errno::Invalid, "unknown command"),
        };
        if self.flags & !(allowed | flag::FUA) != 0 {
            return Refuse(Errno::Invalid, "a command flag is unknown or does not apply");
        }
        if kind == Kind::Write && style == Style::Extended && self.flags & flag::PAYLOAD_LEN == 0 {
            return Refuse(Errno::Invalid, "a write without a payload");
        }
        if kind == Kind::Flush {
            // "length and offset are reserved, and MUST be set to all-zero".
            return if self.offset_bytes == 0 && self.len_bytes == 0 {
                Verdict::Accept(kind)
            } else {
                Refuse(Errno::Invalid, "a flush with an offset or a length")
            };
        }
        if export.read_only && (kind.writes() || kind == Kind::Trim) {
            return Refuse(Errno::Perm, "the export is read-only");
        }
        if matches!(kind, Kind::Status { .. }) && contexts.is_empty() {
            return Refuse(Errno::Invalid, "no metadata context was selected for this export");
        }
        if self.len_bytes == 0 {
            return Refuse(Errno::Invalid, "the length is zero");
        }
        if !(self.offset_bytes | self.len_bytes).is_multiple_of(u64::from(MIN_BLOCK_BYTES)) {
            return Refuse(Errno::Invalid, "offset or length is not a multiple of 512 bytes");
        }
        if self.offset_bytes.checked_add(self.len_bytes).is_none_or(|end| end > export.size_bytes) {
            let errno = if kind.writes() { Errno::NoSpace } else { Errno::Invalid };
            return Refuse(errno, "the range lies beyond the end of the export");
        }
        if kind == Kind::Read && self.len_bytes > u64::from(limits.payload_bytes_max) {
            // "a command without payload requests a length larger than an advertised maximum payload length".
            return Refuse(Errno::Overflow, "the read is longer than the advertised maximum payload");
        }
        Verdict::Accept(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::nbd::context::Context;
    use forebay_block::DiskId;

    fn judge(kind: u16, flags: u16, offset_bytes: u64, len_bytes: u64, read_only: bool, style: Style) -> Verdict {
        let export = Export {
            name: String::new(),
            disk: DiskId(0),
            size_bytes: 1 << 30,
            read_only,
            tag: None,
            description: String::new(),
            access: Access::default(),
        };
        let mut contexts = ContextSet::default();
        contexts.insert(Context::Allocation);
        let header = Header { flags, kind, cookie: 0, offset_bytes, len_bytes, payload_bytes: 0 };
        header.judge(&export, style, contexts, &SessionLimits::default())
    }

    fn errno(verdict: Verdict) -> Option<Errno> {
        if let Verdict::Refuse(errno, _) = verdict { Some(errno) } else { None }
    }

    #[test]
    fn errors_are_those_of_the_specification() {
        use Style::{Extended, Simple, Structured};
        let end = 1 << 30;
        // (kind, flags, offset, len, read-only, style) -> error
        let cases = [
            ((command::READ, 0, 0, 4096, false, Simple), None),
            ((command::READ, flag::DF, 0, 4096, false, Structured), None),
            ((command::READ, flag::DF, 0, 4096, false, Simple), Some(Errno::Invalid)),
            ((command::READ, flag::FUA, 0, 4096, false, Simple), None),
            ((command::READ, flag::NO_HOLE, 0, 4096, false, Simple), Some(Errno::Invalid)),
            ((command::READ, 0, end, 512, false, Simple), Some(Errno::Invalid)),
            ((command::READ, 0, u64::MAX - 511, 512, false, Simple), Some(Errno::Invalid)),
            ((command::READ, 0, 0, 64 << 20, false, Structured), Some(Errno::Overflow)),
            ((command::READ, 0, 1, 512, false, Simple), Some(Errno::Invalid)),
            ((command::READ, 0, 0, 100, false, Simple), Some(Errno::Invalid)),
            ((command::READ, 0, 0, 0, false, Simple), Some(Errno::Invalid)),
            ((command::WRITE, flag::FUA, end - 512, 512, false, Simple), None),
            ((command::WRITE, 0, end - 512, 1024, false, Simple), Some(Errno::NoSpace)),
            ((command::WRITE, 0, 0, 512, true, Simple), Some(Errno::Perm)),
            ((command::WRITE, 0, 0, 512, false, Extended), Some(Errno::Invalid)),
            ((command::WRITE, flag::PAYLOAD_LEN, 0, 512, false, Extended), None),
            ((command::WRITE, flag::PAYLOAD_LEN, 0, 512, false, Structured), Some(Errno::Invalid)),
            ((command::READ, flag::PAYLOAD_LEN, 0, 512, false, Extended), Some(Errno::Invalid)),
            ((command::FLUSH, flag::FUA, 0, 0, true, Simple), None),
            ((command::FLUSH, 0, 0, 1, false, Simple), Some(Errno::Invalid)),
            ((command::TRIM, 0, 0, end, false, Simple), None),
            ((command::TRIM, 0, 0, end + 512, false, Simple), Some(Errno::Invalid)),
            ((command::TRIM, 0, 0, 512, true, Simple), Some(Errno::Perm)),
            ((command::WRITE_ZEROES, flag::FAST_ZERO | flag::NO_HOLE | flag::FUA, 0, end, false, Simple), None),
            ((command::WRITE_ZEROES, 0, 512, end, false, Simple), Some(Errno::NoSpace)),
            ((command::WRITE_ZEROES, 0, 0, 512, true, Simple), Some(Errno::Perm)),
            ((command::CACHE, 0, 0, end, true, Simple), None),
            ((command::CACHE, flag::DF, 0, 512, false, Structured), Some(Errno::Invalid)),
            ((command::BLOCK_STATUS, flag::REQ_ONE, 0, end, true, Structured), None),
            ((command::BLOCK_STATUS, 0, end, 512, false, Structured), Some(Errno::Invalid)),
            ((99, 0, 0, 512, false, Simple), Some(Errno::Invalid)),
        ];
        for (case, expected) in cases {
            let (kind, flags, offset, len, read_only, style) = case;
            assert_eq!(errno(judge(kind, flags, offset, len, read_only, style)), expected, "{case:?}");
        }
        assert_eq!(judge(command::DISC, 0, 0, 0, false, Simple), Verdict::Disconnect);
    }

    #[test]
    fn status_needs_a_selected_context() {
        let export = Export {
            name: String::new(),
            disk: DiskId(0),
            size_bytes: 1 << 20,
            read_only: false,
            tag: None,
            description: String::new(),
            access: Access::default(),
        };
        let header = Header {
            flags: 0,
            kind: command::BLOCK_STATUS,
            cookie: 0,
            offset_bytes: 0,
            len_bytes: 512,
            payload_bytes: 0,
        };
        let verdict = header.judge(&export, Style::Structured, ContextSet::default(), &SessionLimits::default());
        assert_eq!(errno(verdict), Some(Errno::Invalid));
    }
}
