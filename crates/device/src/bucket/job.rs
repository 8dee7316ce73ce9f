//! What the log of objects asks of the store, and what it hears.

use super::name::{ObjectName, Sequence};
use bytes::Bytes;
use forebay_block::IoErrorKind;
use std::ops::Range;

/// A request to the store. Each is answered once.
#[derive(Debug)]
pub(crate) enum Job {
    /// Make an object. Repeated, it makes the same.
    Put {
        /// Its name.
        name: ObjectName,
        /// What it holds, in order.
        payload: Vec<Bytes>,
    },
    /// Read a part of an object.
    Get {
        /// Returned with the answer.
        number: u64,
        /// The object.
        name: ObjectName,
        /// Within the object.
        range: Range<u64>,
    },
    /// Look whether the epoch is still ours.
    Look,
    /// Delete an object.
    Delete {
        /// Its name.
        name: ObjectName,
    },
}

impl Job {
    /// The answer where it ends without one.
    pub(crate) fn unanswered(&self) -> Answer {
        match self {
            Self::Put { name, .. } => {
                Answer::Put { sequence: name.sequence, result: Err(Failure::UNANSWERED), is_repeated: true }
            }
            Self::Get { number, .. } => Answer::Get { number: *number, result: Err(Failure::UNANSWERED) },
            Self::Look => Answer::Look { result: Err(Failure::UNANSWERED) },
            Self::Delete { name } => Answer::Delete { sequence: name.sequence, is_gone: false },
        }
    }
}

/// Why something could not be done, for whoever asked the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Kind.
    pub(crate) kind: IoErrorKind,
    /// The number of the operating system's that says it best.
    pub(crate) os_error: i32,
}

impl Failure {
    /// Another server has opened the device since.
    pub(crate) const FENCED: Self = Self { kind: IoErrorKind::Gone, os_error: libc::ESTALE };
    /// What should have answered has come to an end without.
    pub(crate) const UNANSWERED: Self = Self { kind: IoErrorKind::Medium, os_error: libc::EIO };
    /// What came is not what was stored.
    pub(crate) const CORRUPT: Self = Self { kind: IoErrorKind::Medium, os_error: libc::EBADMSG };
}

/// What has become of a job.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Of [`Job::Put`].
    Put {
        /// The object.
        sequence: Sequence,
        /// Failed: it may be there all the same, now or later.
        result: Result<(), Failure>,
        /// It was asked for more than once, and an earlier request may still arrive.
        is_repeated: bool,
    },
    /// Of [`Job::Get`].
    Get {
        /// The number given.
        number: u64,
        /// The bytes.
        result: Result<Bytes, Failure>,
    },
    /// Of [`Job::Look`]: whether it is still ours.
    Look {
        /// [`Failure::FENCED`] where it is not.
        result: Result<(), Failure>,
    },
    /// Of [`Job::Delete`].
    Delete {
        /// The object.
        sequence: Sequence,
        /// Whether it is gone.
        is_gone: bool,
    },
}
