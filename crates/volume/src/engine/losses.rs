//! Acknowledged blocks that are gone, and who has learned of it. A client learns of a loss by a flush that fails, once for each loss, as Linux reports
//! write-back errors once for each open file (errseq, Documentation/core-api/errseq.rst). If only one of several clients of a disk learned of it, the others
//! would believe that what they flush next is all there.
//!
//! It is unknown which connections belong to one client, and whether an answer has reached it: so each connection that begins within some minutes learns of the
//! loss as well. The minutes begin with the loss, and anew where a connection that was there at the loss learns of it, or ends before it does.

use forebay_block::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// How long clients take to come back, in nanoseconds: after a connection has broken, or to a server that was restarted.
const RETURN_NS: u64 = 600_000_000_000;

/// What was lost of disks, and who knows of it.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// How many clients have begun.
    sessions: u64,
    /// The clients that have not ended, and the disk that each may write.
    live: BTreeMap<u64, DiskId>,
    by_disk: BTreeMap<DiskId, Loss>,
}

#[derive(Debug, Default)]
struct Loss {
    /// Clients that are there and have not learned of it.
    unheard: BTreeSet<u64>,
    /// Some client has learned of it.
    is_heard: bool,
    /// The highest number among the clients that were there when the blocks were lost.
    last_session: u64,
    /// Until when a client that begins may have been there before, in nanoseconds. None: the loss was before this start, and no client has begun since.
    returns_until_ns: Option<u64>,
}

impl Losses {
    /// A client begins that may write to this disk, or to none. Returns its number, from 1.
    pub fn begin_session(&mut self, disk: Option<DiskId>, now_ns: u64) -> u64 {
        self.sessions += 1;
        let Some(disk) = disk else { return self.sessions };
        self.live.insert(self.sessions, disk);
        if let Some(loss) = self.by_disk.get_mut(&disk)
            && now_ns < *loss.returns_until_ns.get_or_insert(now_ns.saturating_add(RETURN_NS))
        {
            loss.unheard.insert(self.sessions);
        }
        self.sessions
    }

    /// A client has ended: answers to it reach nobody from now on.
    pub fn end_session(&mut self, session: u64, now_ns: u64) {
        let disk = self.live.remove(&session);
        let Some(loss) = disk.and_then(|disk| self.by_disk.get_mut(&disk)) else { return };
        if loss.unheard.remove(&session) {
            loss.extend_return_window(session, now_ns);
        }
    }

    /// Blocks of these disks were lost.
    pub fn record(&mut self, disks: impl IntoIterator<Item = DiskId>, now_ns: u64) {
        for disk in disks {
            let there = self.live.iter().filter(|(_, of)| **of == disk).map(|(&session, _)| session);
            let loss = Loss {
                unheard: there.collect(),
                is_heard: false,
                last_session: self.sessions,
                returns_until_ns: Some(now_ns.saturating_add(RETURN_NS)),
            };
            self.by_disk.insert(disk, loss);
        }
    }

    /// The same, for blocks lost before this start.
    pub fn record_before(&mut self, disks: impl IntoIterator<Item = DiskId>) {
        self.by_disk.extend(disks.into_iter().map(|disk| (disk, Loss::default())));
    }

    /// A flush for which a client waits fails because of blocks that were lost just now. A client that has ended does
    /// not learn of it.
    pub fn fails(&mut self, disk: DiskId, session: u64, now_ns: u64) {
        let is_there = self.is_there(session);
        if let Some(loss) = self.by_disk.get_mut(&disk).filter(|_| is_there) {
            loss.heard_by(session, now_ns);
        }
    }

    /// Whether a client is to learn now of lost blocks, although its flush is good. Session 0 is the server itself, which learns only where nobody has yet.
    pub fn take(&mut self, disk: DiskId, session: u64, now_ns: u64) -> bool {
        let is_there = self.is_there(session);
        let Some(loss) = self.by_disk.get_mut(&disk).filter(|_| is_there) else { return false };
        let hears = loss.unheard.contains(&session) || !loss.is_heard;
        if hears {
            loss.heard_by(session, now_ns);
        }
        hears
    }

    /// Whether an answer may reach the client: one that may write and has not ended, or the server itself.
    fn is_there(&self, session: u64) -> bool {
        session == 0 || self.live.contains_key(&session)
    }
}

impl Loss {
    fn heard_by(&mut self, session: u64, now_ns: u64) {
        self.unheard.remove(&session);
        self.is_heard = true;
        self.extend_return_window(session, now_ns);
    }

