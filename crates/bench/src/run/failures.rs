//! Failed I/Os: all are counted, the first ones are kept with place and cause.

use forebay_block::{IoError, OpKind};

/// Most failures that are kept.
pub(super) const KEPT_MAX: usize = 16;

/// A failure that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of I/O.
    pub kind: OpKind,
    /// Byte offset on the target.
    pub offset_bytes: u64,
    /// Its length in bytes.
    pub len_bytes: u32,
    /// When the I/O ended, in nanoseconds since the measurement began, as in intervals; negative in the warm-up.
    pub at_ns: i64,
    /// The error in words.
    pub what: String,
}

/// Failures of a worker or of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Number of all errors reported by the target and of all reads with wrong content.
    pub count: u64,
    /// Number of reads with wrong content; included in `count`.
    pub mismatches: u64,
    /// The first failures.
    pub first: Vec<Failure>,
}

impl Failures {
    /// Counts an error of the target.
    pub fn add_error(&mut self, kind: OpKind, offset_bytes: u64, len_bytes: u32, at_ns: i64, error: &IoError) {
        self.add(Failure { kind, offset_bytes, len_bytes, at_ns, what: error.to_string() });
    }

    /// Counts content that was wrong.
    pub fn add_mismatch(&mut self, offset_bytes: u64, len_bytes: u32, at_ns: i64, what: String) {
        self.mismatches += 1;
        self.add(Failure { kind: OpKind::Read, offset_bytes, len_bytes, at_ns, what });
    }

    fn add(&mut self, failure: Failure) {
        self.count += 1;
        if self.first.len() < KEPT_MAX {
            self.first.push(failure);
        }
    }

    /// Adds the failures of another worker.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.mismatches += other.mismatches;
        self.first.extend(other.first);
        self.first.sort_by_key(|failure| failure.at_ns);
        self.first.truncate(KEPT_MAX);
    }
}
