//! What can go wrong with a trace.

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
        /// Where, in the (unpacked) bytes of the trace.
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
    /// None of the formats fits.
    #[error("{path}: no known trace format ({why}); name one with --format")]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What was seen.
        why: String,
    },
    /// The file is not what it should be.
    #[error("not a {format} trace: {what} at byte {offset_bytes}")]
    Malformed {
        /// Name of the format.
        format: &'static str,
        /// What is wrong.
        what: String,
        /// Where.
        offset_bytes: u64,
    },
    /// The file is what it should be, and a part of it is not what was written.
    #[error(
        "this {format} trace is damaged: {what}, in what begins at byte {offset_bytes}; get it anew where it came from, or convert its source again"
    )]
    Damaged {
        /// Name of the format.
        format: &'static str,
        /// What is wrong.
        what: String,
        /// Where the damaged part begins.
        offset_bytes: u64,
    },
    /// The file is what it should be, and written in a way that is not read here.
    #[error("this {format} trace cannot be read: {what}, in what begins at byte {offset_bytes}; {advice}")]
    Unsupported {
        /// Name of the format.
        format: &'static str,
        /// What it has.
        what: String,
        /// Where that begins.
        offset_bytes: u64,
        /// What to do.
        advice: &'static str,
    },
}
