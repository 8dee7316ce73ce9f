//! The session of one client, free of sockets: bytes in, requests out; completions in, bytes out.
//!
//! ```text
//! receive_into ── socket ──> received ──> next ──> Request ──> backend
//!                                           │                     │
//!                 socket <── outgoing <── replies <── complete <──┘
//! ```

use super::command::{Header, Kind, Verdict};
use super::context::ContextSet;
use super::error::{Errno, ProtocolError};
use super::handshake::{Handshake, Step, Style};
use super::inbound::Inbound;
use super::outgoing::Outgoing;
use super::replies::Answer;
use crate::access::{Client, Identity, Security};
use crate::exports::{Export, Exports};
use crate::limits::{
    HANDSHAKE_BUFFER_BYTES, RECEIVE_BUFFER_BYTES, REPLY_BACKLOG_BYTES_MAX, STATUS_EXTENTS_MAX, SessionLimits,
};
use forebay_block::Buf;
use forebay_volume::{Op, Outcome, Request, RequestError};

/// After a write of at least this many bytes the next one is expected to be as large. Then little is received into
/// the common buffer, so that the payload goes straight into its own buffer.
const DIRECT_BYTES_MIN: usize = 32 << 10;
/// The error for requests that arrive while the server is stopping.
const SHUTTING_DOWN: &str = "the server is shutting down";
/// Most bytes received into the common buffer in that case: a header and a little more.
const DIRECT_STAGING_BYTES: usize = 4096;

#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    /// TLS was agreed; no message is processed until it has begun.
    StartingTls(Box<Handshake>),
    Transmission,
    /// The client asked for the end, or the export is gone. Nothing more is read; requests in flight are answered.
    Ending,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    cookie: u64,
    offset_bytes: u64,
    len_bytes: u64,
    /// Bytes that it counts against the limit.
    reserved_bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
struct PartialWrite {
    header: Header,
    buf: Buf,
    filled: usize,
}

/// Statistics of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Requests passed to the backend.
    pub requests: u64,
    /// Bytes that the client has read.
    pub read_bytes: u64,
    /// Bytes that the client has written.
    pub written_bytes: u64,
}

/// A session. [`Session::new`] begins it; its greeting then waits in [`Session::outgoing`].
#[derive(Debug)]
pub struct Session {
    limits: SessionLimits,
    client: Client,
    phase: Phase,
    stopping: bool,
    style: Style,
    contexts: ContextSet,
    /// Index of the export; `None` until it is chosen.
    export: Option<u16>,
    inbound: Inbound,
    out: Outgoing,
    slots: Vec<Option<InFlight>>,
    free: Vec<u16>,
    in_flight: usize,
    reserved_bytes: usize,
    partial: Option<PartialWrite>,
    /// An error to be answered once the payload of the refused request was skipped.
    refusal: Option<(Answer, Errno, &'static str)>,
    stalled: bool,
    expects_large: bool,
    scratch: Vec<(u64, u32)>,
    stats: SessionStats,
}

impl Session {
    /// A session with an unencrypted client of this machine.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self::with(limits, Client::default())
    }

    /// A session with this client.
    #[must_use]
    pub fn with(limits: SessionLimits, client: Client) -> Self {
        let mut out = Outgoing::default();
        let handshake = Handshake::start(&mut out);
        Self {
            limits,
            client,
            phase: Phase::Handshake(Box::new(handshake)),
            stopping: false,
            style: Style::Simple,
            contexts: ContextSet::default(),
            export: None,
            inbound: Inbound::new(HANDSHAKE_BUFFER_BYTES),
            out,
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            reserved_bytes: 0,
            partial: None,
            refusal: None,
            stalled: false,
            expects_large: false,
            scratch: Vec::new(),
            stats: SessionStats::default(),
        }
    }

