//! How often events of one cause are logged: the first at once, others at most once an interval, with their number; and what lasts, when it begins and when it
//! ends.

use std::collections::BTreeMap;

/// Between two lines of one cause, in nanoseconds.
const INTERVAL_NS: u64 = 60_000_000_000;
/// Causes that are remembered; beyond that the one that was quiet longest is forgotten.
const CAUSES_MAX: usize = 256;

#[derive(Debug)]
struct Known {
    logged_ns: u64,
    /// Events since then.
    more: u64,
    /// It lasts, and its end is to be logged.
    lasts: bool,
}

/// The causes known, each with what it is about.
#[derive(Debug, Default)]
pub struct Throttle {
    known: BTreeMap<(&'static str, String), Known>,
}

impl Throttle {
    /// An event. How many were left out before it, where it is to be logged.
    pub fn happened(&mut self, now_ns: u64, cause: &'static str, about: &str) -> Option<u64> {
        self.put(now_ns, (cause, about), false)
    }

    /// The same of a state, which is logged once and then not again until [`Throttle::ended`].
    pub fn lasts(&mut self, now_ns: u64, cause: &'static str, about: &str) -> Option<u64> {
        if self.known.get(&(cause, about.to_owned())).is_some_and(|known| known.lasts) {
            return None;
        }
        self.put(now_ns, (cause, about), true)
    }

    /// A state is over. Whether its beginning was logged.
    pub fn ended(&mut self, cause: &'static str, about: &str) -> bool {
        self.known.get_mut(&(cause, about.to_owned())).is_some_and(|known| std::mem::take(&mut known.lasts))
    }

    fn put(&mut self, now_ns: u64, (cause, about): (&'static str, &str), lasts: bool) -> Option<u64> {
        let key = (cause, about.to_owned());
        if let Some(known) = self.known.get_mut(&key)
            && now_ns.saturating_sub(known.logged_ns) < INTERVAL_NS
        {
            known.more += 1;
            // A state that comes and goes within the interval is logged at its end only if its beginning was.
            return None;
        }
        let before = self.known.insert(key, Known { logged_ns: now_ns, more: 0, lasts });
        self.keep_few();
        Some(before.map_or(0, |known| known.more))
    }

    fn keep_few(&mut self) {
        while self.known.len() > CAUSES_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| (known.lasts, known.logged_ns));
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
        assert!(throttle.lasts(51 * SECOND, "test", "a").is_none(), "within the interval");
        assert!(throttle.lasts(300 * SECOND, "test", "a").is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let mut throttle = Throttle::default();
        assert!((0..2000u64).all(|at| throttle.happened(at, "test", &at.to_string()).is_some()));
        assert_eq!(throttle.known.len(), CAUSES_MAX);
    }
}
