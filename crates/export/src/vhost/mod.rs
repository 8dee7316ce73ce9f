//! A block device of virtual machines: vhost-user-blk, on a thread of its own behind a [`Door`](crate::Door).
//!
//! The machine's queues lie in memory that the machine shares with the server; no request passes through its monitor.
//! If the server dies, the machine waits for the next server, which finds the requests in flight recorded in the
//! machine's memory, and serves them again.
//!
//! Everything that the server reads there comes from the guest, which may be hostile: the server reads each value
//! once and checks the copy, and an invalid ring ends the connection, with a reason. Data is copied once in each
//! direction.

mod chain;
mod client;
mod device;
pub mod hostile;
mod inflight;
mod memory;
mod protocol;
mod request;
mod ring;
mod server;
mod watchdog;

pub use server::{Vhost, VhostEvent, Wanted};

use crate::frontend::FrontendError;
use crate::server::ServerError;
use rustix::io::Errno;
use thiserror::Error;

/// Why a device cannot be opened.
#[derive(Debug, Error)]
pub enum VhostError {
    /// The socket cannot be opened.
    #[error(transparent)]
    Listen(#[from] ServerError),
    /// The door to the server cannot be opened.
    #[error(transparent)]
    Door(#[from] FrontendError),
    /// The thread cannot be started.
    #[error("no thread can be started")]
    Thread {
        /// The system's error.
        source: Errno,
    },
}
