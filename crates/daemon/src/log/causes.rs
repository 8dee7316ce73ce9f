//! Log events by cause. The first event of a cause is logged at once; later ones at most once per interval, with
//! their number. The end of a lasting state is logged too.

use forebay_device::throttle::{Throttle, with_number};
use tracing::{error, info, warn};

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Data or service is lost.
    Error,
    /// Somebody should look.
    Warning,
    /// Somebody may want to know.
    Notice,
}

/// One event to log.
pub struct Report<'a> {
    /// How bad the event is.
    pub severity: Severity,
    /// Name of the cause, for programs that read the log.
    pub cause: &'static str,
    /// The device, export or disk concerned; empty where it is the pool.
    pub about: &'a str,
    /// What happened.
    pub message: String,
    /// What the operator should do.
    pub advice: &'a str,
}

/// All causes that were logged, with their times.
#[derive(Default)]
pub struct Causes {
    throttle: Throttle,
}

impl Causes {
    /// Logs an event, unless one of its cause was logged within the interval. Returns whether a line was written.
    pub fn happened(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        self.throttle.happened(now_ns, report.cause, report.about).is_some_and(|more| write(report, more))
    }

    /// As [`Causes::happened`] for a lasting state: logged once, and not again until [`Causes::ended`]. A state that
    /// begins a few times within an interval is logged each time.
    pub fn lasts(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        self.throttle.lasts(now_ns, report.cause, report.about).is_some_and(|more| write(report, more))
    }

    /// Forgets a state without logging its end. Returns whether its beginning was logged.
    pub fn forget(&mut self, cause: &'static str, about: &str) -> bool {
        self.throttle.ended(cause, about)
    }

    /// Logs the end of a state, where its beginning was logged.
    pub fn ended(&mut self, cause: &'static str, about: &str, message: &str) {
        if self.throttle.ended(cause, about) {
            info!(cause, about, ended = true, "{message}");
        }
    }
}

fn write(Report { severity, cause, about, message, advice }: &Report<'_>, more: u64) -> bool {
    let message = with_number(message, more);
    match severity {
        Severity::Error => error!(cause, about, more, advice, "{message}"),
        Severity::Warning => warn!(cause, about, more, advice, "{message}"),
        Severity::Notice => info!(cause, about, more, "{message}"),
    }
    true
}
