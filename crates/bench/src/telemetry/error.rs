//! Errors of telemetry, with what the user can do.

use std::io;
use std::path::PathBuf;

/// A failure of telemetry. None of them fails the run that it describes.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The output file could not be created.
    #[error("cannot create {}: {source}; an existing file is never overwritten, choose another name", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file could not be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Records could not be written; all later ones are lost and only counted.
    #[error(
        "telemetry to {name} ends at byte {at_bytes}: {source}; the segments before are whole, records after are counted only: free space or choose another place"
    )]
    Write {
        /// Name of the output.
        name: String,
        /// Bytes written before the error.
        at_bytes: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// Reading a telemetry file failed.
    #[error("cannot read telemetry at byte {at_bytes}: {source}")]
    Read {
        /// Position in the file.
        at_bytes: u64,
        /// The operating system's error.
        source: io::Error,
    },
    /// The writing thread could not be started.
    #[error("cannot start the telemetry thread: {source}")]
    Thread {
        /// The operating system's error.
        source: io::Error,
    },
    /// The file does not begin as a telemetry file does.
    #[error("not a telemetry file: it does not begin with FOREBAYT; give the .fbt file that `forebay bench` wrote")]
    NotTelemetry,
    /// The file has another version of the format.
    #[error(
        "telemetry format version {found} is not known here (known: {known}); read it with the Forebay that wrote it"
    )]
    Version {
        /// Version in the file.
        found: u32,
        /// Version that this reader knows.
        known: u32,
    },
    /// The header of the file is damaged or cut off, so nothing after it can be trusted.
    #[error("the header of the telemetry file is damaged ({what}): nothing in it can be read")]
    HeaderDamaged {
        /// The damaged part.
        what: &'static str,
    },
    /// A setting, or the length of the metadata, is out of its bounds.
    #[error("telemetry: {what} is {value}, allowed are {min} to {max}")]
    OutOfBounds {
        /// The setting.
        what: &'static str,
        /// The given value.
        value: u64,
        /// Least value allowed.
        min: u64,
        /// Greatest value allowed.
        max: u64,
    },
    /// The metadata is not JSON.
    #[error("telemetry: the metadata is not JSON: {source}")]
    Metadata {
        /// The position and reason.
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
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: u64,
    },
    /// The Parquet file could not be written.
    #[error("cannot write Parquet: {source}")]
    Parquet {
        /// The cause.
        source: ::parquet::errors::ParquetError,
    },
}

/// Checks that a setting is within its bounds.
pub(super) fn within(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), TelemetryError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(TelemetryError::OutOfBounds { what, value, min, max }) }
}
