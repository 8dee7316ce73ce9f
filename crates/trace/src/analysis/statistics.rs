//! The statistics of a row.

use super::histogram::Histogram;

/// What is counted of a row.
#[derive(Clone, Debug, Default)]
pub struct RowStatistics {
    /// Requests that wrote to it.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Requests that read it.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Latency of writes in nanoseconds.
    pub write_latency_ns: Histogram,
    /// Latency of reads in nanoseconds.
    pub read_latency_ns: Histogram,
    /// How long blocks lived until they were overwritten or discarded, in nanoseconds.
    pub life_ns: Histogram,
    /// How much was written meanwhile to the whole trace, in bytes.
    pub life_bytes: Histogram,
}
