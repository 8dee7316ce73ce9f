//! Ends the connection of a client whose message takes too long. The crate that reads messages tries again for ever where the
//! socket's time limit passes, or where descriptors that came with a message could not be taken; a socket that was shut down it
//! gives up.

use rustix::net::{Shutdown, shutdown};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a message may take, from its first byte to the end of its answer; waits for the server aside.
const LIMIT: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Watched {
    stream: Option<UnixStream>,
    since: Option<Instant>,
    has_ended_it: bool,
}

/// Looks at a client from the server's thread while the client's own may hang.
#[derive(Clone, Debug, Default)]
pub struct Watchdog(Arc<Mutex<Watched>>);

/// While it is there time does not count.
#[derive(Debug)]
pub struct Paused {
    watchdog: Watchdog,
    was_running: bool,
}

impl Watchdog {
    fn locked(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another client, or none.
    pub fn watch(&self, stream: Option<UnixStream>) {
        *self.locked() = Watched { stream, since: None, has_ended_it: false };
    }

    /// A message is about to be read.
    pub fn begin(&self) {
        self.locked().since = Some(Instant::now());
    }

    /// It was answered, or not. Whether the connection was ended meanwhile.
    pub fn end(&self) -> bool {
        let mut watched = self.locked();
        watched.since = None;
        watched.has_ended_it
    }

    /// What follows is the server's own time.
    pub fn pause(&self) -> Paused {
        let was_running = self.locked().since.take().is_some();
        Paused { watchdog: self.clone(), was_running }
    }

    /// Ends the connection where its message takes too long.
    pub fn look(&self) {
        let mut watched = self.locked();
        if watched.since.is_some_and(|since| since.elapsed() > LIMIT)
            && let Some(stream) = &watched.stream
        {
            // Fails only where the client has gone, which ends it, too.
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
