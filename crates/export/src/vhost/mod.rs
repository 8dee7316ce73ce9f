//! A block device of virtual machines: vhost-user-blk, on a thread of its own behind a [`Door`](crate::Door).
//!
//! The machine's queues lie in memory that it shares with the server; no request passes through its monitor. Where the server
//! dies, the machine waits for the next one, which finds in memory of the machine what was in flight, and does it once more.
//!
//! Whatever is read there comes from the guest, which may be hostile: all of it is read once and checked after, and a ring that
//! makes no sense ends the connection, with a reason. Data is copied once each way.

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

/// Why there is no device.
#[derive(Debug, Error)]
pub enum VhostError {
    /// The socket.
    #[error(transparent)]
    Listen(#[from] ServerError),
    /// The way to the server.
    #[error(transparent)]
    Door(#[from] FrontendError),
    /// The thread.
    #[error("no thread can be started")]
    Thread {
        /// Why.
        source: Errno,
    },
}
