//! One connection: a socket and its session.

use super::admission::Origin;
use super::outcome::{CloseReason, Received};
use super::peer::Peer;
use super::poller::Events;
use super::secure::{self, SENDS_MAX};
use crate::nbd::session::Session;
use crate::tls::{TlsContext, TlsStream};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Most buffers in one send.
const SLICES_MAX: usize = 128;
/// Most receives per connection and iteration.
const RECEIVES_MAX: usize = 4;

/// A connection. After its socket is closed it stays until the backend has completed its last request, so that no
/// completion reaches another connection.
#[derive(Debug)]
pub struct Connection {
    /// The socket; `None` after the end.
    pub socket: Option<OwnedFd>,
    /// The session.
    pub session: Session,
    /// The TLS context for the client's request to begin TLS; `None` where TLS is not offered.
    pub offer: Option<TlsContext>,
    /// The TLS layer between socket and session, once the client has begun it.
    pub tls: Option<Box<TlsStream>>,
    /// Set while the TLS layer is lent to the thread that does handshake steps; the thread checks here whether the
    /// step is still wanted. Nothing is received or sent until the layer is back.
    pub lent: Option<Arc<AtomicBool>>,
    /// The peer, as of when it was accepted: the system does not report that of a connection that was reset.
    pub peer: Peer,
    /// Origin of the connection.
    pub origin: Origin,
    /// Whether it has chosen an export and counts as a client.
    pub is_client: bool,
    /// The backend's session number, once it is a client.
    pub number: u64,
    /// Whether it was reported to the hooks.
    pub announced: bool,
    /// Time at which it was accepted, monotonic, in nanoseconds.
    pub accepted_ns: u64,
    /// Events that the poller watches for.
    pub watched: Events,
    /// Whether it is listed for the end of this iteration, to send or to decide on.
    pub listed: bool,
    /// Whether the socket took no more at the last send.
    pub send_blocked: bool,
    /// Count of all bytes that the socket has taken.
    pub taken_bytes: u64,
    /// Whether the client has sent anything since the last tick.
    pub heard: bool,
}

impl Connection {
    /// A new connection.
    pub fn new(socket: OwnedFd, session: Session, (peer, origin): (Peer, Origin), accepted_ns: u64) -> Self {
        Self {
            socket: Some(socket),
            session,
            offer: None,
            tls: None,
            lent: None,
            peer,
            origin,
            is_client: false,
            number: 0,
            announced: false,
            accepted_ns,
            watched: Events::READ,
            listed: false,
            send_blocked: false,
            taken_bytes: 0,
            heard: true,
        }
    }

    /// Lists the connection for the end of this iteration.
    pub fn list(&mut self, index: u16, listed: &mut Vec<u16>) {
        if !std::mem::replace(&mut self.listed, true) {
            listed.push(index);
        }
    }

    /// Most calls of [`Connection::receive`] per iteration.
    pub const RECEIVES_MAX: usize = RECEIVES_MAX;

    /// Receives what is there in one call; the payload of a large write goes into its own buffer.
    ///
    /// # Errors
    /// The socket failed, or the client closed it.
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
    /// The socket failed, or the client closed it.
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
        // More waits although the socket may take it. It is sent in the next iteration, after the other connections:
        // the poller reports the socket as writable at once.
        self.send_blocked = !self.session.outgoing().is_empty();
        if self.send_blocked { Ok(()) } else { self.begin_tls() }
    }

    /// Begins TLS where it was agreed and everything before it was sent.
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

    /// Lends out the TLS layer where a step of its handshake is due.
    pub fn lend_tls(&mut self) -> Option<Box<TlsStream>> {
        self.tls.take_if(|tls| !tls.is_established() && tls.holds_received())
    }

    /// Whether the client has not chosen an export yet.
    pub fn is_shaking_hands(&self) -> bool {
        self.socket.is_some() && self.session.export().is_none()
    }

    /// Whether bytes should be received from the socket.
    pub fn wants_input(&self) -> bool {
        self.session.wants_input() || self.tls.is_some() && self.session.is_starting_tls()
    }

    /// Whether received bytes wait inside the TLS layer.
    pub fn holds_received(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.holds_received())
    }

    /// Whether anything waits to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.session.outgoing().is_empty() || self.tls.as_ref().is_some_and(|tls| !tls.outbound().is_empty())
    }

    /// Whether the session has ended and its last answer was sent.
    pub fn is_over(&self) -> bool {
        self.session.is_over() && !self.has_unsent()
    }

    /// Sends the end of TLS, with the reason where it failed; does not wait.
    pub fn say_goodbye(&mut self) {
        if let (Some(tls), Some(socket)) = (&mut self.tls, &self.socket) {
            secure::say_goodbye(tls, socket);
        }
    }
}
