//! An analysis from beginning to end.

use super::report::{Ended, ReadHits, Report};
use super::requests::Requests;
use super::stage::Stage;
use super::writes::Writes;
use super::{Options, REQUESTS_FETCHED};
use crate::{Knows, Names, Request};

/// Kept writes may take one in this many parts of the memory for blocks, in addition to it.
const KEPT_SHARE: u64 = 4;

/// An analysis in progress, in two stages: figures of requests by themselves, and followed blocks.
pub struct Analysis {
    requests: Requests,
    stage: Stage,
}

impl Analysis {
    /// Begins an analysis.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self { requests: Requests::new(options, None), stage: Stage::new(options) }
    }

    /// Begins an analysis that keeps writes and discards for [`Sizing::repeat`](super::Sizing::repeat), as long as they take at most a
    /// quarter of the memory for blocks, in addition to it.
    #[must_use]
    pub fn keeping_writes(options: &Options) -> Self {
        let kept = Writes::within(options.memory_bytes / KEPT_SHARE);
        Self { requests: Requests::new(options, Some(kept)), stage: Stage::new(options) }
    }

    /// The kept writes and discards; `None` if they were too many.
    pub fn take_writes(&mut self) -> Option<Writes> {
        self.requests.take_writes()
    }

    /// Handles the next requests of the trace.
    pub fn add(&mut self, requests: &[Request], names: &Names, knows: Knows) {
        // Also set if there are no requests yet.
        self.requests.knows = knows;
        for requests in requests.chunks(REQUESTS_FETCHED) {
            self.stage.add(|on| self.requests.add(requests, names, on));
        }
    }

    /// Ends the analysis. `names` are the trace's names.
    #[must_use]
    pub fn finish(self, names: &Names) -> Report {
        self.finish_with_read_hits(names).0
    }

    /// Like [`Self::finish`], with the hit ratio of reads for caches of any size, which takes much memory if the trace has many blocks.
    #[must_use]
    pub fn finish_with_read_hits(self, names: &Names) -> (Report, ReadHits) {
        let mut ended = Ended { requests: self.requests, followed: self.stage.end() };
        (ended.report(names), ReadHits::of(ended.followed.blocks.reads))
    }
}
