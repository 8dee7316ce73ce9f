//! The TLS layer of one connection, free of sockets: encrypted bytes of the socket on one side, plain bytes of the
//! session on the other.

use super::context::{TlsContext, reason};
use super::identity::{Offered, proven};
use crate::access::Identity;
use crate::nbd::inbound::Inbound;
use crate::nbd::outgoing::Outgoing;
use openssl::ex_data::Index;
use openssl::ssl::{Error, ErrorCode, Ssl, SslStream};
use openssl::x509::X509VerifyResult;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use thiserror::Error;

/// Most encrypted bytes that wait to be decrypted: four records of full size.
const INBOUND_BYTES: usize = 68 << 10;
/// Nothing more is encrypted while this many bytes wait for the socket.
const OUTBOUND_BYTES: usize = 128 << 10;
/// Beyond this many waiting bytes even the library's own messages are refused. A record and the messages of a
/// handshake fit many times.
const OUTBOUND_BYTES_MAX: usize = OUTBOUND_BYTES + (64 << 10);
/// Most plain bytes in one record (RFC 8446, "Record Layer").
const RECORD_BYTES: usize = 16 << 10;
/// Most pieces of replies that are gathered at once to fill records.
const SLICES_MAX: usize = 64;

/// The reason for the end of TLS.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TlsFailure {
    /// The client announced the end.
    #[error("closed by the client")]
    Closed,
    /// The handshake failed.
    #[error("the TLS handshake failed: {why}{detail}")]
    Handshake {
        /// The reason in the library's words, one of few texts.
        why: String,
        /// What the client claimed about itself, unproven.
        detail: String,
    },
    /// The received bytes are not TLS, or were changed in transit.
    #[error("TLS failed: {0}")]
    Broken(String),
}

impl TlsFailure {
    /// A failed handshake without details on the client.
    pub fn handshake(why: &str) -> Self {
        Self::Handshake { why: why.to_owned(), detail: String::new() }
    }
}

/// The buffers that the TLS library reads and writes.
struct Wire {
    inbound: Inbound,
    outbound: Vec<u8>,
    sent: usize,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let here = self.inbound.unread();
        let count = here.len().min(into.len());
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        into[..count].copy_from_slice(&here[..count]);
        self.inbound.consume(count);
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.outbound.len() - self.sent + bytes.len() > OUTBOUND_BYTES_MAX {
            return Err(ErrorKind::WouldBlock.into());
        }
        if self.sent > 0 && self.outbound.len() + bytes.len() > self.outbound.capacity() {
            self.outbound.drain(..self.sent);
            self.sent = 0;
        }
        self.outbound.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The server's side of TLS on one connection.
pub struct TlsStream {
    stream: SslStream<Wire>,
    offered: Index<Ssl, Offered>,
    established: bool,
    /// Whether bytes were received since the library last asked for more.
    holds: bool,
    /// Small pieces that are gathered into one record.
    record: Vec<u8>,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("established", &self.established).finish_non_exhaustive()
    }
}

impl TlsStream {
    /// Waits for a client's handshake, which begins with the bytes in `received`.
    ///
    /// # Errors
    /// `received` is longer than the begin of a handshake can be, or the library refuses.
    pub fn accept(context: &TlsContext, received: &[u8]) -> Result<Self, TlsFailure> {
        let mut inbound = Inbound::new(INBOUND_BYTES);
        let place = inbound.space().get_mut(..received.len());
        place.ok_or_else(|| TlsFailure::handshake("the client sent too much at once"))?.copy_from_slice(received);
        inbound.filled(received.len());
        let (mut ssl, offered) = context.session().map_err(|error| TlsFailure::handshake(&reason(&error)))?;
        ssl.set_accept_state();
        let stream = SslStream::new(ssl, Wire { inbound, outbound: Vec::new(), sent: 0 });
        let stream = stream.map_err(|error| TlsFailure::handshake(&reason(&error)))?;
        let holds = !received.is_empty();
        Ok(Self { stream, offered, established: false, holds, record: Vec::with_capacity(RECORD_BYTES) })
    }

    /// Whether the handshake is complete.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether received bytes wait here that [`TlsStream::handshake`] or [`TlsStream::read`] has not processed. No
    /// socket signals these.
    #[must_use]
    pub fn holds_received(&self) -> bool {
        self.holds
    }

    /// The free part of the buffer for bytes from the socket.
    pub fn space(&mut self) -> &mut [u8] {
        self.stream.get_mut().inbound.space()
    }

    /// Accepts `count` bytes that were written to the start of [`TlsStream::space`].
    pub fn filled(&mut self, count: usize) {
        self.stream.get_mut().inbound.filled(count);
        self.holds |= count > 0;
    }

