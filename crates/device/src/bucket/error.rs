//! Errors of using a bucket. Each says what failed, where, and what to do. None of them shows a key.

use std::path::PathBuf;

/// The reason why a bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There are no keys.
    #[error(
        "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file with aws_access_key_id and aws_secret_access_key by \
         credentials=/path"
    )]
    NoCredentials,
    /// The credentials file cannot be used.
    #[error("the keys cannot be read from {}: {what}", path.display())]
    Credentials {
        /// Path of the credentials file.
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// A setting cannot be used.
    #[error("{variable} {what}")]
    Environment {
        /// Name of the variable or parameter.
        variable: &'static str,
        /// What is wrong. The value is not shown.
        what: String,
    },
    /// The endpoint is on another machine and not encrypted, so anybody on the network path could read the data.
    #[error(
        "the endpoint {endpoint} is on another machine and not encrypted: use https://, or add http=allow to the target if that is meant"
    )]
    PlainHttp {
        /// The configured endpoint.
        endpoint: String,
    },
    /// The client refuses the settings.
    #[error("no client can be made of these settings: {0}")]
    Client(String),
    /// The bucket holds no device.
    #[error("there is no device in it; `forebay create CONFIG` makes one, and the target says size=")]
    Absent,
    /// The target gives no size for a new device.
    #[error(
        "there is no device in it yet, and the target does not say how large it is to be: add size=, e.g. size=64GiB"
    )]
    NoSize,
    /// The bucket holds objects of something else.
    #[error(
        "it holds objects that are no device's, such as {found:?}: choose another prefix, or delete them with a client of the store"
    )]
    Foreign {
        /// Name of one such object.
        found: String,
    },
    /// An object that describes the device cannot be parsed.
    #[error("{object} cannot be understood: {what}")]
    Description {
        /// Name of the object.
        object: String,
        /// What is wrong with the object.
        what: String,
    },
    /// The device was made with other properties than the target asks for.
    #[error("the device was made with {name}={made}, and the target says {asked}: correct the target")]
    Differs {
        /// Name of the parameter.
        name: &'static str,
        /// Value with which the device was made.
        made: String,
        /// Value in the target.
        asked: String,
    },
    /// The store ignores conditional writes, so that two servers could write at once.
    #[error(
        "the server does not know conditional writes (If-None-Match), without which two servers that open one device could not be kept \
         apart: use one that does, such as Amazon S3, MinIO, or versitygw from 1.1.0 on"
    )]
    NoConditions,
    /// Another server is opening the device.
    #[error("another server is opening it at this moment (epoch {epoch}): stop one of them")]
    Busy {
        /// The epoch of the other server.
        epoch: u32,
    },
    /// The store's list is incomplete.
    #[error(
        "the store does not list {missing}, which is there: its list ended too early, and objects that it left out would be lost. None \
         was touched; try again, and look after the store where that stays so"
    )]
    Unlisted {
        /// Name of an object that exists and is not listed.
        missing: String,
    },
    /// There are objects of a later epoch than the newest one known.
    #[error(
        "it holds {found:?}, which is newer than epoch {epoch}, the newest that is known: objects below epoch/ were deleted; restore them"
    )]
    Newer {
        /// The newest epoch known.
        epoch: u32,
        /// Name of one such object.
        found: String,
    },
    /// The roll is missing, so it is not known which objects count.
    #[error(
        "it holds {found:?}, and the object below roll/ that says which objects count is missing: restore it (docs/bucket.md), or format \
         the device anew"
    )]
    NoRoll {
        /// Name of an object that the roll would have to know.
        found: String,
    },
    /// The new roll would be too long to be read again.
    #[error(
        "{name} would have {len_bytes} bytes, and {most_bytes} can be read: there are too many objects whose numbers do not follow each \
         other. Nothing was changed but the epoch; read what is there (`forebay serve --salvage CONFIG`) and move it to a device with \
         larger objects"
    )]
    LongRoll {
        /// Name of the roll's object.
        name: String,
        /// Length that it would have.
        len_bytes: usize,
        /// Most bytes that are read.
        most_bytes: usize,
    },
    /// The store refused a request or did not answer.
    #[error("cannot {doing}: {text}")]
    Store {
        /// The request.
        doing: String,
        /// The reason for the failure.
        text: String,
    },
    /// The system gives no thread or descriptor.
    #[error("the system refuses what it takes: {0}")]
    System(#[from] std::io::Error),
}
