//! What others ask of a running server: to stop, and to read its configuration again.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;

/// Asks a server that was given the other end, from any thread, or from a signal's handler.
#[derive(Debug)]
pub struct Handle {
    stop: UnixStream,
    reload: UnixStream,
}

/// The server's end of a [`Handle`].
#[derive(Debug)]
pub struct Asked {
    /// Readable once it is to stop.
    pub(super) stop: UnixStream,
    /// Readable once it is to read its configuration again.
    pub(super) reload: UnixStream,
}

/// Two ends; neither waits for the other.
fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs))
}

impl Handle {
    /// Both ends. What is asked before the server looks is not lost.
    ///
    /// # Errors
    /// Where the system has no sockets left.
    pub fn new() -> io::Result<(Self, Asked)> {
        let (asked_stop, stop) = pair()?;
        let (asked_reload, reload) = pair()?;
        Ok((Self { stop, reload }, Asked { stop: asked_stop, reload: asked_reload }))
    }

    /// Stops cleanly; asked again, without waiting for block devices in use.
    pub fn stop(&self) {
        // A full socket has been noticed already, and a server that has gone needs no wish.
        let _ = (&self.stop).write(&[1]);
    }

    /// Reads the configuration again.
    pub fn reload(&self) {
        let _ = (&self.reload).write(&[1]);
    }

    /// Has SIGINT and SIGTERM stop the server, and SIGHUP reload: for a process that is nothing but a server.
    ///
    /// # Errors
    /// Where the system does not let us.
    pub fn watch_signals(&self) -> Result<()> {
        for (signal, end) in [(SIGINT, &self.stop), (SIGTERM, &self.stop), (SIGHUP, &self.reload)] {
            let end = end.try_clone().context("cannot watch for signals")?;
            signal_hook::low_level::pipe::register(signal, end).context("cannot watch for signals")?;
        }
        Ok(())
    }
}
