//! Pieces that cannot go on, and when they are tried again.

use super::client::ClientKind;
use super::wants::{Waiting, Wants};
use crate::engine::Engine;
use crate::layout::page::LEAF_ENTRIES;
use crate::request::RequestError;

/// Least time for which a write waits for space while migration gains none.
const SPACE_TIMEOUT_NS: u64 = 10_000_000_000;
/// The same where slots are about to be free, in nanoseconds.
const SLOTS_TIMEOUT_NS: u64 = 60_000_000_000;
/// A device that takes longer than this for a request that may free space does not answer. Such time does not count as
/// waiting in vain.
const UNANSWERED_NS: u64 = 1_000_000_000;

impl Engine {
    /// Parks a piece until what it waits for comes. A piece that copies from a base does not wait for space, but fails: its range is locked, and a discard of
    /// that range may be what would make space.
    pub(crate) fn stall(&mut self, id: u32, wants: Wants) {
        if wants == Wants::Space && self.copies_from_base(id) {
            self.seek_room(wants);
            return self.fail_piece(id, RequestError::NoSpace);
        }
        self.stats.counters.stalls += 1;
        self.requests.pieces[id as usize].wants = wants;
        self.requests.waiting.queue(wants).push_back(id);
    }

    /// Resumes parked pieces: those of each reason in order, as long as they make progress.
    pub(crate) fn retry_waiting(&mut self) {
        for reason in Waiting::REASONS {
            // A piece that has got its turn does not wait for it again; one that ends at once lets the next have its
            // turn.
            let mut tries = if reason == Wants::Turn { usize::MAX } else { self.requests.waiting.queue(reason).len() };
            while tries > 0 {
                tries -= 1;
                let Some(id) = self.requests.waiting.queue(reason).pop_front() else { break };
                let before = self.requests.waiting.queue(reason).len();
                self.resume(id);
                let queue = self.requests.waiting.queue(reason);
                if queue.len() > before && queue.back() == Some(&id) {
                    // Still no room: the piece keeps its place, and the others of its reason wait behind it.
                    queue.pop_back();
                    queue.push_front(id);
                    self.make_room(reason, id);
                    break;
                }
            }
        }
    }

    fn copies_from_base(&self, id: u32) -> bool {
        let piece = self.requests.pieces.get(id as usize);
        let client = piece.and_then(|piece| self.requests.clients.get(piece.client as usize));
        client.is_some_and(|client| matches!(client.kind, ClientKind::Adopt { .. }))
    }

    /// Starts what frees the resource that writes wait for.
    fn seek_room(&mut self, wants: Wants) {
        self.space.changed = true;
        // A write that is held to the pace of collection needs no flush, unless a freed band waits for one.
        let is_paced = wants == Wants::Space && self.space.pace.is_closed() && self.space.freed.bands() == 0;
        if self.setup.volatile != 0 && !is_paced && (!self.space.freed.is_empty() || self.journal.unflushed_bytes() > 0)
        {
            self.flushes.want();
        }
    }

    /// Writes wait: starts what frees the resource, or fails the first of them where nothing will free it.
    fn make_room(&mut self, wants: Wants, id: u32) {
        self.seek_room(wants);
        if self.holds_changes() {
            // The flush that makes up for the failed one frees the resource.
            return;
        }
        if wants == Wants::Space && self.lacks_index_room_for(id) {
            // Only a checkpoint after a discard makes such room, whatever else goes on; and all pieces that want space wait behind this one.
            let may_gain = self.checkpoint.index_room.may_gain() || self.checkpoint.is_pending();
            if !may_gain || self.waited_too_long(id) {
                self.requests.waiting.queue(wants).pop_front();
                self.fail_piece(id, RequestError::NoSpace);
            }
            return;
        }
        if wants == Wants::Space && self.space.give_up_for_map(&mut self.copies) {
            return;
        }
        let hopeless = self.checkpoint.hopeless(&self.stats.counters);
        let error = if self.flushes.has_failed() {
            // Nothing can be freed now: neither journal nor space.
            RequestError::FlushFailed
        } else if matches!(wants, Wants::Journal | Wants::Checkpoint)
            && let Some(why) = hopeless
        {
            RequestError::ReadOnly(why)
        } else if wants == Wants::Space
            && !self.space.pace.is_closed()
            && !self.space.bands.groups().awaits_flush()
            && (!self.migrate_may_free() || self.migrates_in_vain() && self.waited_too_long(id))
            && (self.waited_too_long(id) && !self.would_be_freed(id)
                || self.space.freed.is_empty()
                    && self.outbox.is_empty()
                    && !self.summaries.is_due()
                    && !self.journal.has_open()
                    && (!self.checkpoint.is_pending() || hopeless.is_some()))
        {
            RequestError::NoSpace
        } else {
            return;
        };
        self.requests.waiting.queue(wants).pop_front();
        self.fail_piece(id, error);
    }

    /// Whether what waits to be free would help: bands, or slots where it may be these that a write lacks. As long as others overwrite slots there are always some
    /// of those, so they are not waited for without end.
    fn would_be_freed(&self, id: u32) -> bool {
        let freed = &self.space.freed;
        let may_lack_slots = self.space.bands.room(false) > 0 && !self.has_waited(id, SLOTS_TIMEOUT_NS);
        freed.bands() > 0 || !freed.is_empty() && may_lack_slots
    }

    /// Whether a piece would create a leaf for whose index page the root has no room.
    fn lacks_index_room_for(&self, id: u32) -> bool {
        let Some(piece) = self.requests.pieces.get(id as usize) else { return false };
        self.checkpoint.index_room.lacks(&self.map, piece.disk, piece.block() / LEAF_ENTRIES as u64)
    }

    /// Whether a piece has waited for so long that what is in progress cannot help it: other writes and their flushes keep something in progress for as long as
    /// hosts send them.
    fn waited_too_long(&self, id: u32) -> bool {
        self.has_waited(id, SPACE_TIMEOUT_NS)
    }

    fn has_waited(&self, id: u32, for_ns: u64) -> bool {
        let client =
            self.requests.pieces.get(id as usize).and_then(|piece| self.requests.clients.get(piece.client as usize));
        client.is_some_and(|client| self.clock.waited_ns(client.waits_since_ns) > for_ns)
    }

    /// The engine's time, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Lets time pass. For pieces that wait for space it does not pass while a device does not answer.
    pub(crate) fn time_passes(&mut self, now_ns: u64) {
        self.clock.tick(now_ns);
        self.outbox.tick(self.clock.waiting_ns());
        // Every waiting piece counts: one that waits for a checkpoint now may wait for space next.
        if !self.requests.waiting.is_empty() && self.outbox.is_unanswered(UNANSWERED_NS) {
            self.clock.note_unanswered();
        }
    }
}
