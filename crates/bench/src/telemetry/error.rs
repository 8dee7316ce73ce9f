//! What can go wrong with telemetry, said so that a user knows what to do next.

use std::io;
use std::path::PathBuf;

/// Failure of telemetry. None of them is a failure of the run that it describes.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A file that is to be written could not be created.
    #[error("cannot create {}: {source}; an existing file is never overwritten, choose another name", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Records could not be written; those from here on are lost and counted.
    #[error(
        "telemetry to {name} ends at byte {at_bytes}: {source}; the segments before are whole, records after are counted only: free space or choose another place"
    )]
    Write {
        /// Name of what is written.
        name: String,
        /// Bytes written before.
        at_bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// A telemetry file could not be read on.
    #[error("cannot read telemetry at byte {at_bytes}: {source}")]
    Read {
        /// Position in the file.
        at_bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// The thread that writes could not be started.
    #[error("cannot start the telemetry thread: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// The file does not begin as a telemetry file does.
    #[error("not a telemetry file: it does not begin with FOREBAYT; give the .fbt file that `forebay bench` wrote")]
    NotTelemetry,
    /// The file is of another version of the format.
    #[error(
        "telemetry format version {found} is not known here (known: {known}); read it with the Forebay that wrote it"
    )]
    Version {
        /// Version in the file.
        found: u32,
        /// Version that this reader knows.
        known: u32,
    },
    /// The file's header is damaged or cut off, so that nothing after it can be trusted.
    #[error("the header of the telemetry file is damaged ({what}): nothing in it can be read")]
    HeaderDamaged {
        /// Which part.
        what: &'static str,
    },
    /// A setting or the metadata is outside its bounds.
    #[error("telemetry: {what} is {value}, allowed are {min} to {max}")]
    OutOfBounds {
        /// Which.
        what: &'static str,
        /// As given.
        value: u64,
        /// Least value allowed.
        min: u64,
        /// Greatest value allowed.
        max: u64,
    },
    /// The metadata is not JSON.
    #[error("telemetry: the metadata is not JSON: {source}")]
    Metadata {
        /// Where it stops to be JSON.
        source: serde_json::Error,
    },
    /// A record has a value that a signed 64-bit column cannot hold: the file was not written by Forebay.
    #[error(
        "segment {sequence}, record {index}: {what} is {value}, more than 2^63-1; the file was not written by Forebay"
    )]
    Unrepresentable {
        /// Sequence number of the segment.
        sequence: u64,
        /// Index of the record in it.
        index: usize,
        /// Which value.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The Parquet file could not be written.
    #[error("cannot write Parquet: {source}")]
    Parquet {
        /// Why.
        source: ::parquet::errors::ParquetError,
    },
}

/// Checks a setting against its bounds.
pub(super) fn within(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), TelemetryError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(TelemetryError::OutOfBounds { what, value, min, max }) }
}
