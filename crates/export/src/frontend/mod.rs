//! Front ends beside the sockets of NBD: whatever makes block requests of one export and wants them answered. One may run on
//! the server's own thread, where its descriptors are watched and nothing is passed on; or on a thread of its own, behind a
//! [`Door`]. Either way the server judges each request by the export before the backend sees it.

mod door;
mod judge;

pub use door::{Door, DoorSide, Event, Refused, open_door};
pub(crate) use judge::judge;

use crate::server::Peer;
use forebay_volume::{HintParts, Op, Outcome, RequestError};
use rustix::io::Errno;
use thiserror::Error;

/// A request of a front end, for the export that it is attached to.
#[derive(Debug)]
pub struct FrontRequest {
    /// The front end's own number for it, returned with its end; not in use by another request in flight.
    pub token: u16,
    /// Byte offset on the export.
    pub offset_bytes: u64,
    /// Length in bytes; ignored for flush.
    pub len_bytes: u64,
    /// The operation.
    pub op: Op,
    /// Durable when complete.
    pub fua: bool,
    /// What the host says of the data, where it does.
    pub hints: Option<Box<HintParts>>,
}

/// Why a front end came to its end.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrontendError {
    /// The system refused something.
    #[error("{operation} failed: {source}")]
    System {
        /// What.
        operation: &'static str,
        /// Why.
        source: Errno,
    },
    /// The client broke its protocol.
    #[error("the client broke the protocol: {0}")]
    Protocol(String),
    /// The client, or the thread that serves it, has ended.
    #[error("its thread has ended")]
    Gone,
}

/// Makes requests and takes their ends, on the server's thread; no method may block.
pub trait Frontend: std::fmt::Debug + Send {
    /// Appends descriptors that become readable when [`Frontend::receive`] has something to take, once
    /// [`Frontend::may_sleep`] was asked. Asked when it is attached and about every 50 ms.
    fn wake_fds(&self, out: &mut Vec<i32>);

    /// Appends requests that wait, a bounded number each time.
    ///
    /// # Errors
    /// Where it has come to its end: it is detached once what it has in flight has ended.
    fn receive(&mut self, requests: &mut Vec<FrontRequest>) -> Result<(), FrontendError>;

    /// A request has ended. Its client may learn that with the next [`Frontend::send`].
    fn complete(&mut self, token: u16, result: Result<Outcome, RequestError>);

    /// The turn is over: what completed goes to the client.
    ///
    /// # Errors
    /// As of [`Frontend::receive`].
    fn send(&mut self) -> Result<(), FrontendError>;

    /// The server wants to sleep. Whether nothing waits to be received; if so, what comes from now on is shown by the
    /// descriptors.
    fn may_sleep(&mut self) -> bool;

    /// The server's sleep has ended, or there was none.
    fn awake(&mut self) {}

    /// The export has another size now.
    fn resized(&mut self, size_bytes: u64) {
        let _ = size_bytes;
    }

    /// The server stops: what is received from now on is not carried out. What is in flight still ends.
    fn begin_shutdown(&mut self) {}

    /// Who uses the export through it now.
    fn peer(&self) -> Option<Peer>;

    /// How many clients have used it one after the other, with the one that does now. The answers of one are none for the next.
    fn clients(&self) -> u64;
}
