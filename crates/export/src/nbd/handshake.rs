//! Fixed newstyle negotiation ("Handshake"): from the first byte to the chosen export.

use super::context::{Context, ContextSet};
use super::error::ProtocolError;
use super::inbound::Inbound;
use super::options::{ContextRequest, InfoRequest, text};
use super::outgoing::Outgoing;
use super::wire::{self, info, option, reply, transmission, u32_at, u64_at};
use crate::access::Security;
use crate::exports::{Export, Seen};
use crate::limits::{self, SessionLimits};

/// Form of replies, as negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Simple replies.
    #[default]
    Simple,
    /// Structured replies.
    Structured,
    /// Extended headers.
    Extended,
}

/// Result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    Starved,
    /// A message was processed; there may be more.
    Advanced,
    /// The client chose the export with this index; transmission begins.
    Chosen(u16),
    /// The client ends the session.
    Aborted,
    /// TLS was agreed: everything after this option belongs to TLS.
    StartTls,
}

/// State of the negotiation.
#[derive(Debug, Default)]
pub struct Handshake {
    has_client_flags: bool,
    no_zeroes: bool,
    options: u32,
    /// Form of replies agreed so far.
    pub style: Style,
    /// Contexts selected so far, and the export that they are for.
    selected: Option<(u16, ContextSet)>,
}

impl Handshake {
    /// Starts the negotiation: queues the server's greeting.
    pub fn start(out: &mut Outgoing) -> Self {
        out.put(&wire::INIT_MAGIC.to_be_bytes());
        out.put(&wire::OPTION_MAGIC.to_be_bytes());
        out.put(&(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES).to_be_bytes());
        Self::default()
    }

    /// TLS has begun: "the server MUST NOT preserve any negotiation state" (`NBD_OPT_STARTTLS`), because an attacker
    /// on the network path could have set it. The count of options is kept.
    pub fn secured(&mut self) {
        self.style = Style::Simple;
        self.selected = None;
    }

    /// The contexts in force for `export`. BLOCK_STATUS is valid only where the last SET_META_CONTEXT named the
    /// export that was then chosen.
    #[must_use]
    pub fn contexts_for(&self, export: u16) -> ContextSet {
        match self.selected {
            Some((selected, contexts)) if selected == export => contexts,
            _ => ContextSet::default(),
        }
    }

    /// Processes at most one message. `stopping`: options are answered by `NBD_REP_ERR_SHUTDOWN`.
    ///
    /// # Errors
    /// The connection must be ended.
    pub fn step(
        &mut self,
        inbound: &mut Inbound,
        out: &mut Outgoing,
        exports: Seen<'_>,
        limits: &SessionLimits,
        stopping: bool,
    ) -> Result<Step, ProtocolError> {
        if inbound.is_skipping() {
            return Ok(Step::Starved);
        }
        if !self.has_client_flags {
            let Some(flags) = u32_at(inbound.unread(), 0) else {
                return Ok(Step::Starved);
            };
            // The client flags have the same bits as the server's handshake flags.
            if flags & !u32::from(wire::FLAG_FIXED_NEWSTYLE | wire::FLAG_NO_ZEROES) != 0 {
                return Err(ProtocolError::ClientFlags(flags));
            }
            self.no_zeroes = flags & u32::from(wire::FLAG_NO_ZEROES) != 0;
            self.has_client_flags = true;
            inbound.consume(4);
            return Ok(Step::Advanced);
        }
        let unread = inbound.unread();
        let (Some(magic), Some(kind), Some(len_bytes)) = (u64_at(unread, 0), u32_at(unread, 8), u32_at(unread, 12))
        else {
            return Ok(Step::Starved);
        };
        if magic != wire::OPTION_MAGIC {
            return Err(ProtocolError::OptionMagic(magic));
        }
        let len = len_bytes as usize;
        if len > limits::OPTION_BYTES_MAX {
            if len > limits::OPTION_SKIP_BYTES_MAX || kind == option::EXPORT_NAME {
                return Err(ProtocolError::OptionLength { option: kind, len_bytes });
            }
            self.count(limits)?;
            put_reply(out, kind, reply::ERR_TOO_BIG, &[b"the option is too long"]);
            inbound.consume(wire::OPTION_HEADER_BYTES);
            inbound.skip(u64::from(len_bytes));
            return Ok(Step::Advanced);
        }
        let Some(data) = unread.get(wire::OPTION_HEADER_BYTES..wire::OPTION_HEADER_BYTES + len) else {
            return Ok(Step::Starved);
        };
        self.count(limits)?;
        let step = if stopping && kind != option::ABORT && kind != option::EXPORT_NAME {
            put_reply(out, kind, reply::ERR_SHUTDOWN, &[]);
            Step::Advanced
        } else {
            self.answer(kind, data, out, exports, limits)?
        };
        inbound.consume(wire::OPTION_HEADER_BYTES + len);
        Ok(step)
    }

