//! A worker's side of a replay: holds the next I/O of the worker.

use super::feed::Answer;
use super::{Feed, ReplayIo};
use crate::pattern::Next;

/// Takes I/Os from a feed, one at a time and only when a slot is free for it, so that no I/O waits for a busy worker while another is idle.
#[derive(Debug)]
pub(crate) struct Player {
    feed: Feed,
    next: Option<ReplayIo>,
    /// When the replay begins, by the worker's clock.
    begin_ns: u64,
    /// Whether I/Os come at their times; otherwise as soon as a slot is free.
    is_timed: bool,
    /// Whether to wait for the reader, because time stands still meanwhile.
    is_patient: bool,
    is_over: bool,
}

impl Player {
    /// The player of one worker.
    pub(crate) fn new(feed: Feed, is_timed: bool, is_patient: bool) -> Self {
        Self { feed, next: None, begin_ns: 0, is_timed, is_patient, is_over: false }
    }

    /// Sets when the replay begins.
    pub(crate) fn begin_at(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    /// Whether I/Os come at their recorded times.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Takes the next I/O from the feed if none is held. To be called when a slot is free.
    #[inline]
    pub(crate) fn claim(&mut self) {
        if self.next.is_none() && !self.is_over {
            match self.feed.take(self.is_patient) {
                Answer::Io(io) => self.next = Some(io),
                Answer::NotYet => {}
                Answer::Over => self.is_over = true,
            }
        }
    }

    /// Whether the reader lags, or no I/O was claimed yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.next.is_none() && !self.is_over
    }

    /// When the next I/O is due: 0 means at once, `u64::MAX` never, `u64::MAX - 1` that it is not known yet.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        match &self.next {
            Some(io) if self.is_timed => self.begin_ns.saturating_add(io.at_ns).min(u64::MAX - 2),
            Some(_) => 0,
            None if self.is_over => u64::MAX,
            None => u64::MAX - 1,
        }
    }

    /// Takes the I/O that is due; `None` if there is none.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Next> {
        let io = self.next.take()?;
        Some(Next { kind: io.kind, offset_bytes: io.offset_bytes, len_bytes: io.len_bytes, hint: io.hint })
    }

    /// Number of I/Os due before `end_ns` that were not made.
    pub(crate) fn count_rest(&mut self, end_ns: u64) -> u64 {
        let held = u64::from(self.next.is_some() && self.due_ns() < end_ns);
        self.next = None;
        held + self.feed.take_until(end_ns.saturating_sub(self.begin_ns))
    }
}
