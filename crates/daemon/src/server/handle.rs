//! What others ask of a running server: to stop, and to read its configuration again.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Takes a line such as `ready nbd+unix:///db?socket=/run/forebay/db.sock`, once that export can be used.
pub type Announce = Box<dyn FnMut(&str) -> anyhow::Result<()> + Send>;

/// Asks a server that was given the other end, from any thread, or from a signal's handler.
#[derive(Debug)]
pub struct Handle {
    stop: UnixStream,
    reload: UnixStream,
}

/// The server's end of a [`Handle`]; an end goes where nobody is left to ask by it.
#[derive(Debug)]
pub struct Asked {
    stop: Option<UnixStream>,
    reload: Option<UnixStream>,
}

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stop,
    Reload,
}

impl Asked {
    fn ends(&mut self) -> [(Wish, &mut Option<UnixStream>); 2] {
        [(Wish::Stop, &mut self.stop), (Wish::Reload, &mut self.reload)]
    }

    /// Descriptors that are readable once something is asked.
    pub(super) fn fds(&self) -> impl Iterator<Item = i32> {
        [&self.stop, &self.reload].into_iter().flatten().map(AsRawFd::as_raw_fd)
    }

    /// Waits until the other end of `other` is closed, or a stop is asked; whether it is. It stays asked.
    pub(super) fn wait_for_stop(&self, other: &UnixStream) -> bool {
        let mut stop = self.stop.as_ref();
        loop {
            let mut polled = vec![PollFd::new(other, PollFlags::IN)];
            polled.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
            match poll(&mut polled, None) {
                // What was waited for counts, where both are ready.
                Ok(_) if !polled[0].revents().is_empty() => return false,
                Ok(1..) if stop.is_some_and(is_something_said) => return true,
                // Nobody is left to ask.
                Ok(1..) => stop = None,
                // A signal cuts it short.
                Ok(0) | Err(Errno::INTR) => {}
                // The system has no memory for it: nobody can be heard.
                Err(_) => return false,
            }
        }
    }

    /// What is asked by a readable descriptor; `None` where it is none of these or the asking is over.
    pub(super) fn read(&mut self, fd: i32) -> Option<Wish> {
        let is_it = |end: &Option<UnixStream>| end.as_ref().is_some_and(|end| end.as_raw_fd() == fd);
        let (wish, end) = self.ends().into_iter().find(|(_, end)| is_it(end))?;
        let mut bytes = [0; 16];
        match end.as_ref()?.read(&mut bytes) {
            // The bytes say nothing, and several at once are one wish.
            Ok(1..) => Some(wish),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => None,
            // Readable for ever otherwise.
            Ok(0) | Err(_) => {
                *end = None;
                None
            }
        }
    }
}

/// Whether there is anything to be read, and not the end alone.
fn is_something_said(end: &UnixStream) -> bool {
    recv(end, &mut [0; 1], RecvFlags::PEEK).is_ok_and(|(count, _)| count > 0)
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
        Ok((Self { stop, reload }, Asked { stop: Some(asked_stop), reload: Some(asked_reload) }))
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
