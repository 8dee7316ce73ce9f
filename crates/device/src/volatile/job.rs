//! Work to be done on the inner device.

use forebay_block::{IoError, Request};
use forebay_proof::cache::Covered;
use forebay_proof::leak::Part;
use std::collections::BTreeMap;
use std::ops::Range;

/// Data to be made durable, or at least to be written back.
#[derive(Debug)]
pub(super) enum Job {
    /// A client's flush.
    Flush { tag: u64, covered: Covered },
    /// A client's FUA write.
    Fua { tag: u64, id: u64, sectors: Range<u64> },
    /// A discard or write-zeroes that is too long to be recorded by sector.
    Through { request: Request, id: u64, sectors: Range<u64> },
    /// Part of a write reaches the inner device early.
    Leak(Part),
    /// The cache is full, so completed writes are written back.
    Evict { covered: Covered },
}

/// The job in progress.
#[derive(Debug)]
pub(super) struct Active {
    /// Tag of the client's request; `None` where no client waits.
    pub tag: Option<u64>,
    /// Number of the operation that completes with the job; `None` where it is no write.
    pub id: Option<u64>,
    /// Tags of inner requests in flight, each with the sectors and operation numbers that it makes durable or writes
    /// back.
    pub outstanding: BTreeMap<u64, Vec<(u64, u64)>>,
    pub settles_range: Option<(Range<u64>, u64)>,
    pub flush_after: bool,
    pub evicts: bool,
    pub result: Result<(), IoError>,
}
