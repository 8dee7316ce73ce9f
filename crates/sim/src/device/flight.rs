//! A request in flight, and its completion.

use crate::fault::FaultKind;
use crate::order::Region;
use forebay_block::{Completion, IoError, IoErrorKind, Op, Request};

/// A request in flight.
pub(super) struct Flight {
    pub request: Request,
    /// Number of its submission.
    pub order: u64,
    pub due_ns: u64,
    /// Number of the flush, where it is one.
    pub flush: u64,
    pub fate: Option<FaultKind>,
    /// Submitted after the power had failed.
    pub is_late: bool,
    pub region: Region,
    /// Carried out at submission: only its completion is outstanding.
    pub is_done: bool,
}

fn failed(request: &Request, kind: IoErrorKind) -> IoError {
    IoError { kind, operation: request.op.name(), offset_bytes: request.offset_bytes, os_error: 5 }
}

/// The completion of a request, carried out or failed.
pub(super) fn completion(request: Request, failure: Option<IoErrorKind>) -> Completion {
    let result = failure.map_or(Ok(()), |kind| Err(failed(&request, kind)));
    let Request { tag, op, .. } = request;
    let bufs = if let Op::Read { bufs, .. } = op { Some(bufs) } else { None };
    Completion { tag, result, bufs }
}
