//! Requests of the log to the store, and their answers.

use super::name::{ObjectName, Sequence};
use bytes::Bytes;
use forebay_block::IoErrorKind;
use std::ops::Range;

/// A request to the store. Each is answered exactly once.
#[derive(Debug)]
pub(crate) enum Job {
    /// Makes an object. A repetition makes the same object.
    Put {
        /// Name of the object.
        name: ObjectName,
        /// Content, in order.
        payload: Vec<Bytes>,
    },
    /// Reads part of an object.
    Get {
        /// Number that the answer carries.
        number: u64,
        /// Name of the object.
        name: ObjectName,
        /// Range within the object.
        range: Range<u64>,
    },
    /// Checks that the epoch is still this server's.
    Look,
    /// Deletes an object.
    Delete {
        /// Name of the object.
        name: ObjectName,
    },
}

impl Job {
    /// The answer to a job that ended without one.
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

/// Why a job failed, in the terms of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Kind of the error.
    pub(crate) kind: IoErrorKind,
    /// The errno that describes it best.
    pub(crate) os_error: i32,
}

impl Failure {
    /// Another server has opened the device since.
    pub(crate) const FENCED: Self = Self { kind: IoErrorKind::Gone, os_error: libc::ESTALE };
    /// The thread that should have answered has ended.
    pub(crate) const UNANSWERED: Self = Self { kind: IoErrorKind::Medium, os_error: libc::EIO };
    /// The bytes read are not those that were stored.
    pub(crate) const CORRUPT: Self = Self { kind: IoErrorKind::Medium, os_error: libc::EBADMSG };
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Answer to [`Job::Put`].
    Put {
        /// The object.
        sequence: Sequence,
        /// After a failure the object may exist all the same, now or later.
        result: Result<(), Failure>,
        /// The request was sent more than once, so an earlier copy may still arrive.
        is_repeated: bool,
    },
    /// Answer to [`Job::Get`].
    Get {
        /// Number of the job.
        number: u64,
        /// The bytes read.
        result: Result<Bytes, Failure>,
    },
    /// Answer to [`Job::Look`].
    Look {
        /// [`Failure::FENCED`] where the epoch belongs to another server.
        result: Result<(), Failure>,
    },
    /// Answer to [`Job::Delete`].
    Delete {
        /// The object.
        sequence: Sequence,
        /// Whether the object is gone.
        is_gone: bool,
    },
}
