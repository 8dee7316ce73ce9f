//! Acknowledged blocks that are not there any more, and who has learned of it. A client hears of them by a flush that fails, once for each loss, as Linux
//! reports errors of writing back once for each open file (errseq, Documentation/core-api/errseq.rst): one of several clients of a disk that had
//! heard of all would leave the others believing that what they flush next is all there.

use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// What was lost of disks, and who knows.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Clients that have begun.
    sessions: u64,
    by_disk: BTreeMap<DiskId, Loss>,
}

#[derive(Debug)]
struct Loss {
    /// The last client that had begun when the last blocks were lost; those from later on have written nothing that may be gone.
    last_session: u64,
    /// Who has learned of it: of those that had begun no more than are served at a time.
    heard: BTreeSet<u64>,
}

impl Losses {
    /// A client begins; its number, from 1.
    pub fn begin_session(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    /// Blocks of these disks were lost.
    pub fn record(&mut self, disks: impl IntoIterator<Item = DiskId>) {
        let last_session = self.sessions;
        self.by_disk.extend(disks.into_iter().map(|disk| (disk, Loss { last_session, heard: BTreeSet::new() })));
    }

    /// Whether a client is to hear now of blocks that were lost: it had begun before, or nobody else has heard of them yet.
    pub fn take(&mut self, disk: DiskId, session: u64) -> bool {
        let Some(Loss { last_session, heard }) = self.by_disk.get_mut(&disk) else { return false };
        (session <= *last_session || heard.is_empty()) && heard.insert(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One flush alone failed after a loss: of several clients the others were answered that all they had written was durable.
    #[test]
    fn regression_every_client_that_may_have_lost_blocks_hears_of_them_once() {
        let mut losses = Losses::default();
        let [first, second] = [losses.begin_session(), losses.begin_session()];
        let (disk, other) = (DiskId(1), DiskId(2));
        assert!(!losses.take(disk, first));
        losses.record([disk]);
        let late = losses.begin_session();
        assert!(losses.take(disk, first) && !losses.take(disk, first));
        assert!(!losses.take(disk, late), "it began after the loss, and another knows of it");
        assert!(losses.take(disk, second) && !losses.take(disk, second));
        assert!(!losses.take(other, first));
        losses.record([disk]);
        assert!(losses.take(disk, late) && losses.take(disk, first) && losses.take(disk, second));
        assert!(!losses.take(disk, late));
    }

    #[test]
    fn of_a_loss_that_nobody_has_heard_of_the_first_to_ask_does() {
        let mut losses = Losses::default();
        losses.record([DiskId(1)]);
        let [late, later] = [losses.begin_session(), losses.begin_session()];
        assert!(losses.take(DiskId(1), late) && !losses.take(DiskId(1), later));
    }
}
