//! What a worker makes, and when: I/Os of a pattern at the times of a schedule, or those of a trace.

use super::pace::Pace;
use crate::pattern::{Generator, Next};
use crate::replay::Player;

/// The load of one worker.
#[derive(Debug)]
pub enum Load {
    /// From a pattern.
    Made {
        /// The I/Os.
        generator: Box<Generator>,
        /// Their times.
        pace: Pace,
    },
    /// From a trace.
    Replayed(Player),
}

impl Load {
    /// Begins at `begin_ns` instead of at 0.
    pub fn begin_at(&mut self, begin_ns: u64) {
        match self {
            Self::Made { pace, .. } => pace.begin_at(begin_ns),
            Self::Replayed(player) => player.begin_at(begin_ns),
        }
    }

    /// Whether latency counts from the schedule.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Made { pace, .. } => pace.is_open(),
            Self::Replayed(player) => player.is_timed(),
        }
    }

    /// There is a slot for the next I/O: one that comes from elsewhere is got.
    #[inline]
    pub fn claim(&mut self) {
        if let Self::Replayed(player) = self {
            player.claim();
        }
    }

    /// Whether it is not known yet when the next is wanted.
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Replayed(player) if player.is_pending())
    }

    /// When the next I/O is wanted: 0 is at once, `u64::MAX` never again.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match self {
            Self::Made { pace, .. } => pace.due_ns(),
            Self::Replayed(player) => player.due_ns(),
        }
    }

    /// The I/O that is due, taken at `now_ns`; none where there was none.
    #[inline]
    pub fn take(&mut self, now_ns: u64) -> Option<Next> {
        match self {
            Self::Made { generator, pace } => {
                let next = generator.next();
                pace.take(now_ns, next.len_bytes);
                Some(next)
            }
            Self::Replayed(player) => player.take(),
        }
    }

    /// How many more were due from `begin_ns` to `end_ns`.
    #[cold]
    pub fn count_rest(&mut self, begin_ns: u64, end_ns: u64) -> u64 {
        match self {
            Self::Made { pace, .. } => pace.count_rest(begin_ns, end_ns),
            Self::Replayed(player) => player.count_rest(end_ns),
        }
    }
}