    /// Whether bytes should be received: not while the client has too much in flight, nor after the end.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !matches!(self.phase, Phase::Ending | Phase::StartingTls(_)) && !self.stalled
    }

    /// Whether TLS was agreed and has not begun. Once [`Session::outgoing`] is sent, nothing unencrypted follows in
    /// either direction. Take [`Session::take_unread`], begin TLS, and call [`Session::secured`].
    #[must_use]
    pub fn is_starting_tls(&self) -> bool {
        matches!(self.phase, Phase::StartingTls(_))
    }

    /// Takes the bytes received after the option that agreed on TLS. They belong to TLS, whatever they are. Processed
    /// as options they would be a hole: an attacker on the network path could have inserted them.
    pub fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.inbound.unread().to_vec();
        self.inbound.consume(unread.len());
        unread
    }

    /// TLS has begun, and the client has proven this identity.
    pub fn secured(&mut self, identity: Identity) {
        self.client.security = Security::Secured(identity);
        match std::mem::replace(&mut self.phase, Phase::Ending) {
            Phase::StartingTls(mut handshake) => {
                handshake.secured();
                self.phase = Phase::Handshake(handshake);
            }
            other => self.phase = other,
        }
    }

    /// What is known of the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether requests wait for others to finish. Call [`Session::next`] after completions and sends.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether no export was chosen yet.
    #[must_use]
    pub fn in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_) | Phase::StartingTls(_))
    }

    /// Index of the export; `None` until it is chosen.
    #[must_use]
    pub fn export(&self) -> Option<u16> {
        self.export
    }

    /// Requests that [`Session::next`] has returned and that are not completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether the session has ended and all answers were sent, so that the connection is to be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ending) && self.in_flight == 0 && self.out.is_empty()
    }

    /// Statistics so far.
    #[must_use]
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Bytes to be sent to the client. Call [`Session::sent`] for those that were sent.
    #[must_use]
    pub fn outgoing(&self) -> &Outgoing {
        &self.out
    }

    /// Removes `count` bytes, which were sent.
    pub fn sent(&mut self, count: usize) {
        self.out.sent(count);
    }

    /// From now on requests are answered by `NBD_ESHUTDOWN` and options by `NBD_REP_ERR_SHUTDOWN`.
    pub fn begin_shutdown(&mut self) {
        self.stopping = true;
    }

    /// Ends the session: nothing more is read, and requests in flight are still answered.
    pub fn end(&mut self) {
        self.phase = Phase::Ending;
        self.stalled = false;
        self.partial = None;
    }

    /// Drops all bytes to be sent, because the client has gone. Requests in flight still complete.
    pub fn abandon(&mut self) {
        self.end();
        self.out.clear();
    }

    /// Where the next received bytes go: first the rest of a write's payload (empty if there is none), then the
    /// common buffer.
    pub fn receive_into(&mut self) -> (&mut [u8], &mut [u8]) {
        let payload = match &mut self.partial {
            Some(partial) => &mut partial.buf[partial.filled..],
            None => &mut [],
        };
        let space = self.inbound.space();
        let cap = if self.expects_large { DIRECT_STAGING_BYTES.min(space.len()) } else { space.len() };
        (payload, &mut space[..cap])
    }

    /// Accepts `count` bytes that were written to the two parts of [`Session::receive_into`], in that order.
    pub fn received(&mut self, count: usize) {
        let mut count = count;
        if let Some(partial) = &mut self.partial {
            let here = count.min(partial.buf.len() - partial.filled);
            partial.filled += here;
            count -= here;
        }
        self.inbound.filled(count);
    }

    /// Receives by copy, for tests and tools. Returns how many bytes were accepted.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let (payload, space) = self.receive_into();
        let first = payload.len().min(bytes.len());
        payload[..first].copy_from_slice(&bytes[..first]);
        let second = space.len().min(bytes.len() - first);
        space[..second].copy_from_slice(&bytes[first..first + second]);
        self.received(first + second);
        first + second
    }

    /// The next request for the backend; `None` where more bytes or completions are needed first. Its token is a
    /// number below [`SessionLimits::requests_max`], to be passed to [`Session::complete`]. Negotiation and invalid
    /// requests are answered here.
    ///
    /// # Errors
    /// The client broke the protocol: call [`Session::abandon`] and close the connection.
    pub fn next(&mut self, exports: &Exports) -> Result<Option<Request>, ProtocolError> {
        self.stalled = false;
        loop {
            if self.out.head_bytes() >= REPLY_BACKLOG_BYTES_MAX {
                self.stalled = true;
                return Ok(None);
            }
            match &mut self.phase {
                Phase::Ending | Phase::StartingTls(_) => return Ok(None),
                Phase::Transmission => {
                    let index = self.export.ok_or(ProtocolError::ExportRemoved)?;
                    let export = exports.get(index).ok_or(ProtocolError::ExportRemoved)?;
                    match self.next_command(index, export)? {
                        Found::Request(request) => return Ok(Some(request)),
                        Found::Nothing => return Ok(None),
                        Found::Answered => {}
                    }
                }
                Phase::Handshake(handshake) => {
                    let seen = exports.seen_by(&self.client);
                    let step = handshake.step(&mut self.inbound, &mut self.out, seen, &self.limits, self.stopping)?;
                    match step {
                        Step::Starved => return Ok(None),
                        Step::Advanced => {}
                        Step::Aborted => self.end(),
                        Step::StartTls => {
                            let handshake = std::mem::take(handshake);
                            self.phase = Phase::StartingTls(handshake);
                        }
                        Step::Chosen(export) => {
                            self.style = handshake.style;
                            self.contexts = handshake.contexts_for(export);
                            self.export = Some(export);
                            self.inbound.grow(RECEIVE_BUFFER_BYTES);
                            self.phase = Phase::Transmission;
                        }
                    }
                }
            }
        }
    }

    fn next_command(&mut self, index: u16, export: &Export) -> Result<Found, ProtocolError> {
        if let Some(partial) = self.partial.take() {
            if partial.filled < partial.buf.len() {
                self.partial = Some(partial);
                return Ok(Found::Nothing);
            }
            if self.stopping {
                // Carried out now, the write would be acknowledged after the last flush of the stop.
                self.reserved_bytes -= reserve_of(Kind::Write, partial.header.len_bytes);
                self.answer_to(&partial.header).error(&mut self.out, Errno::Shutdown, SHUTTING_DOWN, None);
                return Ok(Found::Answered);
            }
            return Ok(self.start(partial.header, Kind::Write, Some(partial.buf), (index, export)));
        }
        if self.inbound.is_skipping() {
            return Ok(Found::Nothing);
        }
        if let Some((answer, errno, message)) = self.refusal.take() {
            answer.error(&mut self.out, errno, message, None);
            return Ok(Found::Answered);
        }
        let Some(header) = Header::parse(self.inbound.unread(), self.style, &self.limits)? else {
            return Ok(Found::Nothing);
        };
        let verdict = match header.judge(export, self.style, self.contexts, &self.limits) {
            Verdict::Accept(_) if self.stopping => Verdict::Refuse(Errno::Shutdown, SHUTTING_DOWN),
            verdict => verdict,
        };
        let kind = match verdict {
            Verdict::Disconnect => {
                self.end();
                return Ok(Found::Answered);
            }
            Verdict::Refuse(errno, message) => {
                let answer = self.answer_to(&header);
                self.refusal = Some((answer, errno, message));
                self.inbound.consume(Header::wire_bytes(self.style));
                self.inbound.skip(u64::from(header.payload_bytes));
                return Ok(Found::Answered);
            }
            Verdict::Accept(kind) => kind,
        };
        let reserve = reserve_of(kind, header.len_bytes);
        if self.lacks_room(reserve) {
            self.stalled = true;
            return Ok(Found::Nothing);
        }
        self.inbound.consume(Header::wire_bytes(self.style));
        self.reserved_bytes += reserve;
        if kind != Kind::Write {
            return Ok(self.start(header, kind, None, (index, export)));
        }
        let len = header.payload_bytes as usize;
        self.expects_large = len >= DIRECT_BYTES_MIN;
        let mut buf = Buf::new(len);
        let here = self.inbound.unread();
        let filled = here.len().min(len);
        buf[..filled].copy_from_slice(&here[..filled]);
        self.inbound.consume(filled);
        if filled < len {
            self.partial = Some(PartialWrite { header, buf, filled });
            return Ok(Found::Nothing);
        }
        Ok(self.start(header, kind, Some(buf), (index, export)))
    }

    fn answer_to(&self, header: &Header) -> Answer {
        Answer { style: self.style, cookie: header.cookie, offset_bytes: header.offset_bytes }
    }

    fn lacks_room(&self, reserve_bytes: usize) -> bool {
        if self.in_flight >= usize::from(self.limits.requests_max) {
            return true;
        }
        let used_bytes = self.reserved_bytes + self.out.pending_bytes();
        used_bytes > 0 && used_bytes + reserve_bytes > self.limits.in_flight_bytes_max
    }

    fn start(&mut self, header: Header, kind: Kind, payload: Option<Buf>, (index, export): (u16, &Export)) -> Found {
        let entry = InFlight {
            cookie: header.cookie,
            offset_bytes: header.offset_bytes,
            len_bytes: header.len_bytes,
            reserved_bytes: reserve_of(kind, header.len_bytes),
            kind,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[usize::from(slot)] = Some(entry);
                slot
            }
            None => {
                // At most `requests_max` entries, whose count is a u16.
                self.slots.push(Some(entry));
                (self.slots.len() - 1) as u16
            }
        };
        self.in_flight += 1;
        self.stats.requests += 1;
        let op = match (kind, payload) {
            (Kind::Write, Some(buf)) => {
                self.stats.written_bytes += header.len_bytes;
                Op::Write(buf)
            }
            (Kind::Write, None) => Op::Write(Buf::new(0)),
            (Kind::Read, _) => {
                self.stats.read_bytes += header.len_bytes;
                Op::Read
            }
            (Kind::Flush, _) => Op::Flush,
            (Kind::Trim, _) => Op::Discard,
            (Kind::Cache, _) => Op::Cache,
            (Kind::WriteZeroes { may_unmap }, _) => Op::WriteZeroes { may_unmap },
            // More extents are requested even for a single one, because neighbours may have the same status in the
            // context and are merged.
            (Kind::Status { .. }, _) => Op::Status { max_extents: STATUS_EXTENTS_MAX },
        };
        Found::Request(Request {
            token: u64::from(slot),
            disk: export.disk,
            offset_bytes: header.offset_bytes,
            len_bytes: header.len_bytes,
            op,
            fua: header.fua(),
            export: index,
            session: 0,
            tag: export.tag,
            hints: None,
        })
    }

    /// Answers the request with this `token`. A token that is not in flight is ignored.
    pub fn complete(&mut self, token: u64, result: Result<Outcome, RequestError>) {
        let Ok(slot) = u16::try_from(token) else {
            return;
        };
        let Some(entry) = self.slots.get_mut(usize::from(slot)).and_then(Option::take) else {
            return;
        };
        self.free.push(slot);
        self.in_flight -= 1;
        self.reserved_bytes -= entry.reserved_bytes;
        let answer = Answer { style: self.style, cookie: entry.cookie, offset_bytes: entry.offset_bytes };
        let out = &mut self.out;
        match (entry.kind, result) {
            (Kind::Read, Ok(Outcome::Data(data))) if data.len() as u64 == entry.len_bytes => answer.data(out, data),
            (Kind::Status { one }, Ok(Outcome::Extents(extents))) if extents.iter().any(|e| e.len_bytes > 0) => {
                answer.status(out, self.contexts, &extents, entry.len_bytes, one, &mut self.scratch);
            }
            (Kind::Read | Kind::Status { .. }, Ok(_)) => {
                // A bug of the backend must not become wrong data.
                answer.error(out, Errno::Io, "the volume's answer does not fit the request", None);
            }
            (_, Ok(_)) => answer.done(out),
            (kind, Err(error)) => {
                let at_bytes = match error {
                    // "which MUST lie within the original offset and length of the request".
                    RequestError::Damaged { offset_bytes, .. }
                        if offset_bytes >= entry.offset_bytes
                            && offset_bytes - entry.offset_bytes < entry.len_bytes =>
                    {
                        Some(offset_bytes)
                    }
                    _ => None,
                };
                answer.error(out, Errno::of(&error, kind.writes()), &error.to_string(), at_bytes);
            }
        }
    }
}

/// Result of the search for a request.
enum Found {
    Request(Request),
    Answered,
    Nothing,
}

/// Bytes that a request counts against the limit of bytes in flight.
fn reserve_of(kind: Kind, len_bytes: u64) -> usize {
    match kind {
        // Both were checked against the maximum payload, which has 32 bits.
        Kind::Read | Kind::Write => len_bytes as usize,
        // At most two contexts, with 16 bytes per extent where headers are extended.
        Kind::Status { .. } => STATUS_EXTENTS_MAX * 2 * 16,
        _ => 0,
    }
}
