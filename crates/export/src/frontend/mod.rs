//! Front ends beside NBD sockets: sources of block requests for one export. A front end runs either on the server's
//! thread, where its descriptors are watched and nothing is passed between threads, or on its own thread behind a
//! [`Door`]. In both cases the server checks each request against the export before it reaches the backend.

mod door;
mod judge;

pub use door::{Door, DoorSide, Event, Refused, open_door};
pub(crate) use judge::judge;

use crate::server::Peer;
use forebay_volume::{HintParts, Op, Outcome, RequestError};
use rustix::io::Errno;
use thiserror::Error;

/// A request of a front end to its export.
#[derive(Debug)]
pub struct FrontRequest {
    /// The front end's number for the request, which its completion carries. Must be unique among the requests in
    /// flight.
    pub token: u16,
    /// Byte offset on the export.
    pub offset_bytes: u64,
    /// Length in bytes; ignored for flush.
    pub len_bytes: u64,
    /// The operation.
    pub op: Op,
    /// Must be durable when complete.
    pub fua: bool,
    /// Hints of the host on the data; `None` where there are none.
    pub hints: Option<Box<HintParts>>,
}

/// The reason why a front end ended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FrontendError {
    /// The system refused a call.
    #[error("{operation} failed: {source}")]
    System {
        /// Name of the call.
        operation: &'static str,
        /// The error.
        source: Errno,
    },
    /// The client broke the front end's protocol.
    #[error("the client broke the protocol: {0}")]
    Protocol(String),
    /// The client, or the thread that serves it, has ended.
    #[error("its thread has ended")]
    Gone,
}

/// A source of requests on the server's thread. No method may block.
pub trait Frontend: std::fmt::Debug + Send {
    /// Appends descriptors that become readable when [`Frontend::receive`] has something to return, after
    /// [`Frontend::may_sleep`] was called. Called when the front end is attached, and about every 50 ms.
    fn wake_fds(&self, out: &mut Vec<i32>);

    /// Appends waiting requests, a limited number each time.
    ///
    /// # Errors
    /// The front end has ended. It is detached once all its requests in flight have completed.
    fn receive(&mut self, requests: &mut Vec<FrontRequest>) -> Result<(), FrontendError>;

    /// Takes the result of a request. The client may receive it with the next [`Frontend::send`].
    fn complete(&mut self, token: u16, result: Result<Outcome, RequestError>);

    /// Ends an iteration: passes the results to the client.
    ///
    /// # Errors
    /// As for [`Frontend::receive`].
    fn send(&mut self) -> Result<(), FrontendError>;

    /// Called before the server sleeps. Returns whether no request waits. If so, the descriptors signal requests from
    /// now on.
    fn may_sleep(&mut self) -> bool;

    /// Called after the server's sleep, or instead of it.
    fn awake(&mut self) {}

    /// The export has a new size, in bytes.
    fn resized(&mut self, size_bytes: u64) {
        let _ = size_bytes;
    }

    /// The server is stopping. Requests received from now on are not carried out; those in flight complete.
    fn begin_shutdown(&mut self) {}

    /// The client that uses the export through this front end; `None` where there is none.
    fn peer(&self) -> Option<Peer>;

    /// Count of clients so far, including the present one. It changes with the client, so that the answers of one
    /// never reach the next.
    fn clients(&self) -> u64;
}
