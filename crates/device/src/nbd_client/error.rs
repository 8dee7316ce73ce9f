//! What can go wrong between a client and a server.

use super::wire;
use std::io;

/// Why a connection cannot go on. What a server says of a single command is in its [`super::Reply`] instead.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// No connection.
    #[error(
        "cannot connect to {endpoint}: {source}; start the server, or name the address that it is ready at (`forebay serve` prints \
         it as `ready URI`)"
    )]
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
    #[error("the server refuses {option} (reply 0x{reply:08x}): {message}{}", advice(*reply))]
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

/// What to do about a refusal.
fn advice(reply: u32) -> &'static str {
    match reply {
        wire::REP_ERR_UNKNOWN => "; name an export that it has at the end of the URI (nbdinfo --list shows them)",
        wire::REP_ERR_POLICY => "; let the server give it to this client, or name another export at the end of the URI",
        wire::REP_ERR_TLS_REQD => {
            "; measure at an address of the server that takes clients without TLS, which this client has not"
        }
        _ => "",
    }
}
