//! Errors of traces.

use std::path::PathBuf;
use thiserror::Error;

/// Why a trace cannot be read or written.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened or created.
    #[error("{path}: cannot be opened")]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Reading failed.
    #[error("reading the trace failed at byte {offset_bytes} of its content")]
    Read {
        /// Byte in the (unpacked) trace.
        offset_bytes: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Writing failed.
    #[error("writing failed")]
    Write {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{path}: cannot be written")]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file has none of the known formats.
    #[error("{path}: no known trace format ({why}); name one with --format")]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// The file does not have the expected format.
    #[error("not a {format} trace: {what} at byte {offset_bytes}")]
    Malformed {
        /// Name of the format.
        format: &'static str,
        /// What is wrong.
        what: String,
        /// Byte at which it is wrong.
        offset_bytes: u64,
    },
    /// The file has the right format, but a part of it is damaged.
    #[error(
        "this {format} trace is damaged: {what}, in what begins at byte {offset_bytes}; get it anew where it came from, or convert its source again"
    )]
    Damaged {
        /// Name of the format.
        format: &'static str,
        /// What is wrong.
        what: String,
        /// Byte at which the damaged part begins.
        offset_bytes: u64,
    },
    /// The file has the right format, but uses a feature that is not supported here.
    #[error("this {format} trace cannot be read: {what}, in what begins at byte {offset_bytes}; {advice}")]
    Unsupported {
        /// Name of the format.
        format: &'static str,
        /// The feature.
        what: String,
        /// Byte at which the part with it begins.
        offset_bytes: u64,
        /// What to do.
        advice: &'static str,
    },
}
