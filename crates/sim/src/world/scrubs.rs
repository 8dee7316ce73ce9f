//! What is known of the scrubs of a round.

use crate::oracle::Place;
use std::collections::BTreeSet;

/// What is known of the scrubs of a round.
#[derive(Default)]
pub(super) struct Scrubs {
    /// They are held against the oracle.
    pub is_judged: bool,
    /// Blocks that were damaged when something was, and may be reported.
    pub damaged: BTreeSet<Place>,
    /// Blocks that were reported.
    pub reported: BTreeSet<Place>,
    /// Misreads before the round.
    pub misread: u64,
    /// A pass goes on that began after all that was damaged: how members were then, where all of them held everything.
    pub since: Option<Option<Vec<u64>>>,
    /// Such a pass has ended, and all members held everything from its begin on.
    pub has_seen_all: bool,
    /// Passes that have ended.
    pub passes: u64,
    /// Blocks that were reported as damaged.
    pub reports: u64,
    /// Changes of what a scrub was reading.
    pub chased: u64,
    /// Sectors that have rotted meanwhile.
    pub rotten: u64,
}
