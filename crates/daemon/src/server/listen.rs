//! The control socket, as long as a server has it.

use super::access::SocketAccess;
use crate::control::is_own_folder;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::Mode;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A control socket; its file goes with it.
pub struct ControlSocket(PathBuf);

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A folder for sockets that belongs to this user alone.
fn make_own_folder(path: &Path) -> Result<()> {
    if let Err(error) = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(path) {
        bail!("{error}");
    }
    let metadata = std::fs::symlink_metadata(path)?;
    let own = rustix::process::geteuid().as_raw();
    // In a folder where all may write, another user could have made it first.
    ensure!(metadata.is_dir() && metadata.uid() == own, "{} belongs to another user", path.display());
    Ok(())
}

/// Listens where nobody else does; who may connect is [`SocketAccess`]'s, by default this user only.
pub fn listen_control(path: &Path, access: &SocketAccess) -> Result<(UnixListener, ControlSocket)> {
    if let Ok(kind) = std::fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        if !kind.is_socket() {
            bail!("the control socket {} exists and is no socket: remove it, or set server.control", path.display());
        }
        if UnixStream::connect(path).is_ok() {
            bail!("another server has the control socket {}: stop it first, or set server.control", path.display());
        }
        // Left behind by a server that was killed.
        std::fs::remove_file(path).with_context(|| format!("cannot remove the stale {}", path.display()))?;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| is_own_folder(parent)) {
        make_own_folder(parent)
            .with_context(|| format!("cannot make {} for the control socket: set server.control", parent.display()))?;
    }
    // The mask is the process's: `Server::open` asks that no other thread creates files meanwhile.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.with_context(|| {
        format!(
            "cannot listen on the control socket {}: its directory must exist, or set server.control",
            path.display()
        )
    })?;
    listener.set_nonblocking(true)?;
    let socket = ControlSocket(path.to_owned());
    access.apply(path)?;
    Ok((listener, socket))
}
