//! Errors that end the connection, and errors that are answered.

use forebay_volume::RequestError;
use thiserror::Error;

/// A violation of the protocol that ends the connection ("Termination of the session", "hard disconnect").
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// The client set flags that this server does not know.
    #[error("unknown client flags {0:#x}")]
    ClientFlags(u32),
    /// An option does not start with its magic.
    #[error("an option starts with {0:#018x} instead of its magic")]
    OptionMagic(u64),
    /// An option announces an absurd length.
    #[error("option {option} announces {len_bytes} bytes")]
    OptionLength {
        /// Type of the option.
        option: u32,
        /// The announced length, in bytes.
        len_bytes: u32,
    },
    /// The client sent more options than allowed.
    #[error("more than {0} options without choosing an export")]
    TooManyOptions(u32),
    /// `NBD_OPT_EXPORT_NAME` with an unknown name. This option has no error reply.
    #[error("no export named {0:?}")]
    NoSuchExport(String),
    /// `NBD_OPT_EXPORT_NAME` before TLS, which is required. This option has no error reply.
    #[error("it asked for an export without TLS, which is required")]
    NeedsTls,
    /// `NBD_OPT_EXPORT_NAME` after extended headers were agreed.
    #[error("NBD_OPT_EXPORT_NAME after extended headers were agreed")]
    ExportNameAfterExtended,
    /// A request does not start with its magic.
    #[error("a request starts with {0:#010x} instead of its magic")]
    RequestMagic(u32),
    /// A request announces a longer payload than allowed.
    #[error("a request announces a payload of {len_bytes} bytes, more than {max_bytes}")]
    PayloadLength {
        /// The announced length, in bytes.
        len_bytes: u64,
        /// The longest allowed, in bytes.
        max_bytes: u32,
    },
    /// The export was removed.
    #[error("the export was removed")]
    ExportRemoved,
}

/// Error values of replies ("Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Operation not permitted.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Invalid argument.
    Invalid = 22,
    /// No space left on device.
    NoSpace = 28,
    /// Value too large.
    Overflow = 75,
    /// The server is stopping.
    Shutdown = 108,
}

impl Errno {
    /// The error value of a failed request. `writes`: the request writes, so a range beyond the end is `NBD_ENOSPC`
    /// instead of `NBD_EINVAL` ("Error values").
    #[must_use]
    pub fn of(error: &RequestError, writes: bool) -> Self {
        match error {
            RequestError::OutOfRange if writes => Self::NoSpace,
            RequestError::OutOfRange => Self::Invalid,
            RequestError::Device { .. } if error.is_for_want_of_space() => Self::NoSpace,
            RequestError::NoDisk
            | RequestError::NoBase
            | RequestError::Device { .. }
            | RequestError::Damaged { .. }
            | RequestError::FlushFailed
            // A read-only export says so and receives no writes. This is a pool that refuses writes because of errors
            // of its devices.
            | RequestError::ReadOnly(_) => Self::Io,
            RequestError::NoSpace => Self::NoSpace,
            RequestError::ShuttingDown => Self::Shutdown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::{IoError, IoErrorKind};

    /// QEMU pauses a machine whose disk has no space until somebody makes room, but passes an I/O error on to the
    /// guest.
    #[test]
    fn regression_no_space_below_a_device_is_no_space_to_hosts() {
        let of = |kind| {
            let source = IoError { kind, operation: "write", offset_bytes: 0, os_error: 0 };
            Errno::of(&RequestError::Device { device: "a.img".to_owned(), source }, true)
        };
        assert_eq!([IoErrorKind::NoSpace, IoErrorKind::Medium].map(of), [Errno::NoSpace, Errno::Io]);
    }
}
