//! A small NBD client for demonstrations and tests: pipelined, blocking, over a Unix socket or loopback TCP.
//!
//! `submit_*` queues a command and returns its cookie; [`NbdClient::wait`] returns the next reply, in the server's
//! order. All messages of the server are checked; a violation of the protocol ends the connection with an error.

mod channel;
mod error;
mod handshake;
mod pending;
pub(crate) mod stream;
mod uri;
pub(crate) mod wire;

pub use error::NbdError;
pub use handshake::ExportInfo;
pub use pending::{Command, Reply, ServerError};
pub use stream::Endpoint;
pub use uri::{NbdUri, NbdUriError};

use channel::Channel;
use pending::Pending;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stream::Stream;
use wire::Cursor;

/// Most commands in flight.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Longest read or write, in bytes: every server must accept it (doc/proto.md, "Block size constraints").
pub const PAYLOAD_MAX_BYTES: u32 = 32 << 20;

/// Options of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Whether to ask for structured replies.
    pub structured: bool,
    /// How long the server may be silent while something is awaited.
    pub timeout: Duration,
    /// Whether connections to other machines are allowed.
    pub remote: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { structured: true, timeout: Duration::from_secs(30), remote: false }
    }
}

/// Flags of a write-zeroes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroFlags {
    /// Complete only when durable.
    pub fua: bool,
    /// Keep the space allocated.
    pub no_hole: bool,
    /// Fail rather than take as long as a write.
    pub fast: bool,
}

/// A connection to an export.
#[derive(Debug)]
pub struct NbdClient {
    channel: Channel,
    info: ExportInfo,
    pending: BTreeMap<u64, Pending>,
    ready: VecDeque<Reply>,
    next_cookie: u64,
}

impl NbdClient {
    /// Connects and negotiates `export`.
    ///
    /// # Errors
    /// [`NbdError`]: no connection, a refusal, or a server that breaks the protocol.
    pub fn connect(endpoint: &Endpoint, export: &str, options: &ClientOptions) -> Result<Self, NbdError> {
        let stream = Stream::connect(endpoint, options.timeout, options.remote)?;
        let mut channel = Channel::new(stream, options.timeout);
        let info = handshake::negotiate(&mut channel, export, options.structured)?;
        Ok(Self { channel, info, pending: BTreeMap::new(), ready: VecDeque::new(), next_cookie: 1 })
    }

    /// The socket after the handshake and the server's facts, for callers that speak the protocol themselves. `None`
    /// where commands were submitted, or the server has sent anything unasked.
    pub(crate) fn into_parts(self) -> Option<(stream::Stream, ExportInfo)> {
        let idle = self.in_flight() == 0 && self.channel.received().is_empty();
        idle.then(|| (self.channel.into_stream(), self.info))
    }

    /// Properties of the export that the server reported.
    pub fn info(&self) -> &ExportInfo {
        &self.info
    }

    /// Commands whose reply was not returned yet.
    pub fn in_flight(&self) -> usize {
        self.pending.len() + self.ready.len()
    }

    fn submit(
        &mut self,
        command: Command,
        flags: u16,
        offset_bytes: u64,
        len_bytes: u32,
        payload: &[u8],
    ) -> Result<u64, NbdError> {
        if self.in_flight() >= IN_FLIGHT_MAX {
            return Err(NbdError::Usage { what: "more than 1024 commands in flight: take replies first" });
        }
        if matches!(command, Command::Read | Command::Write) && len_bytes > PAYLOAD_MAX_BYTES {
            return Err(NbdError::Usage { what: "a read or write of more than 32 MiB" });
        }
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        self.pending.insert(cookie, Pending::new(command, offset_bytes, len_bytes));
        let mut header = [0; 28];
        header[0..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&command.code().to_be_bytes());
        header[8..16].copy_from_slice(&cookie.to_be_bytes());
        header[16..24].copy_from_slice(&offset_bytes.to_be_bytes());
        header[24..28].copy_from_slice(&len_bytes.to_be_bytes());
        self.channel.send(&[&header, payload], "sending a command")?;
        Ok(cookie)
    }

    /// Submits a read of up to 32 MiB.
    ///
    /// # Errors
    /// [`NbdError`]. After any submission has failed, the connection is of no use, except after [`NbdError::Usage`].
    pub fn submit_read(&mut self, offset_bytes: u64, len_bytes: u32) -> Result<u64, NbdError> {
        self.submit(Command::Read, 0, offset_bytes, len_bytes, &[])
    }

    /// Writes up to 32 MiB; with `fua` durable when complete.
    ///
    /// # Errors
    /// As [`Self::submit_read`].
    pub fn submit_write(&mut self, offset_bytes: u64, bytes: &[u8], fua: bool) -> Result<u64, NbdError> {
        let len = u32::try_from(bytes.len()).map_err(|_| NbdError::Usage { what: "a write of more than 32 MiB" })?;
        let flags = if fua { wire::CMD_FLAG_FUA } else { 0 };
        self.submit(Command::Write, flags, offset_bytes, len, bytes)
    }

    /// Submits a flush, which makes all writes durable whose replies have arrived.
    ///
    /// # Errors
    /// As [`Self::submit_read`].
    pub fn submit_flush(&mut self) -> Result<u64, NbdError> {
        self.submit(Command::Flush, 0, 0, 0, &[])
    }

