//! What is to be done on the inner device.

use forebay_block::{IoError, Request};
use forebay_proof::cache::Covered;
use forebay_proof::leak::Part;
use std::collections::BTreeMap;
use std::ops::Range;

/// Something to be made durable, or at least written back.
#[derive(Debug)]
pub(super) enum Job {
    /// A client's flush.
    Flush { tag: u64, covered: Covered },
    /// A client's FUA write.
    Fua { tag: u64, id: u64, sectors: Range<u64> },
    /// A discard or write-zeroes too long to be recorded.
    Through { request: Request, id: u64, sectors: Range<u64> },
    /// Part of a write leaks early.
    Leak(Part),
    /// The cache is full.
    Evict { covered: Covered },
}

/// The job in progress.
#[derive(Debug)]
pub(super) struct Active {
    /// The client's tag, where one waits.
    pub tag: Option<u64>,
    /// The operation number that completes with the job, where it is a write.
    pub id: Option<u64>,
    /// Inner tags not yet back, and what each settles: sectors and operation numbers.
    pub outstanding: BTreeMap<u64, Vec<(u64, u64)>>,
    pub settles_range: Option<(Range<u64>, u64)>,
    pub flush_after: bool,
    pub evicts: bool,
    pub result: Result<(), IoError>,
}
