//! The statistics of a row.

use super::histogram::Histogram;

/// Counts and histograms of a row.
#[derive(Clone, Debug, Default)]
pub struct RowStatistics {
    /// Number of write requests.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes discarded.
    pub discarded_bytes: u64,
    /// Latency of writes in nanoseconds.
    pub write_latency_ns: Histogram,
    /// Latency of reads in nanoseconds.
    pub read_latency_ns: Histogram,
    /// Time until blocks were overwritten or discarded, in nanoseconds.
    pub life_ns: Histogram,
    /// Bytes that the whole trace wrote in that time.
    pub life_bytes: Histogram,
}
