//! Ends the connection of a client whose message takes too long. The crate that parses messages retries for ever
//! after the socket's time limit passes, or after it could not receive the descriptors of a message; it gives up only
//! once the socket is shut down.

use forebay_block::lock;
use rustix::net::{Shutdown, shutdown};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a message may take, from its first byte to the end of its answer, without the time that the server itself
/// needs.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Watched {
    stream: Option<UnixStream>,
    since: Option<Instant>,
    has_ended_it: bool,
}

/// Watches a client from the server's thread, since the client's own thread may hang.
#[derive(Clone, Debug, Default)]
pub struct Watchdog(Arc<Mutex<Watched>>);

/// A pause: while it exists, time does not count against the limit.
#[derive(Debug)]
pub struct Paused {
    watchdog: Watchdog,
    was_running: bool,
}

impl Watchdog {
    fn locked(&self) -> MutexGuard<'_, Watched> {
        lock(&self.0)
    }

    /// Watches another client, or none.
    pub fn watch(&self, stream: Option<UnixStream>) {
        *self.locked() = Watched { stream, since: None, has_ended_it: false };
    }

    /// Starts the time: the thread is about to read a message.
    pub fn begin(&self) {
        self.locked().since = Some(Instant::now());
    }

    /// Stops the time. Returns whether the watchdog has ended the connection meanwhile.
    pub fn end(&self) -> bool {
        let mut watched = self.locked();
        watched.since = None;
        watched.has_ended_it
    }

    /// Pauses the time, for work of the server itself.
    pub fn pause(&self) -> Paused {
        let was_running = self.locked().since.take().is_some();
        Paused { watchdog: self.clone(), was_running }
    }

    /// Ends the connection if its message takes too long.
    pub fn look(&self) {
        let mut watched = self.locked();
        if watched.since.is_some_and(|since| since.elapsed() > LIMIT)
            && let Some(stream) = &watched.stream
        {
            // Fails only if the client has gone, which ends the connection, too.
            let _ = shutdown(stream, Shutdown::Both);
            watched.has_ended_it = true;
            watched.since = None;
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        if self.was_running {
            self.watchdog.begin();
        }
    }
}
