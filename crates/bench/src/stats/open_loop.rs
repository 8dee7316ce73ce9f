//! Open loop: whether I/Os were issued as scheduled.

/// What an open-loop run was to issue, and what it issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// I/Os scheduled until the end of the run.
    pub scheduled: u64,
    /// Scheduled I/Os that were issued.
    pub issued: u64,
    /// I/Os issued in the same time that were scheduled before it (backlog).
    pub backlog: u64,
    /// Requested rate per second.
    pub wanted_per_second: f64,
    /// Duration of the schedule, in ns.
    pub elapsed_ns: u64,
}

/// Verdict on the arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As scheduled, at the rate asked for.
    Kept,
    /// Fewer I/Os were issued than scheduled: the generator or the limit of its queue held them back, so the load was lower than requested.
    Missing {
        /// Number of I/Os not issued.
        count: u64,
    },
    /// More were issued than scheduled: an error of the generator.
    Surplus {
        /// Number of surplus I/Os.
        count: u64,
    },
    /// Counts agree, but the rate is not the requested one.
    RateOff,
    /// Nothing was scheduled.
    NotJudged,
}

/// Result of the check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// I/Os issued per second, including the backlog.
    pub per_second: f64,
    /// (rate - wanted) / wanted.
    pub deviation: f64,
    /// Allowed deviation: 4 / sqrt(N), four standard deviations of a Poisson count of N scheduled I/Os. Constant arrivals are judged by the
    /// same.
    pub tolerance: f64,
    /// Verdict; a wrong count takes precedence over a wrong rate.
    pub verdict: Verdict,
}

/// Checks a run.
#[must_use]
pub fn check(arrivals: Arrivals) -> Check {
    let Arrivals { scheduled, issued, backlog, wanted_per_second, elapsed_ns } = arrivals;
    let all = (issued + backlog) as f64;
    let per_second = if elapsed_ns == 0 { 0.0 } else { all * 1e9 / elapsed_ns as f64 };
    let usable = scheduled > 0 && elapsed_ns > 0 && wanted_per_second.is_finite() && wanted_per_second > 0.0;
    if !usable {
        return Check { per_second, deviation: 0.0, tolerance: 0.0, verdict: Verdict::NotJudged };
    }
    let deviation = (per_second - wanted_per_second) / wanted_per_second;
    let tolerance = 4.0 / (scheduled as f64).sqrt();
    let verdict = if issued < scheduled {
        Verdict::Missing { count: scheduled - issued }
    } else if issued > scheduled {
        Verdict::Surplus { count: issued - scheduled }
    } else if deviation.abs() > tolerance {
        Verdict::RateOff
    } else {
        Verdict::Kept
    };
    Check { per_second, deviation, tolerance, verdict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rate_are_checked() {
        let good =
            Arrivals { scheduled: 10_000, issued: 10_000, backlog: 0, wanted_per_second: 1e6, elapsed_ns: 10_000_000 };
        let found = check(good);
        assert_eq!((found.verdict, found.per_second, found.tolerance), (Verdict::Kept, 1e6, 0.04));
        assert_eq!(check(Arrivals { issued: 9_999, ..good }).verdict, Verdict::Missing { count: 1 });
        assert_eq!(check(Arrivals { issued: 10_002, ..good }).verdict, Verdict::Surplus { count: 2 });
        assert_eq!(check(Arrivals { issued: 5_000, backlog: 4_000, ..good }).per_second, 9e5);
        assert_eq!(check(Arrivals { wanted_per_second: 1.03e6, ..good }).verdict, Verdict::Kept);
        assert_eq!(check(Arrivals { wanted_per_second: 1.05e6, ..good }).verdict, Verdict::RateOff);
        assert_eq!(check(Arrivals { wanted_per_second: 0.95e6, ..good }).verdict, Verdict::RateOff);
    }

    #[test]
    fn nothing_scheduled_is_not_judged() {
        let none = Arrivals { scheduled: 0, issued: 0, backlog: 0, wanted_per_second: 1.0, elapsed_ns: 1 };
        assert_eq!(check(none).verdict, Verdict::NotJudged);
        assert_eq!(check(Arrivals { scheduled: 1, issued: 1, elapsed_ns: 0, ..none }).verdict, Verdict::NotJudged);
        let no_rate = Arrivals { scheduled: 1, issued: 1, wanted_per_second: 0.0, ..none };
        assert_eq!(check(no_rate).verdict, Verdict::NotJudged);
    }
}
