//! The peers of connections.

use rustix::fd::OwnedFd;
use rustix::net::getpeername;
use rustix::net::sockopt::socket_peercred;
use std::net::SocketAddr;

/// The peer of a connection or front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, connected over a Unix socket.
    Process(i32),
    /// A network address.
    Address(SocketAddr),
    /// A block device of this machine's kernel, by its number: `/dev/ublkbN`.
    Ublk(u32),
    /// Unknown: the system does not report the peer, or the connection has ended.
    Unknown,
}

/// The peer of a socket.
pub fn peer(socket: &OwnedFd) -> Peer {
    let address = getpeername(socket).ok().flatten().and_then(|address| SocketAddr::try_from(address).ok());
    match (address, socket_peercred(socket)) {
        (Some(address), _) => Peer::Address(address),
        (None, Ok(credentials)) => Peer::Process(credentials.pid.as_raw_nonzero().get()),
        (None, Err(_)) => Peer::Unknown,
    }
}
