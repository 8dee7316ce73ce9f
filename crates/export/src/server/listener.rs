//! Listening sockets. A stale socket file is replaced only where no process listens.

use super::address::Listen;
use super::config::ServerError;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Requested send buffer of Unix sockets, in bytes.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    /// The address; a TCP port 0 is replaced by the actual one.
    pub address: Listen,
    /// Device and inode of the socket's file, so that a successor's file is not removed.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Listens. A `private` Unix socket is created for this user alone, until the owner gives it another mode: a
    /// client that connects before that would stay connected.
    pub fn open(address: &Listen, allow_remote: bool, private: bool) -> Result<Self, ServerError> {
        match address {
            Listen::Unix(path) => open_unix(address, path, private),
            Listen::Tcp(socket) => {
                if !socket.ip().is_loopback() && !allow_remote {
                    return Err(ServerError::Remote { address: address.clone() });
                }
                open_tcp(address, *socket)
            }
        }
    }

    /// Accepts a connection; `None` where none waits.
    pub fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        match net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => {
                // A socket that refuses an option still works.
                let _ = match self.address {
                    // Replies are sent in batches already, so delaying them would only add latency. And a client
                    // whose machine has gone must not keep its place for ever.
                    Listen::Tcp(_) => sockopt::set_tcp_nodelay(&socket, true).and_then(|()| notice_silence(&socket)),
                    // A larger part of a long answer is sent at once. The kernel cuts the size to its limit
                    // (wmem_max).
                    Listen::Unix(_) => sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES),
                };
                Ok(Some(socket))
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Checks that the server could listen at an address, and frees it again.
///
/// # Errors
/// Another server listens there, the address is beyond loopback and not allowed, or the system refuses.
pub fn can_listen(address: &Listen, allow_remote: bool) -> Result<(), ServerError> {
    Listener::open(address, allow_remote, true).map(drop)
}

/// Makes the kernel end a connection whose peer answers nothing for about two minutes (tcp(7)). While answers are in
/// flight to the peer, the kernel sends no probes, and the connection ends after a quarter of an hour
/// (`tcp_retries2`).
fn notice_silence(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(10))?;
    // No TCP_USER_TIMEOUT: it would end a live client that accepts nothing for a while, such as a paused machine.
    sockopt::set_tcp_keepcnt(socket, 6)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Listen::Unix(path), Some(file)) = (&self.address, self.file)
            && identity(path) == Some(file)
        {
            // An error has no consequence: the next start replaces the file.
            let _ = rustix::fs::unlink(path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Socket { Some((stat.st_dev, stat.st_ino)) } else { None }
}

fn open_unix(address: &Listen, path: &Path, private: bool) -> Result<Listener, ServerError> {
    let failed = |operation| move |source| ServerError::Listen { address: address.clone(), operation, source };
    // The path must fit into sun_path, 108 bytes.
    let name = SocketAddrUnix::new(path).map_err(failed("the path is too long or empty: socket address"))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed("socket"))?;
    if private {
        // Linux creates the file with the socket's own mode (unix_bind). The umask would not do: it applies to the
        // whole process.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed("fchmod"))?;
    }
    match net::bind(&socket, &name) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            if let Ok(stat) = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
                && FileType::from_raw_mode(stat.st_mode) != FileType::Socket
            {
                return Err(ServerError::NotASocket { address: address.clone() });
            }
            let probe =
                net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed("socket"))?;
            match net::connect(&probe, &name) {
                // No process listens any more, or the file has been removed meanwhile.
                Err(Errno::CONNREFUSED | Errno::NOENT) => {}
                // Connected, or the backlog is full: a process listens.
                Ok(()) | Err(Errno::AGAIN) => {
                    return Err(ServerError::InUse { address: address.clone() });
                }
                Err(error) => return Err(failed("connecting to the socket that is there")(error)),
            }
            match rustix::fs::unlink(path) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(failed("removing the stale socket")(error)),
            }
            net::bind(&socket, &name).map_err(failed("bind"))?;
        }
        Err(error) => return Err(failed("bind")(error)),
    }
    net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    Ok(Listener { socket, address: address.clone(), file: identity(path) })
}

fn open_tcp(address: &Listen, wanted: SocketAddr) -> Result<Listener, ServerError> {
    let failed = |operation| move |source| ServerError::Listen { address: address.clone(), operation, source };
    let family = if wanted.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed("socket"))?;
    // A restarted server must not wait until its predecessor's connections leave TIME_WAIT. Linux still refuses two
    // listeners at once.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("SO_REUSEADDR"))?;
    match net::bind(&socket, &wanted) {
        Ok(()) => {}
        Err(Errno::ADDRINUSE) => {
            return Err(ServerError::InUse { address: address.clone() });
        }
        Err(error) => return Err(failed("bind")(error)),
    }
    net::listen(&socket, BACKLOG).map_err(failed("listen"))?;
    let bound = net::getsockname(&socket).map_err(failed("getsockname"))?;
    let bound = SocketAddr::try_from(bound).map_err(failed("getsockname"))?;
    Ok(Listener { socket, address: Listen::Tcp(bound), file: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("forebay-listener-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir.join("s")
    }

    #[test]
    fn replaces_a_stale_socket_but_not_a_live_one_nor_a_file() {
        let path = scratch("stale");
        let address = Listen::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed server leaves its file behind");
        let listener = Listener::open(&address, false, false).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(matches!(Listener::open(&address, false, false), Err(ServerError::InUse { .. })));
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::open(&address, false, false), Err(ServerError::NotASocket { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn leaves_the_socket_of_a_successor_alone() {
        let path = scratch("successor");
        let listener = Listener::open(&Listen::Unix(path.clone()), false, false).unwrap();
        std::fs::remove_file(&path).unwrap();
        // An inode number may be used again at once, so another file takes it first.
        std::fs::write(path.with_extension("filler"), "x").unwrap();
        let successor = UnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
        drop(successor);
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn refuses_what_others_can_reach_unless_allowed() {
        let everywhere: Listen = "tcp:0.0.0.0:0".parse().unwrap();
        assert!(matches!(Listener::open(&everywhere, false, false), Err(ServerError::Remote { .. })));
        Listener::open(&everywhere, true, false).unwrap();
        let loopback: Listen = "tcp:127.0.0.1:0".parse().unwrap();
        let listener = Listener::open(&loopback, false, false).unwrap();
        assert!(matches!(&listener.address, Listen::Tcp(address) if address.port() != 0));
        assert!(matches!(Listener::open(&listener.address, false, false), Err(ServerError::InUse { .. })));
    }

    #[test]
    fn a_path_too_long_is_an_error() {
        let path = std::path::PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
        assert!(matches!(Listener::open(&Listen::Unix(path), false, false), Err(ServerError::Listen { .. })));
    }

    /// Regression: sockets were open under the umask for a moment, before they got the configured mode.
    #[test]
    fn regression_a_private_socket_is_so_from_the_beginning() {
        use std::os::unix::fs::PermissionsExt;
        let path = scratch("private");
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let open = |private| Listener::open(&Listen::Unix(path.clone()), false, private).unwrap();
        let public = open(false);
        assert_ne!(mode(), 0o600);
        drop(public);
        let _private = open(true);
        assert_eq!(mode(), 0o600);
        UnixStream::connect(&path).unwrap();
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