    /// A client that was there at the loss may come back from now on, and not know of it.
    fn extend_return_window(&mut self, session: u64, now_ns: u64) {
        if (1..=self.last_session).contains(&session) {
            self.returns_until_ns = self.returns_until_ns.max(Some(now_ns.saturating_add(RETURN_NS)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: DiskId = DiskId(1);
    const LATER_NS: u64 = RETURN_NS + 5;

    fn take(losses: &mut Losses, disk: DiskId, session: u64) -> bool {
        losses.take(disk, session, 0)
    }

    fn begin(losses: &mut Losses, now_ns: u64) -> u64 {
        losses.begin_session(Some(DISK), now_ns)
    }

    /// Only one flush failed after a loss: the other clients were answered that all they had written was durable.
    #[test]
    fn regression_every_client_that_may_have_lost_blocks_hears_of_them_once() {
        let mut losses = Losses::default();
        let [first, second] = [(); 2].map(|()| begin(&mut losses, 0));
        assert!(!take(&mut losses, DISK, first));
        losses.record([DISK], 0);
        let late = begin(&mut losses, LATER_NS);
        assert!(take(&mut losses, DISK, first) && !take(&mut losses, DISK, first));
        assert!(!take(&mut losses, DISK, late), "it began long after the loss, and another knows of it");
        assert!(!take(&mut losses, DISK, 0), "nor has the server's own flush anything to say");
        assert!(take(&mut losses, DISK, second) && !take(&mut losses, DISK, second));
        assert!(!take(&mut losses, DiskId(2), first));
        losses.record([DISK], LATER_NS);
        assert!(take(&mut losses, DISK, late) && take(&mut losses, DISK, first) && take(&mut losses, DISK, second));
        assert!(!take(&mut losses, DISK, late));
    }

    #[test]
    fn of_a_loss_that_nobody_has_heard_of_the_first_to_ask_does() {
        for first in [1, 0] {
            let mut losses = Losses::default();
            losses.record([DISK], 0);
            let [late, later] = [(); 2].map(|()| begin(&mut losses, LATER_NS));
            assert!(take(&mut losses, DISK, if first == 0 { 0 } else { late }) && !take(&mut losses, DISK, later));
        }
    }

    /// The connection was lost before the answer, or with the answer in it, or before the loss was known: the client comes back as another one, and must learn
    /// of it.
    #[test]
    fn regression_a_client_that_comes_back_hears_whatever_became_of_its_answers() {
        let mut losses = Losses::default();
        let [unknown, waiting, heard, other] = [(); 4].map(|()| begin(&mut losses, 0));
        losses.end_session(unknown, 0);
        losses.end_session(waiting, 0);
        losses.record([DISK], 0);
        losses.fails(DISK, waiting, 0);
        losses.fails(DISK, heard, 0);
        // It is back before the server knows that the connection was lost.
        let again = begin(&mut losses, 1);
        losses.end_session(heard, 2);
        assert!(take(&mut losses, DISK, other) && take(&mut losses, DISK, again) && !take(&mut losses, DISK, again));
        let rest = [(); 2].map(|()| begin(&mut losses, RETURN_NS - 1));
        assert!(rest.into_iter().all(|session| take(&mut losses, DISK, session) && !take(&mut losses, DISK, session)));
        let late = begin(&mut losses, LATER_NS);
        assert!(!take(&mut losses, DISK, late));
    }

    #[test]
    fn one_that_never_heard_may_come_back_long_after_the_loss() {
        let mut losses = Losses::default();
        let [first, other] = [(); 2].map(|()| begin(&mut losses, 0));
        losses.record([DISK], 0);
        assert!(take(&mut losses, DISK, other));
        losses.end_session(first, 10 * LATER_NS);
        losses.end_session(other, 10 * LATER_NS);
        let again = begin(&mut losses, 10 * LATER_NS + 5);
        assert!(take(&mut losses, DISK, again));
        // A client that comes and goes without a flush does not keep the time from running out.
        for minute in 1..20 {
            let idle = begin(&mut losses, 10 * LATER_NS + minute * RETURN_NS / 10);
            losses.end_session(idle, 10 * LATER_NS + minute * RETURN_NS / 10 + 1);
        }
        let late = begin(&mut losses, 12 * LATER_NS);
        assert!(!take(&mut losses, DISK, late));
    }

    /// The answer may have been lost with the connection, however long the client had not asked.
    #[test]
    fn regression_one_that_hears_late_may_come_back() {
        let mut losses = Losses::default();
        let idle = begin(&mut losses, 0);
        losses.record([DISK], 0);
        assert!(losses.take(DISK, idle, 5 * LATER_NS));
        losses.end_session(idle, 5 * LATER_NS + 1);
        let again = begin(&mut losses, 5 * LATER_NS + 2);
        assert!(take(&mut losses, DISK, again));
    }

    /// Clients of other disks, and those that only read, counted among those that had not learned: for each of them a client of the disk learned anew, weeks
    /// later.
    #[test]
    fn regression_clients_of_other_disks_owe_this_one_no_failed_flush() {
        let mut losses = Losses::default();
        let own = begin(&mut losses, 0);
        let others = [losses.begin_session(Some(DiskId(2)), 0), losses.begin_session(None, 0)];
        losses.record([DISK], 0);
        assert!(take(&mut losses, DISK, own));
        assert!(!take(&mut losses, DISK, others[1]), "it reads");
        others.into_iter().for_each(|session| losses.end_session(session, LATER_NS));
        let next = begin(&mut losses, LATER_NS);
        assert!(!take(&mut losses, DISK, next));
    }

    /// Only one client learned of what a start could not write again.
    #[test]
    fn regression_clients_that_come_back_to_a_restarted_server_all_hear() {
        let mut losses = Losses::default();
        losses.record_before([DISK]);
        let [first, second] = [5, RETURN_NS].map(|now_ns| begin(&mut losses, now_ns));
        let new = begin(&mut losses, LATER_NS);
        assert!(take(&mut losses, DISK, first) && !take(&mut losses, DISK, new) && take(&mut losses, DISK, second));
        assert!(!take(&mut losses, DISK, second) && !take(&mut losses, DISK, 0));
    }
}
