//! One connection's TLS, free of sockets: bytes of the socket in and out on one side, bytes of the session on the other.

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

/// Bytes from the socket that may wait to be decrypted: four records of full size.
const INBOUND_BYTES: usize = 68 << 10;
/// Once so many bytes wait for the socket, nothing more is encrypted.
const OUTBOUND_BYTES: usize = 128 << 10;
/// Bytes beyond which even the library's own messages are refused; a record and what a handshake sends fit many times.
const OUTBOUND_BYTES_MAX: usize = OUTBOUND_BYTES + (64 << 10);
/// Plain bytes of one record at most (RFC 8446, "Record Layer").
const RECORD_BYTES: usize = 16 << 10;
/// Pieces of replies that are looked at at once to fill records.
const SLICES_MAX: usize = 64;

/// Why TLS ends.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TlsFailure {
    /// The client said that it ends.
    #[error("closed by the client")]
    Closed,
    /// The handshake failed.
    #[error("the TLS handshake failed: {why}{detail}")]
    Handshake {
        /// Why, in the library's words: one of few.
        why: String,
        /// What the client said of itself, unproven.
        detail: String,
    },
    /// What came is not TLS, or was changed on the way.
    #[error("TLS failed: {0}")]
    Broken(String),
}

impl TlsFailure {
    /// A failed handshake of which no more is known.
    pub fn handshake(why: &str) -> Self {
        Self::Handshake { why: why.to_owned(), detail: String::new() }
    }
}

/// Where the library reads and writes.
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

/// TLS of one connection, the server's side.
pub struct TlsStream {
    stream: SslStream<Wire>,
    offered: Index<Ssl, Offered>,
    established: bool,
    /// Bytes were received since the library last asked for more.
    holds: bool,
    /// Small pieces on their way into one record.
    record: Vec<u8>,
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("established", &self.established).finish_non_exhaustive()
    }
}

impl TlsStream {
    /// Waits for a client's handshake, of which `received` is the beginning.
    ///
    /// # Errors
    /// Where more was received than a handshake begins with, or the library refuses.
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

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether bytes are here that [`TlsStream::handshake`] or [`TlsStream::read`] have not looked at: no socket announces
    /// those.
    #[must_use]
    pub fn holds_received(&self) -> bool {
        self.holds
    }

    /// Where bytes of the socket are to be put.
    pub fn space(&mut self) -> &mut [u8] {
        self.stream.get_mut().inbound.space()
    }

    /// Takes over `count` bytes that were put at the start of [`TlsStream::space`].
    pub fn filled(&mut self, count: usize) {
        self.stream.get_mut().inbound.filled(count);
        self.holds |= count > 0;
    }

    /// Goes on with the handshake. The client's identity, once it is over.
    ///
    /// # Errors
    /// Where it failed; what is to be sent says so to the client.
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

    /// Decrypts into `into`; `None` where more bytes of the socket are needed first.
    ///
    /// # Errors
    /// Where the client ended, or what it sent is not of this session.
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

    /// Encrypts the beginning of `plain` as far as there is room; returns how many of its bytes that were.
    ///
    /// # Errors
    /// Where the library refuses.
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

    /// Bytes for the socket. Remove what was sent by [`TlsStream::sent`].
    #[must_use]
    pub fn outbound(&self) -> &[u8] {
        let wire = self.stream.get_ref();
        &wire.outbound[wire.sent..]
    }

    /// Takes note that `count` bytes were sent.
    pub fn sent(&mut self, count: usize) {
        let wire = self.stream.get_mut();
        wire.sent = (wire.sent + count).min(wire.outbound.len());
        if wire.sent == wire.outbound.len() {
            wire.outbound.clear();
            wire.sent = 0;
        }
    }

    /// Says to the client that nothing more comes.
    pub fn close(&mut self) {
        if self.established {
            // A session that failed cannot say so; its alert is among what is to be sent already.
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

    /// The identity that the client named, proven or not.
    fn claim(&self) -> String {
        match self.stream.ssl().ex_data(self.offered) {
            Some(Offered { identity, known: true }) => format!(", with the pre-shared key of identity {identity:?}"),
            Some(Offered { identity, .. }) => format!("; there is no pre-shared key of identity {identity:?}"),
            None => String::new(),
        }
    }
}

/// Encrypts one record. The wire takes it whole, since there was room for many.
fn put(stream: &mut SslStream<Wire>, record: &[u8]) -> Result<(), TlsFailure> {
    let broken = |why: String| TlsFailure::Broken(why);
    match stream.ssl_write(record) {
        Ok(count) if count == record.len() => Ok(()),
        Ok(_) => Err(broken("a record was written in part".to_owned())),
        Err(error) => Err(broken(error.ssl_error().map_or_else(|| error.to_string(), reason))),
    }
}