    /// Submits a discard of a range.
    ///
    /// # Errors
    /// As [`Self::submit_read`].
    pub fn submit_trim(&mut self, offset_bytes: u64, len_bytes: u32, fua: bool) -> Result<u64, NbdError> {
        let flags = if fua { wire::CMD_FLAG_FUA } else { 0 };
        self.submit(Command::Trim, flags, offset_bytes, len_bytes, &[])
    }

    /// Submits a write of zeros.
    ///
    /// # Errors
    /// As [`Self::submit_read`].
    pub fn submit_write_zeroes(
        &mut self,
        offset_bytes: u64,
        len_bytes: u32,
        flags: ZeroFlags,
    ) -> Result<u64, NbdError> {
        let bits = [
            (flags.fua, wire::CMD_FLAG_FUA),
            (flags.no_hole, wire::CMD_FLAG_NO_HOLE),
            (flags.fast, wire::CMD_FLAG_FAST_ZERO),
        ];
        let flags = bits.iter().filter(|(set, _)| *set).fold(0, |sum, (_, bit)| sum | bit);
        self.submit(Command::WriteZeroes, flags, offset_bytes, len_bytes, &[])
    }

    /// The next reply, waiting for it.
    ///
    /// # Errors
    /// [`NbdError`]; [`NbdError::Usage`] where nothing is in flight.
    pub fn wait(&mut self) -> Result<Reply, NbdError> {
        loop {
            if let Some(reply) = self.ready.pop_front() {
                return Ok(reply);
            }
            if self.pending.is_empty() {
                return Err(NbdError::Usage { what: "nothing is in flight" });
            }
            if !self.parse_one()? && self.ready.is_empty() {
                self.channel.exchange("waiting for a reply")?;
            }
        }
    }

    /// The next reply, where it has arrived completely; does not wait.
    ///
    /// # Errors
    /// [`NbdError`].
    pub fn try_next(&mut self) -> Result<Option<Reply>, NbdError> {
        while self.ready.is_empty() && !self.pending.is_empty() {
            if !self.parse_one()? && !self.channel.read_some("looking for a reply")? {
                return Ok(None);
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Waits for the reply to one command. Replies to others stay for [`Self::wait`].
    ///
    /// # Errors
    /// [`NbdError`]; [`NbdError::Usage`] where the command is not in flight.
    pub fn wait_for(&mut self, cookie: u64) -> Result<Reply, NbdError> {
        loop {
            if let Some(index) = self.ready.iter().position(|reply| reply.cookie == cookie)
                && let Some(reply) = self.ready.remove(index)
            {
                return Ok(reply);
            }
            if !self.pending.contains_key(&cookie) {
                return Err(NbdError::Usage { what: "this command is not in flight" });
            }
            if !self.parse_one()? {
                self.channel.exchange("waiting for a reply")?;
            }
        }
    }

    /// Announces the end to the server and closes the connection. Commands in flight may or may not be carried out.
    ///
    /// # Errors
    /// [`NbdError`] where the server is gone already.
    pub fn disconnect(mut self) -> Result<(), NbdError> {
        let mut header = [0; 28];
        header[0..4].copy_from_slice(&wire::REQUEST_MAGIC.to_be_bytes());
        header[6..8].copy_from_slice(&wire::CMD_DISC.to_be_bytes());
        self.channel.send(&[&header], "disconnecting")
    }

    /// Consumes one message of the received bytes; false where it is incomplete.
    fn parse_one(&mut self) -> Result<bool, NbdError> {
        let protocol = |what| NbdError::Protocol { what };
        let received = self.channel.received();
        let mut cursor = Cursor(received);
        let Some(magic) = cursor.u32() else { return Ok(false) };
        match magic {
            wire::SIMPLE_REPLY_MAGIC => {
                let (Some(errno), Some(cookie)) = (cursor.u32(), cursor.u64()) else { return Ok(false) };
                let pending = self.pending.get_mut(&cookie).ok_or_else(|| protocol("a reply to nothing"))?;
                let len = pending.simple_payload_len(errno);
                if self.info.structured && len > 0 {
                    return Err(protocol("a simple reply to a read, after structured replies were agreed"));
                }
                let Some(payload) = cursor.take(len) else { return Ok(false) };
                pending.simple(errno, payload);
                self.channel.consume(16 + len);
                self.end(cookie)?;
            }
            wire::STRUCTURED_REPLY_MAGIC if self.info.structured => {
                let (Some(flags), Some(kind), Some(cookie), Some(len)) =
                    (cursor.u16(), cursor.u16(), cursor.u64(), cursor.u32())
                else {
                    return Ok(false);
                };
                let pending = self.pending.get_mut(&cookie).ok_or_else(|| protocol("a chunk of no reply"))?;
                if len > pending.chunk_max_bytes(kind) {
                    return Err(protocol("a chunk that is too long"));
                }
                let Some(payload) = cursor.take(len as usize) else { return Ok(false) };
                pending.chunk(kind, payload)?;
                self.channel.consume(20 + len as usize);
                if flags & wire::REPLY_FLAG_DONE != 0 {
                    self.end(cookie)?;
                }
            }
            _ => return Err(protocol("a reply without its magic")),
        }
        Ok(true)
    }

    fn end(&mut self, cookie: u64) -> Result<(), NbdError> {
        if let Some(pending) = self.pending.remove(&cookie) {
            self.ready.push_back(pending.finish(cookie)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
