//! Where something is read, and what reading it in every way that there is has come to.

use forebay_block::{Buf, IoError};

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
