//! A block device of this machine's kernel, `/dev/ublkbN`, on the server's own thread (Documentation/block/ublk.rst).
//!
//! The device outlives its server. While there is no server, requests wait. The next server of the same export, which
//! it recognises by a mark that the kernel keeps with the device, gets the requests in flight once more. Data that
//! the kernel copies into the slots is copied again into a private buffer before its checksum is computed.

mod abi;
mod control;
mod device;
mod left;

pub use device::{Ublk, UblkState, Wanted};
pub use left::{Left, is_waiting, release, release_left, waiting};

use rustix::io::Errno;
use thiserror::Error;

/// The reason why there is no device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UblkError {
    /// There is no driver, or this user may not use it.
    #[error("cannot open /dev/ublk-control")]
    NoDriver {
        /// The error.
        source: Errno,
    },
    /// The system refused a call.
    #[error("{operation} failed")]
    System {
        /// Name of the call.
        operation: &'static str,
        /// The error.
        source: Errno,
    },
}

impl UblkError {
    fn of(operation: &'static str, error: &std::io::Error) -> Self {
        Self::System { operation, source: Errno::from_io_error(error).unwrap_or(Errno::IO) }
    }
}
