//! The zero of a trace whose first entry is not its earliest: volumes one behind the other, requests in the order of their ends, a slip at the begin.

use crate::{Faults, Knows, Names, Request, Source, TraceError};

/// Requests among which the earliest is looked for.
const WINDOW: usize = 1 << 16;
/// A time so far before all others may be a slip.
const BEFORE_NS: i64 = 3600 * 1_000_000_000;
/// One request in so many, at most, may be one.
const SLIPS_ONE_IN: usize = 100;

/// Times from the earliest among the first 65,536 requests on, of a source whose times count from its first request and are negative before it, in two's
/// complement ([`super::clock::Clock::around_first`]).
pub(super) struct FromEarliest<S> {
    source: S,
    batch: Vec<Request>,
    /// At most 0; unknown until the window has been read.
    zero_ns: Option<i64>,
    /// Before it, and so taken to be at it.
    clamped: u64,
    is_over: bool,
}

impl<S: Source> FromEarliest<S> {
    pub fn new(source: S) -> Self {
        Self { source, batch: Vec::new(), zero_ns: None, clamped: 0, is_over: false }
    }
}

/// The earliest time that is no slip, where it lies before the first.
fn zero_ns(requests: &[Request]) -> i64 {
    let mut times: Vec<i64> = requests.iter().map(|request| request.issued_ns as i64).collect();
    times.sort_unstable();
    let slips = times.len() / SLIPS_ONE_IN;
    let gap = times.windows(2).take(slips).rposition(|pair| pair[1] - pair[0] > BEFORE_NS);
    times.get(gap.map_or(0, |last_slip| last_slip + 1)).map_or(0, |&earliest| earliest.min(0))
}

impl<S: Source> Source for FromEarliest<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let mut read = Ok(!self.is_over);
        while !self.is_over {
            read = self.source.read(&mut self.batch, names);
            // What was read before an error is handed out with it.
            self.is_over = !matches!(read, Ok(true));
            if self.zero_ns.is_some() || self.batch.len() >= WINDOW {
                break;
            }
        }
        let zero_ns = *self.zero_ns.get_or_insert_with(|| zero_ns(&self.batch));
        for mut request in self.batch.drain(..) {
            let since_ns = request.issued_ns as i64 - zero_ns;
            self.clamped += u64::from(since_ns < 0);
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
        if let Some(zero_ns) = self.zero_ns.filter(|&zero_ns| zero_ns < 0) {
            let seconds = zero_ns.unsigned_abs() as f64 / 1e9;
            notes.push(format!("the first request is not the earliest: times count from one {seconds:.3} s before it"));
        }
        if self.clamped > 0 {
            notes.push(format!(
                "{} requests lie before the begin, far before all others or behind 65,536 later ones: they were taken as issued at the begin, and \
                 gaps and rates are not to be relied upon",
                self.clamped
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

    /// All requests of a second volume that began half an hour before the first stood at one instant, and nothing said so.
    #[test]
    fn regression_a_volume_that_begins_before_the_first_keeps_its_times() {
        let times: Vec<i64> = (0..1800).chain((0..1800).map(|at| at - 1800)).map(|at| at * 1_000_000_000).collect();
        let (found, notes) = all(&times);
        assert!(found.iter().zip(&times).all(|(found, given)| *found == given + 1800 * 1_000_000_000));
        assert!(notes.len() == 1 && notes[0].contains("1800.000 s before"), "{notes:?}");
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
        // The first is a year ahead, so all others lie a year before it.
        let times: Vec<i64> = (0..500).map(|at| if at == 0 { 0 } else { at * 1000 - year_ns }).collect();
        let (found, _) = all(&times);
        assert_eq!((found[0], found[1], found[499]), (year_ns - 1000, 0, 498_000));
    }
}
