//! The TLS layer between the socket of a connection and its session.

use super::outcome::{CloseReason, Received};
use crate::nbd::session::Session;
use crate::tls::{TlsFailure, TlsStream};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// Most sends per connection and iteration, so that one fast reader does not hold up the others.
pub const SENDS_MAX: usize = 8;

/// Receives what is there, with at most one call on the socket, and decrypts it into the session. During the
/// handshake the bytes are only stored.
pub fn receive(tls: &mut TlsStream, socket: &OwnedFd, session: &mut Session) -> Result<Received, CloseReason> {
    let mut more = true;
    if !tls.holds_received() {
        let space = tls.space();
        let wanted = space.len();
        match rustix::net::recv(socket, space, RecvFlags::DONTWAIT) {
            Ok((_, 0)) | Err(Errno::CONNRESET | Errno::PIPE) if !tls.is_established() => {
                return Err(TlsFailure::handshake("the client closed the connection in the middle of it").into());
            }
            Ok((_, 0)) => return Err(CloseReason::Client),
            Ok((_, count)) => {
                tls.filled(count);
                more = count == wanted;
            }
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(CloseReason::Client),
            Err(error) => return Err(CloseReason::Socket(error)),
        }
    }
    if !tls.is_established() {
        // The handshake step is computed elsewhere: see `Shaker`.
        return Ok(Received::Last);
    }
    // Decrypts as much as the session's common buffer accepts now. Where the session expects a long payload that is
    // little; the rest goes straight into the payload's buffer once the session has parsed the header.
    let mut room = session.receive_into().1.len();
    loop {
        let (payload, staging) = session.receive_into();
        let (is_payload, staging_bytes) = (!payload.is_empty(), staging.len());
        let into = if is_payload { payload } else { &mut staging[..room.min(staging_bytes)] };
        if into.is_empty() {
            return Ok(Received::Bytes);
        }
        match tls.read(into)? {
            Some(count) => {
                room -= if is_payload { 0 } else { count };
                session.received(count);
            }
            None => return Ok(if more { Received::Bytes } else { Received::Last }),
        }
    }
}

/// Result of a send.
#[derive(Debug)]
pub struct Sent {
    /// Bytes that the socket took.
    pub bytes: u64,
    /// Whether the send stopped early: the socket took no more, or the limit of this iteration was reached.
    pub is_blocked: bool,
}

/// Encrypts and sends what waits.
pub fn send(tls: &mut TlsStream, socket: &OwnedFd, session: &mut Session) -> Result<Sent, CloseReason> {
    let mut bytes = 0;
    for _ in 0..SENDS_MAX {
        if tls.is_established() {
            let taken = tls.write(session.outgoing())?;
            session.sent(taken);
        }
        if tls.outbound().is_empty() {
            return Ok(Sent { bytes, is_blocked: false });
        }
        match rustix::net::send(socket, tls.outbound(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => {
                tls.sent(count);
                bytes += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(Sent { bytes, is_blocked: true }),
            Err(Errno::CONNRESET | Errno::PIPE) => return Err(CloseReason::Client),
            Err(error) => return Err(CloseReason::Socket(error)),
        }
    }
    Ok(Sent { bytes, is_blocked: !tls.outbound().is_empty() || !session.outgoing().is_empty() })
}

/// Sends the end of TLS, with the reason where it failed; does not wait.
pub fn say_goodbye(tls: &mut TlsStream, socket: &OwnedFd) {
    tls.close();
    if !tls.outbound().is_empty() {
        // A client that does not receive it notices the end when the connection is gone.
        let _ = rustix::net::send(socket, tls.outbound(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
