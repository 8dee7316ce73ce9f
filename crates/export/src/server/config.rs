//! Options and errors of the server.

use super::address::Listen;
use crate::limits::SessionLimits;
use forebay_volume::RequestError;
use rustix::io::Errno;
use thiserror::Error;

/// Options of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits of one client.
    pub session: SessionLimits,
    /// Clients that have chosen an export at a time, 1 to 16,384; further ones are refused. Those that have not yet have places
    /// of their own: see [`ServerConfig::handshakes_max`].
    pub connections_max: u16,
    /// Time a client has to choose an export, TLS and all, in nanoseconds.
    pub handshake_timeout_ns: u64,
    /// Time for the last replies and flushes of a clean stop, in nanoseconds.
    pub stop_timeout_ns: u64,
    /// How long to look for new requests before sleeping, in nanoseconds; 0: sleep at once. Polling saves the time
    /// of falling asleep and waking up on every request at low queue depth, for up to a whole core while clients
    /// are busy. Without requests for this long the server sleeps, and polls again once they come close together.
    pub poll_ns: u64,
    /// Whether TCP addresses beyond loopback may be listened on. What clients see there without TLS is up to the exports.
    pub allow_remote: bool,
    /// Whether Unix sockets are made for this user only, until the owner gives them a mode.
    pub private_sockets: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            session: SessionLimits::default(),
            connections_max: 256,
            handshake_timeout_ns: 30_000_000_000,
            stop_timeout_ns: 30_000_000_000,
            poll_ns: 0,
            allow_remote: false,
            private_sockets: false,
        }
    }
}

/// Why the server cannot start or go on.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A system call of the loop failed.
    #[error("{operation} failed")]
    System {
        /// Which.
        operation: &'static str,
        /// Why.
        source: Errno,
    },
    /// Listening failed.
    #[error("cannot listen on {address}: {operation} failed")]
    Listen {
        /// Where.
        address: Listen,
        /// What failed.
        operation: &'static str,
        /// Why.
        source: Errno,
    },
    /// Another server listens there.
    #[error("cannot listen on {address}: a server listens there already; stop it, or choose another address")]
    InUse {
        /// Where.
        address: Listen,
    },
    /// The path exists and is no socket.
    #[error("cannot listen on {address}: the path exists and is not a socket; remove it or choose another")]
    NotASocket {
        /// Where.
        address: Listen,
    },
    /// A TCP address beyond loopback, not asked for by name.
    #[error("refusing to listen on {address}, which others can reach: allow it explicitly if that is meant")]
    Remote {
        /// Where.
        address: Listen,
    },
    /// The server stops: whoever came now would not hear of it.
    #[error("not listening on {address}: the server stops")]
    Stopping {
        /// Where.
        address: Listen,
    },
    /// An option is out of range.
    #[error("option {option} is out of range: {allowed}")]
    Config {
        /// Which.
        option: &'static str,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The flush at the end failed.
    #[error("the flush at the end failed: acknowledged writes since the last good flush may be lost")]
    FinalFlush {
        /// Why.
        source: RequestError,
    },
    /// Requests did not finish within the time for stopping.
    #[error("stopped with {requests} request{} unfinished after {} s", if *requests == 1 { "" } else { "s" }, *timeout_ns as f64 / 1e9)]
    StopTimedOut {
        /// How many.
        requests: usize,
        /// The limit.
        timeout_ns: u64,
    },
}

impl ServerConfig {
    /// Connections that may be on their way to an export at a time by TCP, and as many by Unix sockets: as many as there may
    /// be clients, but at least 16 and at most 128. At the limit one of them gives way to a new one.
    #[must_use]
    pub fn handshakes_max(&self) -> usize {
        usize::from(self.connections_max).clamp(16, 128)
    }

    /// Checks the ranges given at the fields.
    ///
    /// # Errors
    /// Names the first option out of range.
    pub fn check(&self) -> Result<(), ServerError> {
        let bad = |option, allowed| Err(ServerError::Config { option, allowed });
        if !(1..=16_384).contains(&self.connections_max) {
            return bad("connections_max", "1 to 16,384");
        }
        if self.session.requests_max == 0 {
            return bad("requests_max", "1 to 65,535");
        }
        if !(1 << 20..=32 << 20).contains(&self.session.payload_bytes_max) {
            return bad("payload_bytes_max", "1 MiB to 32 MiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was said in nanoseconds.
    #[test]
    fn regression_the_time_of_a_stop_is_said_in_seconds() {
        let error = |requests, timeout_ns| ServerError::StopTimedOut { requests, timeout_ns }.to_string();
        assert_eq!(error(1, 30_000_000_000), "stopped with 1 request unfinished after 30 s");
        assert_eq!(error(2, 500_000_000), "stopped with 2 requests unfinished after 0.5 s");
    }
}
