//! Limits how often events of one cause are logged. The first event is logged at once, later ones at most once per
//! interval, with their number. A lasting state is logged when it begins and when it ends; its lines are limited only
//! where it comes and goes again and again.

use std::collections::BTreeMap;

/// Least time between two lines of one cause, in nanoseconds.
const INTERVAL_NS: u64 = 60_000_000_000;
/// Most beginnings of one state that are logged within an interval, each with its end.
const BEGINNINGS_MAX: u32 = 3;
/// Most causes that are remembered; beyond that the one that was quiet longest is forgotten.
const CAUSES_MAX: usize = 256;

/// Whether a cause is a lasting state at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lasting {
    /// The cause is not a state, or the state is over.
    #[default]
    No,
    /// The state lasts. Its beginning was not logged, because too many were logged lately; it is logged later if the
    /// state goes on.
    Unlogged,
    /// The state lasts and was logged, so its end is to be logged.
    Logged,
}

#[derive(Debug, Default)]
struct Known {
    /// Start of the interval, which is the time of a line, in nanoseconds.
    since_ns: u64,
    /// Lines within the interval.
    lines: u32,
    /// Events, or beginnings of the state, left out since the last line.
    more: u64,
    lasting: Lasting,
}

impl Known {
    /// Whether a line is allowed, with at most `lines_max` in an interval. Returns how many were left out before it.
    fn line(&mut self, now_ns: u64, lines_max: u32) -> Option<u64> {
        if self.lines == 0 || now_ns.saturating_sub(self.since_ns) >= INTERVAL_NS {
            (self.since_ns, self.lines) = (now_ns, 0);
        }
        if self.lines >= lines_max {
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.more))
    }
}

/// All causes that are remembered, each with what it concerns.
#[derive(Debug, Default)]
pub struct Throttle {
    known: BTreeMap<(&'static str, String), Known>,
}

impl Throttle {
    /// Counts an event. Returns how many were left out before it where it is to be logged; otherwise `None`.
    pub fn happened(&mut self, now_ns: u64, cause: &'static str, about: &str) -> Option<u64> {
        let known = self.known.entry((cause, about.to_owned())).or_default();
        let line = known.line(now_ns, 1);
        known.more += u64::from(line.is_none());
        self.keep_few();
        line
    }

    /// As [`Throttle::happened`] for a lasting state, which is logged once and not again until [`Throttle::ended`]. A
    /// state that begins too often within an interval is logged in the next one, if it still lasts then.
    pub fn lasts(&mut self, now_ns: u64, cause: &'static str, about: &str) -> Option<u64> {
        let known = self.known.entry((cause, about.to_owned())).or_default();
        if known.lasting == Lasting::Logged {
            return None;
        }
        let has_waited = std::mem::replace(&mut known.lasting, Lasting::Unlogged) == Lasting::Unlogged;
        let line = known.line(now_ns, BEGINNINGS_MAX);
        match line {
            Some(_) => known.lasting = Lasting::Logged,
            None => known.more += u64::from(!has_waited),
        }
        self.keep_few();
        // The beginning that is logged now was counted as left out before.
        line.map(|more| more.saturating_sub(u64::from(has_waited)))
    }

    /// Notes that a state is over. Returns whether its beginning was logged.
    pub fn ended(&mut self, cause: &'static str, about: &str) -> bool {
        let known = self.known.get_mut(&(cause, about.to_owned()));
        known.is_some_and(|known| std::mem::take(&mut known.lasting) == Lasting::Logged)
    }

    fn keep_few(&mut self) {
        while self.known.len() > CAUSES_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| (known.lasting != Lasting::No, known.since_ns));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.known.remove(&key);
        }
    }
}

/// A message with the number of events left out before it.
#[must_use]
pub fn with_number(message: &str, more: u64) -> String {
    match more {
        0 => message.to_owned(),
        _ => format!("{message} ({more} more since it was logged last)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_cause_is_logged_once_an_interval() {
        let mut throttle = Throttle::default();
        let mut happened = |second: u64, about| throttle.happened(second * SECOND, "test", about);
        let logged: Vec<(u64, u64)> = (0..200).filter_map(|at| Some((at, happened(at, "a")?))).collect();
        assert_eq!(logged, [(0, 0), (60, 59), (120, 59), (180, 59)]);
        assert_eq!(happened(200, "b"), Some(0), "another cause");
    }

    #[test]
    fn a_state_is_logged_once_until_it_ends() {
        let mut throttle = Throttle::default();
        let logged: Vec<u64> = (0..200).filter(|at| throttle.lasts(at * SECOND, "test", "a").is_some()).collect();
        assert_eq!(logged, [0]);
        assert!(throttle.ended("test", "a") && !throttle.ended("test", "a"));
        assert_eq!(throttle.lasts(300 * SECOND, "test", "a"), Some(0));
    }

    /// Regression: a state that began again within a minute was logged only after the minute, with the number of
    /// checks instead of beginnings, and its end never.
    #[test]
    fn regression_a_state_that_begins_again_at_once_is_logged() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.lasts(0, "test", "a"), Some(0));
        assert!(throttle.ended("test", "a"));
        let logged: Vec<_> = (5..60).filter_map(|at| Some((at, throttle.lasts(at * SECOND, "test", "a")?))).collect();
        assert_eq!(logged, [(5, 0)]);
        assert!(throttle.ended("test", "a"));
    }

    #[test]
    fn a_state_that_comes_and_goes_is_limited_and_logged_where_it_stays() {
        let mut throttle = Throttle::default();
        let mut logged = Vec::new();
        for second in 0..200 {
            logged.extend(throttle.lasts(second * SECOND, "test", "a").map(|more| (second, more)));
            // The state comes and goes ten times, once a second, and then stays.
            if second < 9 {
                throttle.ended("test", "a");
            }
        }
        assert_eq!(logged, [(0, 0), (1, 0), (2, 0), (60, 6)], "the last of ten is logged, and six were not");
        assert!(throttle.ended("test", "a"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut throttle = Throttle::default();
        assert!((0..2000u64).all(|at| throttle.happened(at, "test", &at.to_string()).is_some()));
        assert_eq!(throttle.known.len(), CAUSES_MAX);
    }
}
