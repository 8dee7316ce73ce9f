//! The socket: Unix or loopback TCP, waited for with poll(2).

#![allow(unsafe_code)]

use super::error::NbdError;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address. Other machines than this one are allowed only with [`super::ClientOptions::remote`].
    Tcp(SocketAddr),
    /// A TCP address by host name: the first of its addresses that answers.
    Host {
        /// Name of the host.
        name: String,
        /// The port.
        port: u16,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Host { name, port } => write!(f, "tcp:{name}:{port}"),
        }
    }
}

#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(crate) fn connect(endpoint: &Endpoint, timeout: Duration, remote: bool) -> Result<Self, NbdError> {
        let connected = match endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Endpoint::Tcp(address) => Self::to_address(address, timeout, remote),
            Endpoint::Host { name, port } => (name.as_str(), *port).to_socket_addrs().and_then(|addresses| {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in addresses {
                    match Self::to_address(&address, timeout, remote) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }),
        };
        let prepared = connected.and_then(|stream| {
            stream.set_nonblocking()?;
            Ok(stream)
        });
        prepared.map_err(|source| NbdError::Connect { endpoint: endpoint.to_string(), source })
    }

    fn to_address(address: &SocketAddr, timeout: Duration, remote: bool) -> io::Result<Self> {
        if !remote && !address.ip().is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only loopback addresses are allowed"));
        }
        let stream = TcpStream::connect_timeout(address, timeout)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Tcp(stream) => stream.set_nonblocking(true),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        match self {
            Self::Unix(stream) => stream.as_raw_fd(),
            Self::Tcp(stream) => stream.as_raw_fd(),
        }
    }

    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(into),
            Self::Tcp(stream) => stream.read(into),
        }
    }

    pub(crate) fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(from),
            Self::Tcp(stream) => stream.write(from),
        }
    }

    pub(crate) fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read_vectored(into),
            Self::Tcp(stream) => stream.read_vectored(into),
        }
    }

    pub(crate) fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(from),
            Self::Tcp(stream) => stream.write_vectored(from),
        }
    }

    /// Waits until there is something to read or, with `writing`, room to write. False where the time is over.
    pub(crate) fn wait(&self, writing: bool, timeout: Duration) -> io::Result<bool> {
        let events = libc::POLLIN | if writing { libc::POLLOUT } else { 0 };
        let mut wanted = libc::pollfd { fd: self.fd(), events, revents: 0 };
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd whose descriptor `self` keeps open.
        let result = unsafe { libc::poll(&raw mut wanted, 1, timeout_ms) };
        match result {
            0 => Ok(false),
            result if result > 0 => Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted { Ok(true) } else { Err(error) }
            }
        }
    }
}
