//! Where something is read, and the result of reading it in every way that there is.

use forebay_block::{Buf, IoError, Vectored};

/// Where something lies: the number of the device, offset and length in bytes.
pub(crate) type Place = (usize, u64, usize);

/// The result of reading in every way.
pub(crate) enum Reading {
    /// The right bytes.
    Good(Buf),
    /// It can be read, but is wrong in every way: what was read first.
    Bad(Buf),
    /// It cannot be read.
    Failed(IoError),
}

impl Reading {
    /// The bytes, where they are right.
    pub(crate) fn good(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) => Some(bytes),
            Self::Bad(_) | Self::Failed(_) => None,
        }
    }

    /// The bytes, right or wrong.
    pub(crate) fn any(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) | Self::Bad(bytes) => Some(bytes),
            Self::Failed(_) => None,
        }
    }
}

/// The bytes of a successful read. The buffer of a failed one holds whatever its memory held before, which may be the same block from another read.
pub(crate) fn good(result: Result<(), IoError>, bufs: Option<Vectored<Buf>>) -> Option<Buf> {
    result.ok().and_then(|()| single(bufs))
}

/// The single buffer of a read completion.
pub(crate) fn single(bufs: Option<Vectored<Buf>>) -> Option<Buf> {
    match bufs {
        Some(Vectored::One(buf)) => Some(buf),
        _ => None,
    }
}
