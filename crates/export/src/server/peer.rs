//! Who is at the other end of a connection.

use rustix::fd::OwnedFd;
use rustix::net::getpeername;
use rustix::net::sockopt::socket_peercred;
use std::net::SocketAddr;

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
