//! The listening control socket.

use super::access::SocketAccess;
use crate::control::is_own_folder;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening control socket. Dropping it removes its file.
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file.
    file: Option<(u64, u64)>,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // The file may have been removed by hand, and a new one may belong to another server.
        if self.is_at(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ControlSocket {
    /// Listens at `path` unless another process does, and never blocks. [`SocketAccess`] says who may connect; by
    /// default only this user.
    ///
    /// # Errors
    /// Another server listens there, or the system refuses.
    pub fn open(path: &Path, access: &SocketAccess) -> Result<Self> {
        if let Ok(kind) = std::fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
            if !kind.is_socket() {
                bail!(
                    "the control socket {} exists and is no socket: remove it, or set server.control",
                    path.display()
                );
            }
            if is_listened_at(path) {
                bail!("another server has the control socket {}: stop it first, or set server.control", path.display());
            }
            // The socket of a server that was killed.
            std::fs::remove_file(path).with_context(|| format!("cannot remove the stale {}", path.display()))?;
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent.filter(|parent| is_own_folder(parent)) {
            make_own_folder(parent).with_context(|| {
                format!("cannot make {} for the control socket: set server.control", parent.display())
            })?;
        }
        let listener = bind(path).with_context(|| {
            format!(
                "cannot listen on the control socket {}: its directory must exist, or set server.control",
                path.display()
            )
        })?;
        let socket = Self { listener: listener.into(), path: path.to_owned(), file: identity(path) };
        access.apply(path)?;
        Ok(socket)
    }

    /// The listener, to accept connections from.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Path of the socket's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a connection to `path` reaches this socket.
    pub fn is_at(&self, path: &Path) -> bool {
        self.file.is_some() && identity(path) == self.file
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn new_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn bind(path: &Path) -> io::Result<OwnedFd> {
    let (socket, address) = (new_socket()?, SocketAddrUnix::new(path)?);
    // Linux creates the file with the socket's own mode (unix_bind). The umask would not do: it applies to the whole
    // process.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Whether another process listens there, as far as can be found out without waiting.
fn is_listened_at(path: &Path) -> bool {
    let asked = SocketAddrUnix::new(path).and_then(|address| net::connect(new_socket()?, &address));
    // EAGAIN: a listener exists, and its backlog is full.
    matches!(asked, Ok(()) | Err(Errno::AGAIN))
}

/// Creates the folder for this user's sockets, and checks that it belongs to this user.
fn make_own_folder(path: &Path) -> Result<()> {
    if let Err(error) = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(path) {
        bail!("{error}");
    }
    let metadata = std::fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    // In a folder that all may write to, another user could have created it first.
    ensure!(metadata.is_dir() && metadata.uid() == own, "{} belongs to another user", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn it_is_this_users_alone_from_the_beginning_and_goes_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        // The socket of a server that was killed.
        drop(UnixListener::bind(&path).unwrap());
        let access = SocketAccess::default();
        let socket = ControlSocket::open(&path, &access).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok() && socket.is_at(&path));
        let again = ControlSocket::open(&path, &access).err().unwrap();
        assert!(again.to_string().contains("another server has the control socket"), "{again}");
        drop(socket);
        assert!(!path.exists());
        std::fs::write(&path, "a file").unwrap();
        let refused = ControlSocket::open(&path, &access).err().unwrap();
        assert!(refused.to_string().contains("is no socket"), "{refused}");
    }
}
