//! Finds the zero of a trace whose first entry is not the earliest, or lies far before all others: volumes one after the other, requests in
//! the order of their completions, a wrong time at the beginning.

use crate::{Faults, Knows, Names, Request, Source, TraceError};

/// Number of requests among which the earliest is searched.
const WINDOW: usize = 1 << 16;
/// Distance from which a time before all others may be an outlier.
const BEFORE_NS: i64 = 3600 * 1_000_000_000;
/// At most one request in this many may be an outlier.
const SLIPS_ONE_IN: usize = 100;

/// Makes times count from the earliest among the first 65,536 requests. The source's times count from its first request, and are negative
/// before it, in two's complement ([`super::clock::Clock::around_first`]).
pub(super) struct FromEarliest<S> {
    source: S,
    batch: Vec<Request>,
    /// Whether the source's zero is just its first time, which may be an outlier too.
    is_first_judged: bool,
    /// `None` until the window has been read.
    zero: Option<Zero>,
    /// Number of requests after the window that lie before the zero, and are set to it.
    late: u64,
    is_over: bool,
}

/// Where the times of a trace begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Zero {
    /// Time since the first request; negative before it.
    at_ns: i64,
    /// Number of requests in the window that lie before the zero, and are set to it.
    slips: u64,
    /// Time from the last of these to the zero.
    gap_ns: u64,
}

impl<S: Source> FromEarliest<S> {
    /// For a source whose zero is its first time.
    pub fn new(source: S) -> Self {
        Self { source, batch: Vec::new(), is_first_judged: true, zero: None, late: 0, is_over: false }
    }

    /// For a source whose zero is defined, unless requests lie before it.
    pub fn with_own_zero(source: S) -> Self {
        Self { is_first_judged: false, ..Self::new(source) }
    }
}

/// The earliest time that is no outlier.
fn zero(requests: &[Request], is_first_judged: bool) -> Zero {
    let mut times: Vec<i64> = requests.iter().map(|request| request.issued_ns as i64).collect();
    times.sort_unstable();
    let most = times.len() / SLIPS_ONE_IN;
    let last_slip = times.windows(2).take(most).rposition(|pair| pair[1] - pair[0] > BEFORE_NS);
    let earliest = Zero { at_ns: times.first().map_or(0, |&first| first.min(0)), slips: 0, gap_ns: 0 };
    last_slip.map_or(earliest, |last_slip| {
        let at_ns = if is_first_judged { times[last_slip + 1] } else { times[last_slip + 1].min(0) };
        let slips = times.partition_point(|&time| time < at_ns);
        let gap_ns = slips.checked_sub(1).map_or(0, |last| at_ns.abs_diff(times[last]));
        Zero { at_ns, slips: slips as u64, gap_ns }
    })
}

/// "1 request lies", or "2 requests lie".
fn requests_lie(count: u64) -> String {
    if count == 1 { "1 request lies".to_owned() } else { format!("{count} requests lie") }
}

