//! What has been logged, by cause: the first event of a cause at once, others of it at most once an interval, with their
//! number; and the end of what lasted.

use std::collections::BTreeMap;
use tracing::{error, info, warn};

/// Between two lines of one cause, in nanoseconds.
const INTERVAL_NS: u64 = 60_000_000_000;
/// Causes that are remembered; beyond that the one that was quiet longest is forgotten.
const CAUSES_MAX: usize = 256;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Data or service is lost.
    Error,
    /// Somebody should look.
    Warning,
    /// Somebody may want to know.
    Notice,
}

struct Known {
    logged_ns: u64,
    /// Events since then.
    more: u64,
    /// It lasts, and its end is to be logged.
    lasts: bool,
}

/// What is logged of a cause.
pub struct Report<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Its kind, for programs.
    pub cause: &'static str,
    /// What it is about: a device, an export, a disk; empty where it is the pool.
    pub about: &'a str,
    /// What happened.
    pub message: String,
    /// What to do.
    pub advice: &'a str,
}

/// The causes known.
#[derive(Default)]
pub struct Causes {
    known: BTreeMap<(&'static str, String), Known>,
}

impl Causes {
    /// Logs an event, unless one of its cause was logged a moment ago. Returns whether it was.
    pub fn happened(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        self.put(now_ns, report, false)
    }

    /// As [`Causes::happened`] for a state, which is logged once and then not again until [`Causes::ended`].
    pub fn lasts(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        let key = (report.cause, report.about.to_owned());
        if self.known.get(&key).is_some_and(|known| known.lasts) {
            return false;
        }
        self.put(now_ns, report, true)
    }

    /// As [`Causes::ended`], with nothing to log.
    pub fn forget(&mut self, cause: &'static str, about: &str) {
        if let Some(known) = self.known.get_mut(&(cause, about.to_owned())) {
            known.lasts = false;
        }
    }

    /// Logs that a state is over, where its beginning was logged.
    pub fn ended(&mut self, cause: &'static str, about: &str, message: &str) {
        if let Some(known) = self.known.get_mut(&(cause, about.to_owned()))
            && std::mem::take(&mut known.lasts)
        {
            info!(cause, about, ended = true, "{message}");
        }
    }

    fn put(&mut self, now_ns: u64, report: &Report<'_>, lasts: bool) -> bool {
        let key = (report.cause, report.about.to_owned());
        if let Some(known) = self.known.get_mut(&key)
            && now_ns.saturating_sub(known.logged_ns) < INTERVAL_NS
        {
            known.more += 1;
            // A state that comes and goes within the interval is logged at its end only if its beginning was.
            return false;
        }
        let before = self.known.insert(key, Known { logged_ns: now_ns, more: 0, lasts });
        let more = before.map_or(0, |known| known.more);
        self.keep_few();
        let Report { severity, cause, about, message, advice } = report;
        let message = match more {
            0 => message.clone(),
            _ => format!("{message} ({more} more since it was logged last)"),
        };
        match severity {
            Severity::Error => error!(cause, about, more, advice, "{message}"),
            Severity::Warning => warn!(cause, about, more, advice, "{message}"),
            Severity::Notice => info!(cause, about, more, "{message}"),
        }
        true
    }

    fn keep_few(&mut self) {
        while self.known.len() > CAUSES_MAX {
            let oldest = self.known.iter().min_by_key(|(_, known)| (known.lasts, known.logged_ns));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn report(about: &str) -> Report<'_> {
        Report { severity: Severity::Warning, cause: "test", about, message: "it happened".to_owned(), advice: "" }
    }

    #[test]
    fn a_cause_is_logged_once_an_interval() {
        let mut causes = Causes::default();
        let logged: Vec<u64> = (0..200).filter(|at| causes.happened(at * SECOND, &report("a"))).collect();
        assert_eq!(logged, [0, 60, 120, 180]);
        assert!(causes.happened(200 * SECOND, &report("b")), "another cause");
    }

    #[test]
    fn a_state_is_logged_once_until_it_ends() {
        let mut causes = Causes::default();
        let logged: Vec<u64> = (0..200).filter(|at| causes.lasts(at * SECOND, &report("a"))).collect();
        assert_eq!(logged, [0]);
        causes.ended("test", "a", "over");
        assert!(!causes.lasts(201 * SECOND - 150 * SECOND, &report("a")), "within the interval");
        assert!(causes.lasts(300 * SECOND, &report("a")));
    }

    #[test]
    fn memory_is_bounded() {
        let mut causes = Causes::default();
        assert!((0..2000u64).all(|at| causes.happened(at, &report(&at.to_string()))));
        assert_eq!(causes.known.len(), CAUSES_MAX);
    }
}
