//! What can go wrong between a client and a server.

use std::io;

/// Why a connection cannot go on. What a server says of a single command is in its [`super::Reply`] instead.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// No connection.
    #[error("cannot connect to {endpoint}: {source}")]
    Connect {
        /// Where.
        endpoint: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection failed while {during}: {source}")]
    Io {
        /// What was being done.
        during: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("the server closed the connection while {during}")]
    Closed {
        /// What was being done.
        during: &'static str,
    },
    /// The server breaks the protocol.
    #[error("the server breaks the protocol: {what}")]
    Protocol {
        /// How.
        what: &'static str,
    },
    /// The server refuses an option.
    #[error("the server refuses {option} (reply 0x{reply:08x}): {message}")]
    Refused {
        /// The option.
        option: &'static str,
        /// The reply type.
        reply: u32,
        /// What the server says, escaped.
        message: String,
    },
    /// Nothing came for too long.
    #[error("the server did not answer within {seconds} s")]
    Timeout {
        /// How long.
        seconds: u64,
    },
    /// A use that the protocol or this client forbids.
    #[error("{what}")]
    Usage {
        /// What.
        what: &'static str,
    },
}