impl<S: Source> Source for FromEarliest<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let mut read = Ok(!self.is_over);
        while !self.is_over {
            read = self.source.read(&mut self.batch, names);
            // Requests read before an error are passed on first.
            self.is_over = !matches!(read, Ok(true));
            if self.zero.is_some() || self.batch.len() >= WINDOW {
                break;
            }
        }
        let is_window = self.zero.is_none();
        let zero = *self.zero.get_or_insert_with(|| zero(&self.batch, self.is_first_judged));
        for mut request in self.batch.drain(..) {
            let since_ns = request.issued_ns as i64 - zero.at_ns;
            self.late += u64::from(since_ns < 0 && !is_window);
            request.issued_ns = since_ns.max(0) as u64;
            into.push(request);
        }
        read
    }

    fn faults(&self) -> &Faults {
        self.source.faults()
    }

    fn knows(&self) -> Knows {
        self.source.knows()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes();
        let Some(Zero { at_ns, slips, gap_ns }) = self.zero else { return notes };
        if at_ns < 0 {
            let seconds = at_ns.unsigned_abs() as f64 / 1e9;
            notes.push(if self.is_first_judged {
                format!("the first request is not the earliest: times count from one {seconds:.3} s before it")
            } else {
                format!(
                    "requests were issued before the zero of the trace: times count from one {seconds:.6} s before it"
                )
            });
        }
        if slips > 0 {
            notes.push(format!(
                "{} before the begin, {:.1} hours before all others: taken for a slip of the clock, and as issued at the begin; if it was a pause, \
                 gaps, rates and the duration leave it out",
                requests_lie(slips),
                gap_ns as f64 / BEFORE_NS as f64
            ));
        }
        if self.late > 0 {
            notes.push(format!(
                "{} before the begin, behind 65,536 later ones: taken as issued at the begin, and gaps and rates are not to be relied upon",
                requests_lie(self.late)
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Op;

    const HOUR_NS: i64 = BEFORE_NS;

    struct Times(Vec<i64>, usize, Faults);

    impl Source for Times {
        fn read(&mut self, into: &mut Vec<Request>, _: &mut Names) -> Result<bool, TraceError> {
            let end = (self.1 + 1000).min(self.0.len());
            into.extend(self.0[self.1..end].iter().map(|&time_ns| Request::new(time_ns as u64, Op::Read, 0, 512)));
            self.1 = end;
            Ok(end < self.0.len())
        }

        fn faults(&self) -> &Faults {
            &self.2
        }

        fn knows(&self) -> Knows {
            Knows::default()
        }
    }

    fn all(times_ns: &[i64]) -> (Vec<i64>, Vec<String>) {
        let mut source = FromEarliest::new(Times(times_ns.to_vec(), 0, Faults::default()));
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while source.read(&mut requests, &mut names).unwrap() {}
        (requests.iter().map(|request| request.issued_ns as i64).collect(), source.notes())
    }

    /// All requests of a second volume, which began half an hour before the first, got the same time, without notice.
    #[test]
    fn regression_a_volume_that_begins_before_the_first_keeps_its_times() {
        let times: Vec<i64> = (0..1800).chain((0..1800).map(|at| at - 1800)).map(|at| at * 1_000_000_000).collect();
        let (found, notes) = all(&times);
        assert!(found.iter().zip(&times).all(|(found, given)| *found == given + 1800 * 1_000_000_000));
        assert!(notes.len() == 1 && notes[0].contains("1800.000 s before"), "{notes:?}");
    }

    /// One request at the beginning with a time months before all others made the trace that long, without notice.
    #[test]
    fn regression_a_slip_back_at_first_place_is_no_begin() {
        for (slips, requests) in [(1, 100), (3, 300), (3, 5000)] {
            let months_ns = 300 * 24 * HOUR_NS;
            let times: Vec<i64> = (0..requests).map(|at| if at < slips { at } else { at + months_ns }).collect();
            let (found, notes) = all(&times);
            let given: Vec<i64> = times.iter().map(|&time| (time - months_ns - slips).max(0)).collect();
            assert_eq!(found, given);
            let lie = if slips == 1 { "1 request lies" } else { "3 requests lie" };
            assert!(notes.len() == 1 && notes[0].starts_with(lie) && notes[0].contains("7200.0 hours"), "{notes:?}");
        }
    }

    /// More than one in a hundred are no outliers, and an hour is no outlier either: there is a pause after them.
    #[test]
    fn a_pause_behind_the_first_requests_stays() {
        for (before, requests, pause_ns) in [(1, 99, 48 * HOUR_NS), (2, 199, 48 * HOUR_NS), (1, 5000, HOUR_NS - 1)] {
            let times: Vec<i64> = (0..requests).map(|at| if at < before { at } else { at + pause_ns }).collect();
            assert_eq!(all(&times), (times, Vec::new()));
        }
    }

    #[test]
    fn a_source_that_counts_from_a_zero_of_its_own_keeps_it() {
        let times: Vec<i64> = (0..500).map(|at| if at == 0 { 5 } else { at + 48 * HOUR_NS }).collect();
        let mut source = FromEarliest::with_own_zero(Times(times.clone(), 0, Faults::default()));
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while source.read(&mut requests, &mut names).unwrap() {}
        let found: Vec<i64> = requests.iter().map(|request| request.issued_ns as i64).collect();
        assert_eq!((found, source.notes()), (times, Vec::new()));
    }

    #[test]
    fn what_is_in_order_stays_and_what_comes_too_late_is_said() {
        let times: Vec<i64> = (0..100_000).collect();
        assert_eq!(all(&times), (times.clone(), Vec::new()));
        let late: Vec<i64> = times.iter().copied().chain([-5, -6]).collect();
        let (found, notes) = all(&late);
        assert_eq!((&found[..100_000], &found[100_000..]), (&times[..], &[0, 0][..]));
        assert!(notes[0].starts_with("2 requests lie before the begin"), "{notes:?}");
        assert_eq!(all(&[]), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_slip_back_is_no_begin_and_one_ahead_at_first_place_moves_it() {
        let year_ns = 365 * 24 * HOUR_NS;
        let mut times: Vec<i64> = (0..500).map(|at| at * 1000).collect();
        times[200] = -year_ns;
        let (found, notes) = all(&times);
        assert_eq!((found[200], found[499], notes.len()), (0, 499_000, 1));
        // The first time is a year ahead, so all others lie a year before it.
        let times: Vec<i64> = (0..500).map(|at| if at == 0 { 0 } else { at * 1000 - year_ns }).collect();
        let (found, _) = all(&times);
        assert_eq!((found[0], found[1], found[499]), (year_ns - 1000, 0, 498_000));
    }
}
