//! A block device of this machine's kernel, `/dev/ublkbN`, on the server's own thread (Documentation/block/ublk.rst).
//!
//! The device outlives its server: while none is there requests wait, and the next server of the same export, known by a mark
//! that the kernel keeps with the device, gets what was in flight once more. What the kernel copies into the slots is copied
//! again into a buffer of ours, before which no checksum is made.

mod abi;
mod control;
mod device;
mod left;

pub use device::{Ublk, UblkState, Wanted};
pub use left::{Left, is_waiting, release, release_left, waiting};

use rustix::io::Errno;
use thiserror::Error;

/// Why there is no device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UblkError {
    /// No driver, or no right to use it.
    #[error("cannot open /dev/ublk-control")]
    NoDriver {
        /// Why.
        source: Errno,
    },
    /// The system refused something.
    #[error("{operation} failed")]
    System {
        /// What.
        operation: &'static str,
        /// Why.
        source: Errno,
    },
}

impl UblkError {
    fn of(operation: &'static str, error: &std::io::Error) -> Self {
        Self::System { operation, source: Errno::from_io_error(error).unwrap_or(Errno::IO) }
    }
}