    /// Continues the handshake. Returns the client's identity once it is complete.
    ///
    /// # Errors
    /// The handshake failed. An alert for the client is among the bytes to be sent.
    pub fn handshake(&mut self) -> Result<Option<Identity>, TlsFailure> {
        match self.stream.do_handshake() {
            Ok(()) => {
                let unproven = || TlsFailure::handshake("the client proved no identity");
                let identity = proven(self.stream.ssl(), self.offered).ok_or_else(unproven)?;
                self.established = true;
                Ok(Some(identity))
            }
            Err(error) if error.code() == ErrorCode::WANT_READ => {
                self.holds = false;
                Ok(None)
            }
            Err(error) => Err(TlsFailure::Handshake { why: self.explain(&error), detail: self.claim() }),
        }
    }

    /// Decrypts into `into`; `None` where more bytes from the socket are needed.
    ///
    /// # Errors
    /// The client has ended TLS, or sent bytes that do not belong to this session.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, TlsFailure> {
        match self.stream.ssl_read(into) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.code() == ErrorCode::WANT_READ => {
                self.holds = false;
                Ok(None)
            }
            Err(error) if error.code() == ErrorCode::ZERO_RETURN => Err(TlsFailure::Closed),
            Err(error) => Err(TlsFailure::Broken(self.explain(&error))),
        }
    }

    /// Encrypts the beginning of `plain`, as far as there is room. Returns how many of its bytes were encrypted.
    ///
    /// # Errors
    /// The library refuses.
    pub fn write(&mut self, plain: &Outgoing) -> Result<usize, TlsFailure> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let used = plain.gather(&mut slices);
        let mut taken = 0;
        for slice in &slices[..used] {
            let mut rest: &[u8] = slice;
            while !rest.is_empty() {
                if self.outbound_bytes() >= OUTBOUND_BYTES {
                    return self.write_record().map(|()| taken);
                }
                if self.record.is_empty() && rest.len() >= RECORD_BYTES {
                    put(&mut self.stream, &rest[..RECORD_BYTES])?;
                    rest = &rest[RECORD_BYTES..];
                    taken += RECORD_BYTES;
                    continue;
                }
                let count = rest.len().min(RECORD_BYTES - self.record.len());
                self.record.extend_from_slice(&rest[..count]);
                rest = &rest[count..];
                taken += count;
                if self.record.len() == RECORD_BYTES {
                    self.write_record()?;
                }
            }
        }
        self.write_record().map(|()| taken)
    }

    fn write_record(&mut self) -> Result<(), TlsFailure> {
        if !self.record.is_empty() {
            put(&mut self.stream, &self.record)?;
            self.record.clear();
        }
        Ok(())
    }

    fn outbound_bytes(&self) -> usize {
        let wire = self.stream.get_ref();
        wire.outbound.len() - wire.sent
    }

    /// Bytes to be sent to the socket. Call [`TlsStream::sent`] for those that were sent.
    #[must_use]
    pub fn outbound(&self) -> &[u8] {
        let wire = self.stream.get_ref();
        &wire.outbound[wire.sent..]
    }

    /// Removes `count` bytes, which were sent.
    pub fn sent(&mut self, count: usize) {
        let wire = self.stream.get_mut();
        wire.sent = (wire.sent + count).min(wire.outbound.len());
        if wire.sent == wire.outbound.len() {
            wire.outbound.clear();
            wire.sent = 0;
        }
    }

    /// Queues the announcement to the client that nothing more comes.
    pub fn close(&mut self) {
        if self.established {
            // A session that failed cannot announce its end; its alert is among the bytes to be sent already.
            let _ = self.stream.shutdown();
        }
    }

    fn explain(&self, error: &Error) -> String {
        let why = error.ssl_error().map_or_else(|| "the connection broke".to_owned(), reason);
        let ssl = self.stream.ssl();
        if ssl.verify_result() != X509VerifyResult::OK {
            return format!("{why}: {}", ssl.verify_result().error_string());
        }
        why
    }

    /// What the client claimed about its identity, proven or not, for messages.
    fn claim(&self) -> String {
        match self.stream.ssl().ex_data(self.offered) {
            Some(Offered { identity, known: true }) => format!(", with the pre-shared key of identity {identity:?}"),
            Some(Offered { identity, .. }) => format!("; there is no pre-shared key of identity {identity:?}"),
            None => String::new(),
        }
    }
}

/// Encrypts one record. It is always written as a whole, because there was room for many.
fn put(stream: &mut SslStream<Wire>, record: &[u8]) -> Result<(), TlsFailure> {
    let broken = |why: String| TlsFailure::Broken(why);
    match stream.ssl_write(record) {
        Ok(count) if count == record.len() => Ok(()),
        Ok(_) => Err(broken("a record was written in part".to_owned())),
        Err(error) => Err(broken(error.ssl_error().map_or_else(|| error.to_string(), reason))),
    }
}
