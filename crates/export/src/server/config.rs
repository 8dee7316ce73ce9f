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
    /// Most clients that have chosen an export, 1 to 16,384; further ones are refused. Clients that have not chosen
    /// one are counted separately: see [`ServerConfig::handshakes_max`].
    pub connections_max: u16,
    /// Time in which a client must choose an export, including TLS, in nanoseconds.
    pub handshake_timeout_ns: u64,
    /// Time limit for the last replies and flushes of a clean stop, in nanoseconds.
    pub stop_timeout_ns: u64,
    /// How long to poll for new requests before sleeping, in nanoseconds; 0: sleep at once. At low queue depth
    /// polling saves the time of falling asleep and waking up for every request. It costs up to a whole core while
    /// clients are busy. After this long without requests the server sleeps, and polls again once requests come in
    /// quick succession.
    pub poll_ns: u64,
    /// Whether to allow TCP addresses beyond loopback. The exports decide what clients see there without TLS.
    pub allow_remote: bool,
    /// Whether Unix sockets are created for this user only, until the owner changes their mode.
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

/// The reason why the server cannot start or continue.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A system call of the event loop failed.
    #[error("{operation} failed")]
    System {
        /// Name of the call.
        operation: &'static str,
        /// The error.
        source: Errno,
    },
    /// Listening failed.
    #[error("cannot listen on {address}: {operation} failed")]
    Listen {
        /// Address.
        address: Listen,
        /// Name of the call.
        operation: &'static str,
        /// The error.
        source: Errno,
    },
    /// Another server listens at the address.
    #[error("cannot listen on {address}: a server listens there already; stop it, or choose another address")]
    InUse {
        /// Address.
        address: Listen,
    },
    /// The path exists and is no socket.
    #[error("cannot listen on {address}: the path exists and is not a socket; remove it or choose another")]
    NotASocket {
        /// Address.
        address: Listen,
    },
    /// The TCP address is beyond loopback, which was not allowed explicitly.
    #[error("refusing to listen on {address}, which others can reach: allow it explicitly if that is meant")]
    Remote {
        /// Address.
        address: Listen,
    },
    /// The server is stopping, so a new client would not be notified of its end.
    #[error("not listening on {address}: the server stops")]
    Stopping {
        /// Address.
        address: Listen,
    },
    /// An option is out of range.
    #[error("option {option} is out of range: {allowed}")]
    Config {
        /// Name of the option.
        option: &'static str,
        /// Its range, in words.
        allowed: &'static str,
    },
    /// The flush at the end of a stop failed.
    #[error("the flush at the end failed: acknowledged writes since the last good flush may be lost")]
    FinalFlush {
        /// The error.
        source: RequestError,
    },
    /// Requests did not complete within the time limit of a stop.
    #[error("stopped with {requests} request{} unfinished after {} s", if *requests == 1 { "" } else { "s" }, *timeout_ns as f64 / 1e9)]
    StopTimedOut {
        /// Count of these requests.
        requests: usize,
        /// The time limit, in nanoseconds.
        timeout_ns: u64,
    },
}

impl ServerConfig {
    /// Most connections by TCP that have not chosen an export yet, and as many by Unix sockets. This is the limit of
    /// clients, but at least 16 and at most 128. At the limit one of them ends for a new connection.
    #[must_use]
    pub fn handshakes_max(&self) -> usize {
        usize::from(self.connections_max).clamp(16, 128)
    }

    /// Checks all fields against their documented ranges.
    ///
    /// # Errors
    /// Names the first option that is out of range.
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

    /// Regression: the message stated the time in nanoseconds.
    #[test]
    fn regression_the_time_of_a_stop_is_said_in_seconds() {
        let error = |requests, timeout_ns| ServerError::StopTimedOut { requests, timeout_ns }.to_string();
        assert_eq!(error(1, 30_000_000_000), "stopped with 1 request unfinished after 30 s");
        assert_eq!(error(2, 500_000_000), "stopped with 2 requests unfinished after 0.5 s");
    }
}
