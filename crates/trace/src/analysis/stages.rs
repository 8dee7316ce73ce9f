//! An analysis from its begin to its end.

use super::report::{Ended, ReadHits, Report};
use super::requests::Requests;
use super::stage::Stage;
use super::writes::Writes;
use super::{Options, REQUESTS_FETCHED};
use crate::{Knows, Names, Request};

/// Of the memory for blocks, what writes may take beside it that are kept for a sizing: a quarter.
const KEPT_SHARE: u64 = 4;

/// A trace being analysed, in two stages: what requests tell by themselves, and what is followed of their blocks.
pub struct Analysis {
    requests: Requests,
    stage: Stage,
}

impl Analysis {
    /// Begins.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self { requests: Requests::new(options, None), stage: Stage::new(options) }
    }

    /// Begins, and keeps writes and discards for [`Sizing::repeat`](super::Sizing::repeat), as long as they take no more than a quarter of the memory for blocks
    /// beside it.
    #[must_use]
    pub fn keeping_writes(options: &Options) -> Self {
        let kept = Writes::within(options.memory_bytes / KEPT_SHARE);
        Self { requests: Requests::new(options, Some(kept)), stage: Stage::new(options) }
    }

    /// The writes and discards that were kept; `None` where they were too many.
    pub fn take_writes(&mut self) -> Option<Writes> {
        self.requests.take_writes()
    }

    /// Takes the next requests of the trace.
    pub fn add(&mut self, requests: &[Request], names: &Names, knows: Knows) {
        // Also where none has come yet.
        self.requests.knows = knows;
        for requests in requests.chunks(REQUESTS_FETCHED) {
            self.stage.add(|on| self.requests.add(requests, names, on));
        }
    }

    /// Ends the analysis. `names` are the trace's.
    #[must_use]
    pub fn finish(self, names: &Names) -> Report {
        self.finish_with_read_hits(names).0
    }

    /// The same, and what reads find in caches of any size, which is large where the trace has many blocks.
    #[must_use]
    pub fn finish_with_read_hits(self, names: &Names) -> (Report, ReadHits) {
        let mut ended = Ended { requests: self.requests, followed: self.stage.end() };
        (ended.report(names), ReadHits::of(ended.followed.blocks.reads))
    }
}
