//! Results of a connection: received bytes, or the reason for its end.

use crate::frontend::FrontendError;
use crate::nbd::error::ProtocolError;
use crate::tls::TlsFailure;
use rustix::io::Errno;
use thiserror::Error;

/// The reason for a connection's end.
#[derive(Debug, Error)]
pub enum CloseReason {
    /// The client closed it, with or without announcing it.
    #[error("closed by the client")]
    Client,
    /// The client broke the protocol.
    #[error("the client broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// TLS failed, at its begin or later.
    #[error("{0}")]
    Tls(TlsFailure),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// The client chose no export in time.
    #[error("no export was chosen in time")]
    HandshakeTimeout,
    /// It had chosen no export, and ended to make room for a newer connection.
    #[error("it gave way to a new connection, having chosen no export")]
    Evicted,
    /// When it chose an export, there were as many clients as allowed.
    #[error("the server has as many clients as it takes")]
    Full,
    /// The export was removed.
    #[error("the export was removed")]
    ExportRemoved,
    /// The server stopped.
    #[error("the server stopped")]
    Stopped,
    /// The server stopped, and the client did not take its last answers.
    #[error("the server stopped, and it did not take its answers")]
    Unread,
    /// A front end other than NBD ended.
    #[error("{0}")]
    Frontend(FrontendError),
}

/// Result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes were received; more may wait.
    Bytes,
    /// Bytes were received, and the socket is empty now.
    Last,
    /// Nothing was received.
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
