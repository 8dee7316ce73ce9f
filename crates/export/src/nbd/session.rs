//! One client's session, free of sockets: bytes in, requests out; completions in, bytes out.
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

/// After a write of at least this many bytes the next one is expected to be as large: little is received into the
/// common buffer then, so that its payload goes straight where it belongs.
const DIRECT_BYTES_MIN: usize = 32 << 10;
/// The error of requests that come while the server stops.
const SHUTTING_DOWN: &str = "the server is shutting down";
/// What is received into the common buffer in that case: a header and some.
const DIRECT_STAGING_BYTES: usize = 4096;

#[derive(Debug)]
enum Phase {
    Handshake(Box<Handshake>),
    /// TLS was agreed; nothing is understood until it has begun.
    StartingTls(Box<Handshake>),
    Transmission,
    /// The client asked for the end, or the export is gone: nothing more is read, what is in flight is answered.
    Ending,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    cookie: u64,
    offset_bytes: u64,
    len_bytes: u64,
    /// What it counts against the limit.
    reserved_bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
struct PartialWrite {
    header: Header,
    buf: Buf,
    filled: usize,
}

/// Numbers of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Requests handed to the backend.
    pub requests: u64,
    /// Bytes read by the client.
    pub read_bytes: u64,
    /// Bytes written by the client.
    pub written_bytes: u64,
}

/// A session. Start with [`Session::new`], whose greeting waits in [`Session::outgoing`].
#[derive(Debug)]
pub struct Session {
    limits: SessionLimits,
    client: Client,
    phase: Phase,
    stopping: bool,
    style: Style,
    contexts: ContextSet,
    /// The export, once it is chosen.
    export: Option<u16>,
    inbound: Inbound,
    out: Outgoing,
    slots: Vec<Option<InFlight>>,
    free: Vec<u16>,
    in_flight: usize,
    reserved_bytes: usize,
    partial: Option<PartialWrite>,
    /// An error to answer once the payload of the refused request was skipped.
    refusal: Option<(Answer, Errno, &'static str)>,
    stalled: bool,
    expects_large: bool,
    scratch: Vec<(u64, u32)>,
    stats: SessionStats,
}

impl Session {
    /// A session that greets a client of this machine, in the clear.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self::with(limits, Client::default())
    }

    /// A session that greets this client.
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

    /// Whether TLS was agreed and has not begun: once [`Session::outgoing`] is sent, nothing in the clear follows in either
    /// direction. Begin with [`Session::take_unread`] and end with [`Session::secured`].
    #[must_use]
    pub fn is_starting_tls(&self) -> bool {
        matches!(self.phase, Phase::StartingTls(_))
    }

    /// What was received after the option that agreed on TLS. It belongs to TLS, whatever it is: taken for options, somebody
    /// on the way could have put them there.
    pub fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.inbound.unread().to_vec();
        self.inbound.consume(unread.len());
        unread
    }

    /// TLS has begun, with this client.
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

    /// The client, as far as it is known.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether requests wait for others to finish: call [`Session::next`] after completions and sends.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether no export was chosen yet.
    #[must_use]
    pub fn in_handshake(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_) | Phase::StartingTls(_))
    }

    /// Index of the export, once chosen.
    #[must_use]
    pub fn export(&self) -> Option<u16> {
        self.export
    }

    /// Requests handed out by [`Session::next`] and not completed.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether the session has come to its end and all was answered and sent: the connection is to be closed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ending) && self.in_flight == 0 && self.out.is_empty()
    }

    /// Numbers so far.
    #[must_use]
    pub fn stats(&self) -> SessionStats {
        self.stats
    }

    /// Bytes for the client. Remove what was sent by [`Session::sent`].
    #[must_use]
    pub fn outgoing(&self) -> &Outgoing {
        &self.out
    }

    /// Takes note that `count` bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.out.sent(count);
    }

    /// From now on requests are answered with `NBD_ESHUTDOWN` and options with `NBD_REP_ERR_SHUTDOWN`.
    pub fn begin_shutdown(&mut self) {
        self.stopping = true;
    }

    /// Ends the session: nothing more is read; what is in flight is still answered.
    pub fn end(&mut self) {
        self.phase = Phase::Ending;
        self.stalled = false;
        self.partial = None;
    }

    /// The client is gone: forgets what was to be sent. Requests in flight still complete.
    pub fn abandon(&mut self) {
        self.end();
        self.out.clear();
    }

    /// Where the next bytes go: first the rest of a write's payload (empty if none), then the common buffer.
    pub fn receive_into(&mut self) -> (&mut [u8], &mut [u8]) {
        let payload = match &mut self.partial {
            Some(partial) => &mut partial.buf[partial.filled..],
            None => &mut [],
        };
        let space = self.inbound.space();
        let cap = if self.expects_large { DIRECT_STAGING_BYTES.min(space.len()) } else { space.len() };
        (payload, &mut space[..cap])
    }

    /// Takes over `count` bytes that were put at where [`Session::receive_into`] said, in that order.
    pub fn received(&mut self, count: usize) {
        let mut count = count;
        if let Some(partial) = &mut self.partial {
            let here = count.min(partial.buf.len() - partial.filled);
            partial.filled += here;
            count -= here;
        }
        self.inbound.filled(count);
    }

    /// Receives by copy; for tests and tools. Returns how many bytes were taken.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let (payload, space) = self.receive_into();
        let first = payload.len().min(bytes.len());
        payload[..first].copy_from_slice(&bytes[..first]);
        let second = space.len().min(bytes.len() - first);
        space[..second].copy_from_slice(&bytes[first..first + second]);
        self.received(first + second);
        first + second
    }

    /// The next request for the backend, its token being a number below [`SessionLimits::requests_max`] that
    /// [`Session::complete`] wants back; `None` where more bytes or completions are needed first. Negotiation and
    /// bad requests are answered on the way.
    ///
    /// # Errors
    /// Where the client broke the protocol: call [`Session::abandon`] and close the connection.
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
                // Carried out now, it would be acknowledged after the last flush.
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
                // At most `requests_max` entries, which is a u16.
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
            // Also for a single extent more are asked for, since neighbours may look alike in the context.
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

    /// Answers the request that had `token`. A token that is not in flight is ignored.
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

/// What came of looking for a request.
enum Found {
    Request(Request),
    Answered,
    Nothing,
}

/// What a request counts against the limit of bytes in flight.
fn reserve_of(kind: Kind, len_bytes: u64) -> usize {
    match kind {
        // Both were checked against the maximum payload, 32 bits.
        Kind::Read | Kind::Write => len_bytes as usize,
        // At most two contexts, of extents with 16 bytes each where headers are extended.
        Kind::Status { .. } => STATUS_EXTENTS_MAX * 2 * 16,
        _ => 0,
    }
}
