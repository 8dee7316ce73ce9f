//! Fixed newstyle negotiation: structured replies, GO.

use super::channel::Channel;
use super::error::NbdError;
use super::wire::{self, Cursor};

/// Longest option reply that is accepted, in bytes.
const REPLY_MAX_BYTES: usize = 64 << 10;
/// A server that sends more replies to one option is treated as broken.
const REPLIES_MAX: usize = 1024;

/// Properties of an export that the server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Transmission flags, as sent (doc/proto.md, "Transmission flags").
    pub flags: u16,
    /// Minimum, preferred and maximum block size in bytes; `None` where the server reports none.
    pub block_sizes_bytes: Option<(u32, u32, u32)>,
    /// Whether replies are structured.
    pub structured: bool,
}

impl ExportInfo {
    /// Whether the server refuses writes.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.flags & 1 << 1 != 0
    }

    /// Whether `NBD_CMD_FLUSH` is offered.
    #[must_use]
    pub fn can_flush(&self) -> bool {
        self.flags & 1 << 2 != 0
    }

    /// Whether `NBD_CMD_FLAG_FUA` is offered.
    #[must_use]
    pub fn can_fua(&self) -> bool {
        self.flags & 1 << 3 != 0
    }

    /// Whether `NBD_CMD_TRIM` is offered.
    #[must_use]
    pub fn can_trim(&self) -> bool {
        self.flags & 1 << 5 != 0
    }

    /// Whether several connections see each other's completed writes and flushes.
    #[must_use]
    pub fn can_multi_conn(&self) -> bool {
        self.flags & 1 << 8 != 0
    }
}

const DURING: &str = "negotiating";

fn protocol(what: &'static str) -> NbdError {
    NbdError::Protocol { what }
}

/// Negotiates `export`.
pub(super) fn negotiate(channel: &mut Channel, export: &str, structured: bool) -> Result<ExportInfo, NbdError> {
    if export.len() > wire::STRING_MAX_BYTES {
        return Err(NbdError::Usage { what: "a name is longer than the 4096 bytes that NBD allows" });
    }
    let greeting = channel.take(18, DURING)?;
    let mut greeting = Cursor(&greeting);
    if greeting.u64() != Some(wire::INIT_MAGIC) || greeting.u64() != Some(wire::OPTION_MAGIC) {
        return Err(protocol("the greeting is not that of a newstyle NBD server"));
    }
    let offered = greeting.u16().unwrap_or(0);
    if offered & wire::FLAG_FIXED_NEWSTYLE == 0 {
        return Err(protocol("it does not offer the fixed newstyle"));
    }
    let flags = u32::from(offered & (wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES));
    channel.send(&[&flags.to_be_bytes()], DURING)?;

    let mut info = ExportInfo::default();
    if structured {
        let answer = option(channel, wire::OPT_STRUCTURED_REPLY, "structured replies", &[], |_, _| Ok(()));
        info.structured = accepted(answer)?;
    }
    go(channel, export, &mut info)?;
    Ok(info)
}

fn go(channel: &mut Channel, export: &str, info: &mut ExportInfo) -> Result<(), NbdError> {
    let mut data = name(export);
    data.extend_from_slice(&1u16.to_be_bytes());
    data.extend_from_slice(&wire::INFO_BLOCK_SIZE.to_be_bytes());
    let mut has_size = false;
    let answer = option(channel, wire::OPT_GO, "the export", &data, |kind, payload| {
        if kind != wire::REP_INFO {
            return Ok(());
        }
        let mut payload = Cursor(payload);
        let short = || protocol("a truncated export information");
        match payload.u16().ok_or_else(short)? {
            wire::INFO_EXPORT => {
                info.size_bytes = payload.u64().ok_or_else(short)?;
                info.flags = payload.u16().ok_or_else(short)?;
                has_size = true;
            }
            wire::INFO_BLOCK_SIZE => {
                let mut next = || payload.u32().ok_or_else(short);
                info.block_sizes_bytes = Some((next()?, next()?, next()?));
            }
            _ => {}
        }
        Ok(())
    });
    if let Err(refusal) = answer {
        // Tells the server that the end is deliberate; an error here does not matter.
        let _ = send_option(channel, wire::OPT_ABORT, &[]);
        return Err(refusal);
    }
    if has_size { Ok(()) } else { Err(protocol("it accepts the export without telling its size")) }
}

fn name(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn send_option(channel: &mut Channel, option: u32, data: &[u8]) -> Result<(), NbdError> {
    let len = (data.len() as u32).to_be_bytes();
    channel.send(&[&wire::OPTION_MAGIC.to_be_bytes(), &option.to_be_bytes(), &len, data], DURING)
}

/// Sends an option, and passes each reply before the final one to `each`.
fn option(
    channel: &mut Channel,
    option: u32,
    what: &'static str,
    data: &[u8],
    mut each: impl FnMut(u32, &[u8]) -> Result<(), NbdError>,
) -> Result<(), NbdError> {
    send_option(channel, option, data)?;
    for _ in 0..REPLIES_MAX {
        let header = channel.take(20, DURING)?;
        let mut header = Cursor(&header);
        if header.u64() != Some(wire::OPTION_REPLY_MAGIC) || header.u32() != Some(option) {
            return Err(protocol("an option reply that belongs to no question"));
        }
        let (kind, len) = (header.u32().unwrap_or(0), header.u32().unwrap_or(0) as usize);
        if len > REPLY_MAX_BYTES {
            return Err(protocol("an option reply of more than 64 KiB"));
        }
        let payload = channel.take(len, DURING)?;
        if kind == wire::REP_ACK {
            return Ok(());
        }
        if kind & wire::REP_ERROR_BIT != 0 {
            let message = String::from_utf8_lossy(&payload).escape_debug().to_string();
            return Err(NbdError::Refused { option: what, reply: kind, message });
        }
        each(kind, &payload)?;
    }
    Err(protocol("an option reply without end"))
}

/// Whether the option was accepted. Refusing an option that the client can do without is an answer, not a failure.
fn accepted(answer: Result<(), NbdError>) -> Result<bool, NbdError> {
    match answer {
        Ok(()) => Ok(true),
        Err(NbdError::Refused { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