    fn count(&mut self, limits: &SessionLimits) -> Result<(), ProtocolError> {
        self.options += 1;
        if self.options > limits.options_max {
            return Err(ProtocolError::TooManyOptions(limits.options_max));
        }
        Ok(())
    }

    fn answer(
        &mut self,
        kind: u32,
        data: &[u8],
        out: &mut Outgoing,
        exports: Seen<'_>,
        limits: &SessionLimits,
    ) -> Result<Step, ProtocolError> {
        match kind {
            option::ABORT => {
                put_reply(out, kind, reply::ACK, &[]);
                return Ok(Step::Aborted);
            }
            option::STARTTLS => return Ok(start_tls(data, out, exports.security())),
            _ if is_tls_forced(exports) => {
                if kind == option::EXPORT_NAME {
                    return Err(ProtocolError::NeedsTls);
                }
                put_reply(out, kind, reply::ERR_TLS_REQD, &[b"TLS is required"]);
            }
            option::EXPORT_NAME => return self.export_name(data, out, exports),
            option::INFO | option::GO => return Ok(self.describe(kind, data, out, exports, limits)),
            option::LIST if data.is_empty() => {
                for (_, export) in exports.iter() {
                    let len = (export.name.len() as u32).to_be_bytes();
                    put_reply(out, kind, reply::SERVER, &[&len, export.name.as_bytes(), export.description.as_bytes()]);
                }
                put_reply(out, kind, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                if self.style == Style::Extended {
                    put_reply(out, kind, reply::ERR_EXT_HEADER_REQD, &[b"extended headers were agreed already"]);
                } else {
                    self.style = Style::Structured;
                    put_reply(out, kind, reply::ACK, &[]);
                }
            }
            option::EXTENDED_HEADERS if data.is_empty() => {
                self.style = Style::Extended;
                put_reply(out, kind, reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY | option::EXTENDED_HEADERS => {
                put_reply(out, kind, reply::ERR_INVALID, &[b"the option takes no data"]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(kind, data, out, exports),
            _ => put_reply(out, kind, reply::ERR_UNSUP, &[]),
        }
        Ok(Step::Advanced)
    }

    fn export_name(&self, data: &[u8], out: &mut Outgoing, exports: Seen<'_>) -> Result<Step, ProtocolError> {
        if self.style == Style::Extended {
            return Err(ProtocolError::ExportNameAfterExtended);
        }
        let found = text(data).ok().and_then(|name| exports.find(name));
        let Some((index, export)) = found else {
            if exports.needs_tls() {
                return Err(ProtocolError::NeedsTls);
            }
            return Err(ProtocolError::NoSuchExport(String::from_utf8_lossy(data).into_owned()));
        };
        out.put(&export.size_bytes.to_be_bytes());
        out.put(&self.transmission_flags(export).to_be_bytes());
        if !self.no_zeroes {
            out.put(&[0; wire::EXPORT_NAME_PADDING_BYTES]);
        }
        Ok(Step::Chosen(index))
    }

    fn describe(&self, kind: u32, data: &[u8], out: &mut Outgoing, exports: Seen<'_>, limits: &SessionLimits) -> Step {
        let request = match InfoRequest::parse(data) {
            Ok(request) => request,
            Err(problem) => {
                put_reply(out, kind, reply::ERR_INVALID, &[problem.as_bytes()]);
                return Step::Advanced;
            }
        };
        let Some((index, export)) = exports.find(request.name) else {
            // "MAY reply with NBD_REP_ERR_TLS_REQD if that export is non-existent": so the answer does not reveal
            // which exports exist.
            if exports.needs_tls() {
                put_reply(out, kind, reply::ERR_TLS_REQD, &[b"TLS is required"]);
            } else {
                put_reply(out, kind, reply::ERR_UNKNOWN, &[b"there is no export of that name"]);
            }
            return Step::Advanced;
        };
        let mut put_info = |info: u16, parts: [&[u8]; 3]| {
            put_reply(out, kind, reply::INFO, &[&info.to_be_bytes(), parts[0], parts[1], parts[2]]);
        };
        let flags = self.transmission_flags(export);
        put_info(info::EXPORT, [&export.size_bytes.to_be_bytes(), &flags.to_be_bytes(), &[]]);
        if request.wants(info::NAME) {
            put_info(info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if request.wants(info::DESCRIPTION) {
            put_info(info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        if request.wants(info::BLOCK_SIZE) {
            put_info(
                info::BLOCK_SIZE,
                [
                    &limits::MIN_BLOCK_BYTES.to_be_bytes(),
                    &limits::PREFERRED_BLOCK_BYTES.to_be_bytes(),
                    &limits.payload_bytes_max.to_be_bytes(),
                ],
            );
        }
        put_reply(out, kind, reply::ACK, &[]);
        if kind == option::GO { Step::Chosen(index) } else { Step::Advanced }
    }

    fn contexts(&mut self, kind: u32, data: &[u8], out: &mut Outgoing, exports: Seen<'_>) {
        let selecting = kind == option::SET_META_CONTEXT;
        if selecting {
            // "replaces all previously-set metadata contexts (including when this command fails)".
            self.selected = None;
        }
        if self.style == Style::Simple {
            put_reply(out, kind, reply::ERR_INVALID, &[b"structured replies must be agreed first"]);
            return;
        }
        let request = match ContextRequest::parse(data) {
            Ok(request) => request,
            Err(problem) => {
                put_reply(out, kind, reply::ERR_INVALID, &[problem.as_bytes()]);
                return;
            }
        };
        let Some((index, _)) = exports.find(request.name) else {
            put_reply(out, kind, reply::ERR_UNKNOWN, &[b"there is no export of that name"]);
            return;
        };
        let mut found = ContextSet::default();
        for context in Context::ALL {
            let wanted = if selecting {
                request.queries().any(|query| query == context.name())
            } else {
                request.count == 0 || request.queries().any(|query| context.is_listed_by(query))
            };
            if wanted {
                found.insert(context);
                let id = if selecting { context.id() } else { 0 };
                put_reply(out, kind, reply::META_CONTEXT, &[&id.to_be_bytes(), context.name().as_bytes()]);
            }
        }
        if selecting {
            self.selected = Some((index, found));
        }
        put_reply(out, kind, reply::ACK, &[]);
    }

    fn transmission_flags(&self, export: &Export) -> u16 {
        let mut flags = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::SEND_TRIM
            | transmission::SEND_WRITE_ZEROES
            | transmission::SEND_FAST_ZERO
            | transmission::SEND_CACHE
            | transmission::CAN_MULTI_CONN;
        if export.read_only {
            flags |= transmission::READ_ONLY;
        }
        if self.style != Style::Simple {
            flags |= transmission::SEND_DF;
        }
        flags
    }
}

/// "FORCEDTLS mode": without TLS this client may use no export, so it is not shown any either.
fn is_tls_forced(exports: Seen<'_>) -> bool {
    *exports.security() == Security::Offered && exports.needs_tls() && exports.iter().next().is_none()
}

fn start_tls(data: &[u8], out: &mut Outgoing, security: &Security) -> Step {
    let (kind, message): (u32, &[u8]) = match security {
        Security::Plain => (reply::ERR_UNSUP, b"TLS is not configured"),
        Security::Secured(_) => (reply::ERR_INVALID, b"this is TLS already"),
        Security::Offered if !data.is_empty() => (reply::ERR_INVALID, b"the option takes no data"),
        Security::Offered => {
            put_reply(out, option::STARTTLS, reply::ACK, &[]);
            return Step::StartTls;
        }
    };
    put_reply(out, option::STARTTLS, kind, &[message]);
    Step::Advanced
}

fn put_reply(out: &mut Outgoing, option: u32, kind: u32, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.put(&wire::OPTION_REPLY_MAGIC.to_be_bytes());
    out.put(&option.to_be_bytes());
    out.put(&kind.to_be_bytes());
    out.put(&(len as u32).to_be_bytes());
    for part in parts {
        out.put(part);
    }
}
