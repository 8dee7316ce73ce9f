//! What comes of a connection: bytes, or its end.

use crate::frontend::FrontendError;
use crate::nbd::error::ProtocolError;
use crate::tls::TlsFailure;
use rustix::io::Errno;
use thiserror::Error;

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum CloseReason {
    /// The client closed it, with or without saying so.
    #[error("closed by the client")]
    Client,
    /// The client broke the protocol.
    #[error("the client broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// TLS could not begin or go on.
    #[error("{0}")]
    Tls(TlsFailure),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// No export was chosen in time.
    #[error("no export was chosen in time")]
    HandshakeTimeout,
    /// Made room for a newer connection while it had not chosen an export.
    #[error("it gave way to a new connection, having chosen no export")]
    Evicted,
    /// As many others had chosen an export before it did.
    #[error("the server has as many clients as it takes")]
    Full,
    /// The export was removed.
    #[error("the export was removed")]
    ExportRemoved,
    /// The server stopped.
    #[error("the server stopped")]
    Stopped,
    /// The server stopped, and did not wait for this one any longer.
    #[error("the server stopped, and it did not take its answers")]
    Unread,
    /// A front end beside NBD came to its end.
    #[error("{0}")]
    Frontend(FrontendError),
}

/// What came of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, and perhaps more wait.
    Bytes,
    /// Bytes, and the socket is empty now.
    Last,
    /// Nothing there.
    Nothing,
}

impl From<TlsFailure> for CloseReason {
    fn from(failure: TlsFailure) -> Self {
        match failure {
            TlsFailure::Closed => Self::Client,
            failure => Self::Tls(failure),
        }
    }
}
