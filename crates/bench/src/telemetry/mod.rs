//! A record of every I/O: filled by workers without waiting, spilled to a file that survives a kill, read with bounded memory, converted to
//! Parquet. Layouts: `docs/telemetry.md`.
//!
//! Histograms do not depend on records: if the spill lags, records are dropped and counted, and the histograms stay complete.

mod error;
mod format;
mod outlet;
pub mod parquet;
mod reader;
mod record;
mod recorder;
mod spill;

pub use error::TelemetryError;
pub use format::{
    Footer, Header, MAX_JOB_NAME_BYTES, MAX_JOBS, MAX_METADATA_BYTES, MAX_SEGMENT_RECORDS, MAX_THREADS_PER_JOB, VERSION,
};
pub use reader::{Reader, Segment, Summary};
pub use record::{RECORD_BYTES, Record};
pub use recorder::{Recorder, RecorderReport};
pub use spill::{Spill, SpillOptions, SpillReport, SpillStatus, SpillTarget};

#[cfg(test)]
mod tests;
