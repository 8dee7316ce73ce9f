//! How often events of one cause are logged: the first at once, others at most once an interval, with their number; and what lasts, when it begins and when it
//! ends, which is limited only where it comes and goes again and again.

use std::collections::BTreeMap;

/// Between two lines of one cause, in nanoseconds.
const INTERVAL_NS: u64 = 60_000_000_000;
/// Beginnings of one state that are logged within an interval, each with its end.
const BEGINNINGS_MAX: u32 = 3;
/// Causes that are remembered; beyond that the one that was quiet longest is forgotten.
const CAUSES_MAX: usize = 256;

/// Whether a cause is a state that lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lasting {
    /// It is none, or is over.
    #[default]
    No,
    /// It lasts, and too many have begun lately for this one to be logged: it will be where it goes on.
    Unlogged,
    /// It lasts, and its end is to be logged.
    Logged,
}

#[derive(Debug, Default)]
struct Known {
    /// When the interval began, which is with a line.
    since_ns: u64,
    /// Lines since then.
    lines: u32,
    /// Events, or beginnings of the state, that were left out since the last line.
    more: u64,
    lasting: Lasting,
}

impl Known {
    /// How many were left out before a line, where an interval with at most `lines_max` has room for one.
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

/// The causes known, each with what it is about.
#[derive(Debug, Default)]
pub struct Throttle {
    known: BTreeMap<(&'static str, String), Known>,
}

impl Throttle {
    /// An event. How many were left out before it, where it is to be logged.
    pub fn happened(&mut self, now_ns: u64, cause: &'static str, about: &str) -> Option<u64> {
        let known = self.known.entry((cause, about.to_owned())).or_default();
        let line = known.line(now_ns, 1);
        known.more += u64::from(line.is_none());
        self.keep_few();
        line
    }

    /// The same of a state, which is logged once and then not again until [`Throttle::ended`]. One that begins too often within an interval is logged
    /// in the next, where it lasts until then.
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
        // The one that is logged now is not one more.
        line.map(|more| more.saturating_sub(u64::from(has_waited)))
    }

    /// A state is over. Whether its beginning was logged.
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

/// A message with the number of those that were left out before it.
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

    /// A state that began again within a minute was logged when the minute had passed, with the number of looks at it, and its end never.
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
            // It comes and goes each second, ten times, and then it stays.
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
