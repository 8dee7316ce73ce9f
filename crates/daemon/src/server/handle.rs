//! Asks a running server from outside to stop, or to read its configuration again.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Receives a line such as `ready nbd+unix:///db?socket=/run/forebay/db.sock` as soon as that export can be used.
pub type Announce = Box<dyn FnMut(&str) -> anyhow::Result<()> + Send>;

/// Controls a server, from any thread or from a signal handler.
#[derive(Debug)]
pub struct Handle {
    stop: UnixStream,
    reload: UnixStream,
}

/// The server's end of a [`Handle`]. Each of its sockets is dropped once the handle is gone.
#[derive(Debug)]
pub struct Asked {
    stop: Option<UnixStream>,
    reload: Option<UnixStream>,
}

/// What the server is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stop,
    Reload,
}

impl Asked {
    fn ends(&mut self) -> [(Wish, &mut Option<UnixStream>); 2] {
        [(Wish::Stop, &mut self.stop), (Wish::Reload, &mut self.reload)]
    }

    /// Descriptors that become readable with a request.
    pub(super) fn fds(&self) -> impl Iterator<Item = i32> {
        [&self.stop, &self.reload].into_iter().flatten().map(AsRawFd::as_raw_fd)
    }

    /// Waits until the other end of `other` is closed or a stop is requested. Returns whether it is a stop; the
    /// request stays pending.
    pub(super) fn wait_for_stop(&self, other: &UnixStream) -> bool {
        let mut stop = self.stop.as_ref();
        loop {
            let mut polled = vec![PollFd::new(other, PollFlags::IN)];
            polled.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
            match poll(&mut polled, None) {
                // Where both are ready, the end of the awaited work wins.
                Ok(_) if !polled[0].revents().is_empty() => return false,
                Ok(1..) if stop.is_some_and(is_something_said) => return true,
                // The handle is gone, so nobody can ask for a stop any more.
                Ok(1..) => stop = None,
                // A signal has interrupted the call.
                Ok(0) | Err(Errno::INTR) => {}
                // The system has no memory for the call; a stop cannot be noticed.
                Err(_) => return false,
            }
        }
    }

    /// The request that a readable descriptor carries; `None` where `fd` is not one of the handle's, or the handle is
    /// gone.
    pub(super) fn read(&mut self, fd: i32) -> Option<Wish> {
        let is_it = |end: &Option<UnixStream>| end.as_ref().is_some_and(|end| end.as_raw_fd() == fd);
        let (wish, end) = self.ends().into_iter().find(|(_, end)| is_it(end))?;
        let mut bytes = [0; 16];
        match end.as_ref()?.read(&mut bytes) {
            // The bytes carry no information, and several of them are one request.
            Ok(1..) => Some(wish),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            // A closed socket would stay readable for ever.
            Ok(0) | Err(_) => {
                *end = None;
                None
            }
        }
    }
}

/// Whether there are bytes to read, not just the end of the stream.
fn is_something_said(end: &UnixStream) -> bool {
    recv(end, &mut [0; 1], RecvFlags::PEEK).is_ok_and(|(count, _)| count > 0)
}

/// A pair of sockets that never block.
fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs))
}

impl Handle {
    /// Both ends. A request made before the server listens is not lost.
    ///
    /// # Errors
    /// The system has no sockets left.
    pub fn new() -> io::Result<(Self, Asked)> {
        let (asked_stop, stop) = pair()?;
        let (asked_reload, reload) = pair()?;
        Ok((Self { stop, reload }, Asked { stop: Some(asked_stop), reload: Some(asked_reload) }))
    }

    /// Asks for a clean stop. A second call stops without waiting for block devices that are in use.
    pub fn stop(&self) {
        // A full socket already holds a request. Where the server has gone, there is nothing to stop.
        let _ = (&self.stop).write(&[1]);
    }

    /// Asks the server to read its configuration again.
    pub fn reload(&self) {
        let _ = (&self.reload).write(&[1]);
    }

    /// Makes SIGINT and SIGTERM stop the server, and SIGHUP reload it. For a process whose only purpose is the
    /// server.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
    pub fn watch_signals(&self) -> Result<()> {
        for (signal, end) in [(SIGINT, &self.stop), (SIGTERM, &self.stop), (SIGHUP, &self.reload)] {
            let end = end.try_clone().context("cannot watch for signals")?;
            signal_hook::low_level::pipe::register(signal, end).context("cannot watch for signals")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_once_and_nothing_is_asked_by_those_who_have_gone() {
        let (handle, mut asked) = Handle::new().unwrap();
        let fds: Vec<i32> = asked.fds().collect();
        let [stop, reload] = fds.as_slice() else { panic!("{fds:?}") };
        assert_eq!((asked.read(*stop), asked.read(*reload), asked.read(-1)), (None, None, None));
        handle.reload();
        handle.reload();
        handle.stop();
        assert_eq!((asked.read(*reload), asked.read(*reload)), (Some(Wish::Reload), None));
        drop(handle);
        assert_eq!((asked.read(*stop), asked.read(*stop)), (Some(Wish::Stop), None));
        assert_eq!((asked.fds().count(), asked.read(*reload)), (1, None));
        assert_eq!(asked.fds().count(), 0);
    }
}
