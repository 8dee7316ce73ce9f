//! Why a bucket cannot be used: what, where, and what to do. None of it shows a key.

use std::path::PathBuf;

/// Why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// Nobody says who we are.
    #[error(
        "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with aws_access_key_id and aws_secret_access_key by \
         credentials=/path"
    )]
    NoCredentials,
    /// The file with the keys cannot be used.
    #[error("the keys cannot be read from {}: {what}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
    /// A setting cannot be used.
    #[error("{variable} {what}")]
    Environment {
        /// Its name.
        variable: &'static str,
        /// What is wrong, without its value.
        what: String,
    },
    /// Everybody on the way could read it.
    #[error(
        "the endpoint {endpoint} is on another machine and not encrypted: use https://, or add http=allow to the target if that is meant"
    )]
    PlainHttp {
        /// The endpoint.
        endpoint: String,
    },
    /// The settings make no client.
    #[error("no client can be made of these settings: {0}")]
    Client(String),
    /// There is no device.
    #[error("there is no device in it; `forebay create CONFIG` makes one, and the target says size=")]
    Absent,
    /// A new device has no size.
    #[error(
        "there is no device in it yet, and the target does not say how large it is to be: add size=, e.g. size=64GiB"
    )]
    NoSize,
    /// Something else lies there.
    #[error(
        "it holds objects that are no device's, such as {found:?}: choose another prefix, or delete them with a client of the store"
    )]
    Foreign {
        /// The name of one.
        found: String,
    },
    /// What describes the device cannot be understood.
    #[error("{object} cannot be understood: {what}")]
    Description {
        /// The object.
        object: String,
        /// Why.
        what: String,
    },
    /// The device was made with other properties.
    #[error("the device was made with {name}={made}, and the target says {asked}: correct the target")]
    Differs {
        /// The parameter.
        name: &'static str,
        /// As it was made.
        made: String,
        /// As it is asked for.
        asked: String,
    },
    /// Servers could not be kept apart.
    #[error(
        "the server does not know conditional writes (If-None-Match), without which two servers that open one device could not be kept \
         apart: use one that does, such as Amazon S3, MinIO, or versitygw from 1.1.0 on"
    )]
    NoConditions,
    /// Another server is opening it.
    #[error("another server is opening it at this moment (epoch {epoch}): stop one of them")]
    Busy {
        /// The epoch that both wanted.
        epoch: u32,
    },
    /// A list is not whole.
    #[error(
        "the store does not list {missing}, which is there: its list ended too early, and objects that it left out would be lost. None \
         was touched; try again, and look after the store where that stays so"
    )]
    Unlisted {
        /// The object.
        missing: String,
    },
    /// Objects of a later epoch than any known.
    #[error(
        "it holds {found:?}, which is newer than epoch {epoch}, the newest that is known: objects below epoch/ were deleted; restore them"
    )]
    Newer {
        /// The epoch.
        epoch: u32,
        /// The object.
        found: String,
    },
    /// Which objects count is not known.
    #[error(
        "it holds {found:?}, and the object below roll/ that says which objects count is missing: restore it (docs/bucket.md), or format \
         the device anew"
    )]
    NoRoll {
        /// An object that it would name, or come before.
        found: String,
    },
    /// The roll could not be read again.
    #[error(
        "{name} would have {len_bytes} bytes, and {most_bytes} can be read: there are too many objects whose numbers do not follow each \
         other. Nothing was changed but the epoch; read what is there (`forebay serve --salvage CONFIG`) and move it to a device with \
         larger objects"
    )]
    LongRoll {
        /// Its name.
        name: String,
        /// As it would be.
        len_bytes: usize,
        /// The most that is read.
        most_bytes: usize,
    },
    /// The store said no, or nothing.
    #[error("cannot {doing}: {text}")]
    Store {
        /// What was tried.
        doing: String,
        /// Why it failed.
        text: String,
    },
    /// The system gives no thread or descriptor.
    #[error("the system refuses what it takes: {0}")]
    System(#[from] std::io::Error),
}
