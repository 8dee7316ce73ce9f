//! Acknowledged blocks that are not there any more, and who has learned of it. A client hears of them by a flush that fails, once for each loss, as Linux
//! reports errors of writing back once for each open file (errseq, Documentation/core-api/errseq.rst): one of several clients of a disk that had
//! heard of all would leave the others believing that what they flush next is all there. Connections of one client are not known as such: each hears.

use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// How long after its start clients come back to a server that was restarted, in nanoseconds.
const RETURN_NS: u64 = 600_000_000_000;

/// What was lost of disks, and who knows.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Clients that have begun.
    sessions: u64,
    /// Those of them that have not ended.
    live: BTreeSet<u64>,
    by_disk: BTreeMap<DiskId, Loss>,
}

#[derive(Debug, Default)]
struct Loss {
    /// Clients that were there when the last blocks were lost, and have not learned of it.
    unheard: BTreeSet<u64>,
    /// Clients that have ended so: each may come back as one that is not known.
    ended: BTreeSet<u64>,
    /// Clients from later on that have learned of it in the place of such.
    late: BTreeSet<u64>,
    /// Somebody has learned of it.
    is_heard: bool,
    /// It was before this start: clients that begin soon may have been there.
    is_of_before: bool,
    /// Until when they do, in nanoseconds, once the first has begun.
    returns_until_ns: Option<u64>,
}

impl Losses {
    /// A client begins; its number, from 1.
    pub fn begin_session(&mut self, now_ns: u64) -> u64 {
        self.sessions += 1;
        self.live.insert(self.sessions);
        for loss in self.by_disk.values_mut().filter(|loss| loss.is_of_before) {
            if now_ns < *loss.returns_until_ns.get_or_insert(now_ns.saturating_add(RETURN_NS)) {
                loss.unheard.insert(self.sessions);
            }
        }
        self.sessions
    }

    /// A client has ended: what it is answered from now on reaches nobody.
    pub fn end_session(&mut self, session: u64) {
        self.live.remove(&session);
        for loss in self.by_disk.values_mut() {
            loss.late.remove(&session);
            if loss.unheard.remove(&session) {
                loss.ended.insert(session);
            }
        }
    }

    /// Blocks of these disks were lost.
    pub fn record(&mut self, disks: impl IntoIterator<Item = DiskId>) {
        for disk in disks {
            let loss = self.by_disk.entry(disk).or_default();
            loss.unheard.clone_from(&self.live);
            loss.late.clear();
            loss.is_heard = false;
        }
    }

    /// The same, before this start.
    pub fn record_before(&mut self, disks: impl IntoIterator<Item = DiskId>) {
        let loss = |disk| (disk, Loss { is_of_before: true, ..Loss::default() });
        self.by_disk.extend(disks.into_iter().map(loss));
    }

    /// A flush that a client waits for fails for blocks that were lost just now. One that has ended does not hear of it.
    pub fn fails(&mut self, disk: DiskId, session: u64) {
        let Some(loss) = self.by_disk.get_mut(&disk) else { return };
        if session == 0 || self.live.contains(&session) {
            loss.unheard.remove(&session);
            loss.is_heard = true;
        } else {
            loss.ended.insert(session);
        }
    }

    /// Whether a client is to hear now, by a flush that is good, of blocks that were lost. Session 0 is the server itself, for whoever has not heard yet.
    pub fn take(&mut self, disk: DiskId, session: u64) -> bool {
        let Some(loss) = self.by_disk.get_mut(&disk) else { return false };
        if session == 0 {
            return !std::mem::replace(&mut loss.is_heard, true);
        }
        let mut hears = loss.unheard.remove(&session);
        if !hears && self.live.contains(&session) && !(loss.is_heard && loss.ended.is_empty()) {
            hears = loss.late.insert(session);
            if hears {
                loss.ended.pop_first();
            }
        }
        loss.is_heard |= hears;
        hears
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskId = DiskId(1);

    /// One flush alone failed after a loss: of several clients the others were answered that all they had written was durable.
    #[test]
    fn regression_every_client_that_may_have_lost_blocks_hears_of_them_once() {
        let mut losses = Losses::default();
        let [first, second] = [losses.begin_session(0), losses.begin_session(0)];
        assert!(!losses.take(DISK, first));
        losses.record([DISK]);
        let late = losses.begin_session(0);
        assert!(losses.take(DISK, first) && !losses.take(DISK, first));
        assert!(!losses.take(DISK, late), "it began after the loss, and another knows of it");
        assert!(!losses.take(DISK, 0), "nor has the server's own flush anything to say");
        assert!(losses.take(DISK, second) && !losses.take(DISK, second));
        assert!(!losses.take(DiskId(2), first));
        losses.record([DISK]);
        assert!(losses.take(DISK, late) && losses.take(DISK, first) && losses.take(DISK, second));
        assert!(!losses.take(DISK, late));
    }

    #[test]
    fn of_a_loss_that_nobody_has_heard_of_the_first_to_ask_does() {
        for first in [1, 0] {
            let mut losses = Losses::default();
            losses.record([DISK]);
            let [late, later] = [losses.begin_session(0), losses.begin_session(0)];
            assert!(losses.take(DISK, if first == 0 { 0 } else { late }) && !losses.take(DISK, later));
        }
    }

    /// Its connection was lost before the answer: it comes back as another client, and must hear.
    #[test]
    fn regression_a_client_that_comes_back_hears_in_place_of_the_one_that_has_ended() {
        let mut losses = Losses::default();
        let [first, other, waiting] = [(); 3].map(|()| losses.begin_session(0));
        losses.end_session(waiting);
        losses.record([DISK]);
        losses.fails(DISK, waiting);
        losses.end_session(first);
        assert!(losses.take(DISK, other));
        let [again, and_again, third] = [(); 3].map(|()| losses.begin_session(0));
        assert!(losses.take(DISK, again) && !losses.take(DISK, again));
        assert!(losses.take(DISK, and_again));
        assert!(!losses.take(DISK, third), "both have come back");
    }

    /// It had been answered to nobody, and the next client heard of what all had heard of.
    #[test]
    fn regression_a_good_flush_of_a_client_that_has_ended_owes_nobody_anything() {
        let mut losses = Losses::default();
        let first = losses.begin_session(0);
        losses.record([DISK]);
        assert!(losses.take(DISK, first));
        losses.end_session(first);
        assert!(!losses.take(DISK, first), "it was in flight");
        let next = losses.begin_session(0);
        assert!(!losses.take(DISK, next));
    }

    /// The second loss took the place of the first, of which clients that had gone had not heard.
    #[test]
    fn regression_another_loss_forgets_no_client_that_has_not_heard() {
        let mut losses = Losses::default();
        let [first, other] = [(); 2].map(|()| losses.begin_session(0));
        losses.record([DISK]);
        losses.end_session(first);
        losses.record([DISK]);
        assert!(losses.take(DISK, other));
        let [again, third] = [(); 2].map(|()| losses.begin_session(0));
        assert!(losses.take(DISK, again) && !losses.take(DISK, third));
    }

    /// Of what a start could not write again one client alone heard.
    #[test]
    fn regression_clients_that_come_back_to_a_restarted_server_all_hear() {
        let mut losses = Losses::default();
        losses.record_before([DISK]);
        let [first, second] = [5, RETURN_NS].map(|now_ns| losses.begin_session(now_ns));
        let new = losses.begin_session(RETURN_NS + 5);
        assert!(losses.take(DISK, first) && !losses.take(DISK, new) && losses.take(DISK, second));
        assert!(!losses.take(DISK, second) && !losses.take(DISK, 0));
    }
}
