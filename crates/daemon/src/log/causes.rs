//! What has been logged, by cause: the first event of a cause at once, others of it at most once an interval, with their
//! number; and the end of what lasted.

use forebay_device::throttle::{Throttle, with_number};
use tracing::{error, info, warn};

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
    throttle: Throttle,
}

impl Causes {
    /// Logs an event, unless one of its cause was logged a moment ago. Returns whether it was.
    pub fn happened(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        self.throttle.happened(now_ns, report.cause, report.about).is_some_and(|more| write(report, more))
    }

    /// As [`Causes::happened`] for a state, which is logged once and then not again until [`Causes::ended`]; where it begins a few times within an interval, each time.
    pub fn lasts(&mut self, now_ns: u64, report: &Report<'_>) -> bool {
        self.throttle.lasts(now_ns, report.cause, report.about).is_some_and(|more| write(report, more))
    }

    /// As [`Causes::ended`], with nothing to log. Whether its beginning was.
    pub fn forget(&mut self, cause: &'static str, about: &str) -> bool {
        self.throttle.ended(cause, about)
    }

    /// Logs that a state is over, where its beginning was logged.
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
