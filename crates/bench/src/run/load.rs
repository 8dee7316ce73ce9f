//! The I/Os of a worker and their times: from a pattern and a schedule, or from a trace.

use super::pace::Pace;
use crate::pattern::{Generator, Next};
use crate::replay::Player;

/// The load of one worker.
#[derive(Debug)]
pub enum Load {
    /// Made from a pattern.
    Made {
        /// The generator of I/Os.
        generator: Box<Generator>,
        /// The schedule.
        pace: Pace,
    },
    /// Replayed from a trace.
    Replayed(Player),
}

impl Load {
    /// Shifts the schedule to begin at `begin_ns` instead of at 0.
    pub fn begin_at(&mut self, begin_ns: u64) {
        match self {
            Self::Made { pace, .. } => pace.begin_at(begin_ns),
            Self::Replayed(player) => player.begin_at(begin_ns),
        }
    }

    /// Whether latency counts from the scheduled time.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Made { pace, .. } => pace.is_open(),
            Self::Replayed(player) => player.is_timed(),
        }
    }

    /// A slot is free for the next I/O: a replay fetches the I/O now.
    #[inline]
    pub fn claim(&mut self) {
        if let Self::Replayed(player) = self {
            player.claim();
        }
    }

    /// Whether it is not yet known when the next I/O is due.
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Replayed(player) if player.is_pending())
    }

    /// When the next I/O is due: 0 means at once, `u64::MAX` never.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match self {
            Self::Made { pace, .. } => pace.due_ns(),
            Self::Replayed(player) => player.due_ns(),
        }
    }

    /// Takes the I/O that is due; `None` if there is none.
    #[inline]
    pub fn take(&mut self) -> Option<Next> {
        match self {
            Self::Made { generator, pace } => {
                let next = generator.next();
                pace.take(next.len_bytes);
                Some(next)
            }
            Self::Replayed(player) => player.take(),
        }
    }

    /// Number of further I/Os due from `begin_ns` to `end_ns`.
    #[cold]
    pub fn count_rest(&mut self, begin_ns: u64, end_ns: u64) -> u64 {
        match self {
            Self::Made { pace, .. } => pace.count_rest(begin_ns, end_ns),
            Self::Replayed(player) => player.count_rest(end_ns),
        }
    }
}
