//! One connection: a socket and its session.

use super::admission::Origin;
use super::outcome::{CloseReason, Received};
use super::peer::{Peer, peer};
use super::secure::{self, SENDS_MAX};
use crate::nbd::session::Session;
use crate::tls::{TlsContext, TlsStream};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Buffers gathered into one send.
const SLICES_MAX: usize = 128;
/// Receives per connection and turn.
const RECEIVES_MAX: usize = 4;

/// A connection. After its socket is closed it stays until its last request came back from the backend, so that
/// no token is ever taken for another's.
#[derive(Debug)]
pub struct Connection {
    /// The socket; `None` after the end.
    pub socket: Option<OwnedFd>,
    /// The session.
    pub session: Session,
    /// What TLS is begun with where the client asks for it.
    pub offer: Option<TlsContext>,
    /// Between socket and session, once the client asked for it.
    pub tls: Option<Box<TlsStream>>,
    /// Its TLS is lent to the thread that does a step of the handshake, which looks here whether that is still wanted; until it is
    /// back nothing is received or sent.
    pub lent: Option<Arc<AtomicBool>>,
    /// Where it comes from.
    pub origin: Origin,
    /// It has chosen an export and is counted among the clients.
    pub is_client: bool,
    /// What the backend knows the client by, once it is one.
    pub number: u64,
    /// The hooks know of this client.
    pub announced: bool,
    /// When it was accepted, monotonic.
    pub accepted_ns: u64,
    /// What epoll watches for: read, write.
    pub watched: (bool, bool),
    /// Listed as having something to send or to decide on at the end of this turn.
    pub listed: bool,
    /// The socket took no more at the last send.
    pub send_blocked: bool,
    /// What the socket has taken in all.
    pub taken_bytes: u64,
    /// It said something since the last tick.
    pub heard: bool,
}

impl Connection {
    /// A new connection.
    pub fn new(socket: OwnedFd, session: Session, origin: Origin, accepted_ns: u64) -> Self {
        Self {
            socket: Some(socket),
            session,
            offer: None,
            tls: None,
            lent: None,
            origin,
            is_client: false,
            number: 0,
            announced: false,
            accepted_ns,
            watched: (true, false),
            listed: false,
            send_blocked: false,
            taken_bytes: 0,
            heard: true,
        }
    }

    /// Has it looked after at the end of this turn.
    pub fn list(&mut self, index: u16, listed: &mut Vec<u16>) {
        if !std::mem::replace(&mut self.listed, true) {
            listed.push(index);
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
        if let Some(tls) = &mut self.tls {
            return secure::receive(tls, socket, &mut self.session);
        }
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
        if let Some(tls) = &mut self.tls {
            let sent = secure::send(tls, socket, &mut self.session)?;
            self.send_blocked = sent.is_blocked;
            self.taken_bytes += sent.bytes;
            return Ok(());
        }
        for _ in 0..SENDS_MAX {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let used = self.session.outgoing().gather(&mut slices);
            let slices = &slices[..used];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let result = match slices {
                [] => return self.begin_tls(),
                [one] => rustix::net::send(socket, one, flags),
                many => rustix::net::sendmsg(socket, many, &mut SendAncillaryBuffer::default(), flags),
            };
            match result {
                Ok(count) => {
                    self.session.sent(count);
                    self.taken_bytes += count as u64;
                }
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
        if self.send_blocked { Ok(()) } else { self.begin_tls() }
    }

    /// Begins TLS where that was agreed; all before it has been sent.
    fn begin_tls(&mut self) -> Result<(), CloseReason> {
        if self.session.is_starting_tls()
            && self.lent.is_none()
            && let Some(context) = &self.offer
        {
            let unread = self.session.take_unread();
            self.tls = Some(Box::new(TlsStream::accept(context, &unread)?));
        }
        Ok(())
    }

    /// TLS to be lent out, where a step of its handshake is due.
    pub fn lend_tls(&mut self) -> Option<Box<TlsStream>> {
        self.tls.take_if(|tls| !tls.is_established() && tls.holds_received())
    }

    /// Whether the client is still on its way to an export.
    pub fn is_shaking_hands(&self) -> bool {
        self.socket.is_some() && self.session.export().is_none()
    }

    /// Whether bytes of the socket should be received.
    pub fn wants_input(&self) -> bool {
        self.session.wants_input() || self.tls.is_some() && self.session.is_starting_tls()
    }

    /// Whether received bytes wait within TLS.
    pub fn holds_received(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.holds_received())
    }

    /// Whether something waits to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.session.outgoing().is_empty() || self.tls.as_ref().is_some_and(|tls| !tls.outbound().is_empty())
    }

    /// Whether the session is over, and its last answer is sent.
    pub fn is_over(&self) -> bool {
        self.session.is_over() && !self.has_unsent()
    }

    /// Says in TLS that the connection ends, and why where it failed; not waiting for anything.
    pub fn say_goodbye(&mut self) {
        if let (Some(tls), Some(socket)) = (&mut self.tls, &self.socket) {
            secure::say_goodbye(tls, socket);
        }
    }
}
