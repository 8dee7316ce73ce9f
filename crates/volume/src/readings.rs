//! Where something is read, and what reading it in every way that there is has come to.

use forebay_block::{Buf, IoError, Vectored};

/// Where something lies: the number of the device, offset and length in bytes.
pub(crate) type Place = (usize, u64, usize);

/// What reading in every way has come to.
pub(crate) enum Reading {
    /// What it should be.
    Good(Buf),
    /// It can be read, and is not what it should be in any way: what was read first.
    Bad(Buf),
    /// It cannot be read.
    Failed(IoError),
}

impl Reading {
    /// What it should be.
    pub(crate) fn good(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) => Some(bytes),
            Self::Bad(_) | Self::Failed(_) => None,
        }
    }

    /// What can be read, good or not.
    pub(crate) fn any(self) -> Option<Buf> {
        match self {
            Self::Good(bytes) | Self::Bad(bytes) => Some(bytes),
            Self::Failed(_) => None,
        }
    }
}

/// The bytes of a read that was good. Those of one that failed are whatever its memory held before, which may be the same block as another read gave it.
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
