//! Errors of a connection to a server.

use super::wire;
use std::io;

/// The reason why a connection cannot continue. The server's error for a single command is in its [`super::Reply`].
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The connection could not be made.
    #[error(
        "cannot connect to {endpoint}: {source}; start the server, or name the address that it is ready at (`forebay serve` prints \
         it as `ready URI`)"
    )]
    Connect {
        /// Address of the server.
        endpoint: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection failed while {during}: {source}")]
    Io {
        /// What the client was doing.
        during: &'static str,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("the server closed the connection while {during}")]
    Closed {
        /// What the client was doing.
        during: &'static str,
    },
    /// The server breaks the protocol.
    #[error("the server breaks the protocol: {what}")]
    Protocol {
        /// The rule that the server broke.
        what: &'static str,
    },
    /// The server refuses an option.
    #[error("the server refuses {option} (reply 0x{reply:08x}): {message}{}", advice(*reply))]
    Refused {
        /// Name of the option.
        option: &'static str,
        /// The reply type.
        reply: u32,
        /// The server's message, escaped.
        message: String,
    },
    /// The server was silent for too long.
    #[error("the server did not answer within {seconds} s")]
    Timeout {
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// The caller asked for something that the protocol or this client forbids.
    #[error("{what}")]
    Usage {
        /// What is forbidden.
        what: &'static str,
    },
}

/// Advice on a refusal; empty where there is none.
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
