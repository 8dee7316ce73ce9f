//! A worker's side of a replay: the I/O that it will make next.

use super::feed::Answer;
use super::{Feed, ReplayIo};
use crate::pattern::Next;

/// Takes I/Os from a feed, one at a time and only when there is a slot for it: so none waits for a worker that is busy
/// while another is not.
#[derive(Debug)]
pub(crate) struct Player {
    feed: Feed,
    next: Option<ReplayIo>,
    /// The clock's time of the replay's begin.
    begin_ns: u64,
    /// At their times; otherwise as soon as there is a slot.
    is_timed: bool,
    /// Waits for the reader: where time stands still meanwhile.
    is_patient: bool,
    is_over: bool,
}

impl Player {
    /// One worker's.
    pub(crate) fn new(feed: Feed, is_timed: bool, is_patient: bool) -> Self {
        Self { feed, next: None, begin_ns: 0, is_timed, is_patient, is_over: false }
    }

    /// The replay begins then.
    pub(crate) fn begin_at(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    /// Whether I/Os come at their times.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Takes the next I/O from the feed where there is none yet. For one who has a slot for it.
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

    /// Whether the reader lags, or nothing was claimed yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.next.is_none() && !self.is_over
    }

    /// When the next is wanted: 0 is at once, `u64::MAX` never again, one less when that is not known yet.
    #[inline]
    pub(crate) fn due_ns(&self) -> u64 {
        match &self.next {
            Some(io) if self.is_timed => self.begin_ns.saturating_add(io.at_ns).min(u64::MAX - 2),
            Some(_) => 0,
            None if self.is_over => u64::MAX,
            None => u64::MAX - 1,
        }
    }

    /// The I/O that is due.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Next> {
        let io = self.next.take()?;
        Some(Next { kind: io.kind, offset_bytes: io.offset_bytes, len_bytes: io.len_bytes, hint: io.hint })
    }

    /// How many are due before `end_ns` and were not made.
    pub(crate) fn count_rest(&mut self, end_ns: u64) -> u64 {
        let held = u64::from(self.next.is_some() && self.due_ns() < end_ns);
        self.next = None;
        held + self.feed.take_until(end_ns.saturating_sub(self.begin_ns))
    }
}
