//! One connection: a socket and its session.

use crate::frontend::FrontendError;
use crate::nbd::error::ProtocolError;
use crate::nbd::session::Session;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, getpeername};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use thiserror::Error;

/// Buffers gathered into one send.
const SLICES_MAX: usize = 128;
/// Sends per connection and turn, so that one fast reader does not keep the others waiting.
const SENDS_MAX: usize = 8;
/// Receives per connection and turn.
const RECEIVES_MAX: usize = 4;

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum CloseReason {
    /// The client closed it, with or without saying so.
    #[error("closed by the client")]
    Client,
    /// The client broke the protocol.
    #[error("the client broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// No export was chosen in time.
    #[error("no export was chosen in time")]
    HandshakeTimeout,
    /// Made room for a newer connection while it had not chosen an export.
    #[error("gave way to a new connection, having chosen no export")]
    Evicted,
    /// The export was removed.
    #[error("the export was removed")]
    ExportRemoved,
    /// The server stopped.
    #[error("the server stopped")]
    Stopped,
    /// A front end beside NBD came to its end.
    #[error("{0}")]
    Frontend(FrontendError),
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, by a Unix socket.
    Process(i32),
    /// An address.
    Address(SocketAddr),
    /// A block device of this machine's kernel, by its number: `/dev/ublkbN`.
    Ublk(u32),
    /// The system does not tell, or the connection has ended.
    Unknown,
}

/// Who is at the other end of a socket.
pub fn peer(socket: &OwnedFd) -> Peer {
    let address = getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
    match (address, socket_peercred(socket)) {
        (Some(address), _) => Peer::Address(address),
        (None, Ok(credentials)) => Peer::Process(credentials.pid.as_raw_nonzero().get()),
        (None, Err(_)) => Peer::Unknown,
    }
}

/// A connection. After its socket is closed it stays until its last request came back from the backend, so that
/// no token is ever taken for another's.
#[derive(Debug)]
pub struct Connection {
    /// The socket; `None` after the end.
    pub socket: Option<OwnedFd>,
    /// The session.
    pub session: Session,
    /// When it was accepted, monotonic.
    pub accepted_ns: u64,
    /// What epoll watches for: read, write.
    pub watched: (bool, bool),
    /// Listed as having something to send or to decide on at the end of this turn.
    pub listed: bool,
    /// The socket took no more at the last send.
    pub send_blocked: bool,
    /// It said something since the last tick.
    pub heard: bool,
}

/// What came of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, and perhaps more wait.
    Bytes,
    /// Bytes, and the socket is empty now.
    Last,
    /// Nothing there.
    Nothing,
}

impl Connection {
    /// A new connection.
    pub fn new(socket: OwnedFd, session: Session, accepted_ns: u64) -> Self {
        Self {
            socket: Some(socket),
            session,
            accepted_ns,
            watched: (true, false),
            listed: false,
            send_blocked: false,
            heard: true,
        }
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        self.socket.as_ref().map_or(Peer::Unknown, peer)
    }

    /// How many times [`Connection::receive`] may be called in a turn.
    pub const RECEIVES_MAX: usize = RECEIVES_MAX;

    /// Receives once what is there, payloads of large writes into their own buffers.
    ///
    /// # Errors
    /// Where the socket failed or the client closed it.
    pub fn receive(&mut self) -> Result<Received, CloseReason> {
        let Some(socket) = &self.socket else {
            return Ok(Received::Nothing);
        };
        let (payload, staging) = self.session.receive_into();
        let wanted = payload.len() + staging.len();
        if wanted == 0 {
            return Ok(Received::Nothing);
        }
        let result = if payload.is_empty() {
            rustix::net::recv(socket, staging, RecvFlags::DONTWAIT).map(|(count, _)| count)
        } else {
            rustix::io::readv(socket, &mut [IoSliceMut::new(payload), IoSliceMut::new(staging)])
        };
        match result {
            Ok(0) => Err(CloseReason::Client),
            Ok(count) => {
                self.session.received(count);
                Ok(if count == wanted { Received::Bytes } else { Received::Last })
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(Errno::CONNRESET | Errno::PIPE) => Err(CloseReason::Client),
            Err(error) => Err(CloseReason::Socket(error)),
        }
    }

    /// Sends what waits, many replies per call.
    ///
    /// # Errors
    /// Where the socket failed or the client closed it.
    pub fn send(&mut self) -> Result<(), CloseReason> {
        self.send_blocked = false;
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        for _ in 0..SENDS_MAX {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let used = self.session.outgoing().gather(&mut slices);
            let slices = &slices[..used];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let result = match slices {
                [] => return Ok(()),
                [one] => rustix::net::send(socket, one, flags),
                many => rustix::net::sendmsg(socket, many, &mut SendAncillaryBuffer::default(), flags),
            };
            match result {
                Ok(count) => self.session.sent(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.send_blocked = true;
                    return Ok(());
                }
                Err(Errno::CONNRESET | Errno::PIPE) => return Err(CloseReason::Client),
                Err(error) => return Err(CloseReason::Socket(error)),
            }
        }
        // More waits although the socket takes it: epoll says at once that it can be written, after the others' turn.
        self.send_blocked = !self.session.outgoing().is_empty();
        Ok(())
    }
}
