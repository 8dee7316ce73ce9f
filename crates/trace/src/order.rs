//! Sorts requests by their times, as far as a window of the trace allows, and corrects outliers.

use crate::{BATCH_REQUESTS, Faults, Knows, Names, Request, Source, TraceError};
use std::collections::{BTreeMap, VecDeque};

/// A time this much after the previous one is examined, because it may be an outlier.
const AHEAD_NS: u64 = 3600 * 1_000_000_000;
/// Number of later requests by which it is judged.
const JUDGES: usize = 64;
/// Fewest later requests by which the first one is judged.
const FIRST_JUDGES_MIN: usize = 8;
/// The last request is an outlier if it lies farther ahead than this, and than this many times the duration of all before it.
const LAST_AHEAD: (u64, u64) = (24 * AHEAD_NS, 10);
/// Number of requests among which is sorted.
const WINDOW: usize = 1 << 16;
/// Most vectors that are kept for reuse.
const SPARE_MAX: usize = 32;

/// Corrects outliers of a source, times far ahead of what follows: a single time a year ahead would turn an hour into a year.
///
/// A time is an outlier if it is more than an hour after the previous one, and three of four of the next 64 requests are near the previous
/// one. Such a request gets the time of the previous one. The first request is judged only by those behind it, the last by the duration of
/// all before it.
pub struct Steady<S> {
    source: S,
    waiting: VecDeque<Request>,
    batch: Vec<Request>,
    first_ns: u64,
    last_ns: Option<u64>,
    slips: u64,
    /// How far ahead the farthest outlier was.
    farthest_ns: u64,
    is_over: bool,
}

impl<S: Source> Steady<S> {
    /// Corrects the times of `source`.
    pub fn new(source: S) -> Self {
        let (waiting, batch) = (VecDeque::new(), Vec::new());
        Self { source, waiting, batch, first_ns: u64::MAX, last_ns: None, slips: 0, farthest_ns: 0, is_over: false }
    }

    /// Passes on the requests at the front that are not far ahead of the previous one, as nearly all are, except the last `kept`.
    fn take_steady(&mut self, kept: usize, into: &mut Vec<Request>) {
        let Some(mut last_ns) = self.last_ns else { return };
        let (front, _) = self.waiting.as_slices();
        let front = &front[..front.len().min(self.waiting.len().saturating_sub(kept))];
        let (mut first_ns, mut count) = (self.first_ns, 0);
        for request in front {
            if request.issued_ns.saturating_sub(last_ns) > AHEAD_NS {
                break;
            }
            last_ns = request.issued_ns;
            first_ns = first_ns.min(last_ns);
            count += 1;
        }
        into.extend_from_slice(&front[..count]);
        self.waiting.drain(..count);
        (self.last_ns, self.first_ns) = (Some(last_ns), first_ns);
    }

    /// The time of a request, corrected if it is an outlier.
    fn steady_ns(&self, issued_ns: u64) -> u64 {
        let Some(last_ns) = self.last_ns else { return self.first_steady_ns(issued_ns) };
        let ahead_ns = issued_ns.saturating_sub(last_ns);
        let is_last = self.is_over && self.waiting.is_empty();
        let of_all_ns = last_ns.saturating_sub(self.first_ns).saturating_mul(LAST_AHEAD.1);
        let is_slip = match is_last {
            true => ahead_ns > LAST_AHEAD.0.max(of_all_ns),
            false => ahead_ns > AHEAD_NS && self.is_slip(issued_ns, last_ns),
        };
        if is_slip { last_ns } else { issued_ns }
    }

    /// The corrected time of the first request: nothing precedes it, so three of four requests behind it decide.
    fn first_steady_ns(&self, issued_ns: u64) -> u64 {
        let judges = self.waiting.iter().take(JUDGES).map(|other| other.issued_ns);
        let before = judges.clone().filter(|other_ns| other_ns.saturating_add(AHEAD_NS) < issued_ns);
        let count = judges.clone().count();
        let is_slip = count >= FIRST_JUDGES_MIN && before.clone().count() * 4 >= count * 3;
        if is_slip { before.min().unwrap_or(issued_ns) } else { issued_ns }
    }

    fn is_slip(&self, issued_ns: u64, last_ns: u64) -> bool {
        let (low, high) = (last_ns.saturating_sub(AHEAD_NS), issued_ns - AHEAD_NS);
        let judges = self.waiting.iter().take(JUDGES);
        let behind = judges.clone().filter(|other| (low..high).contains(&other.issued_ns)).count();
        behind > 0 && behind * 4 >= judges.count() * 3
    }
}

impl<S: Source> Source for Steady<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let mut read = Ok(true);
        while !self.is_over && self.waiting.len() <= JUDGES {
            read = self.source.read(&mut self.batch, names);
            // Requests read before an error are passed on first.
            self.is_over = !matches!(read, Ok(true));
            self.waiting.extend(self.batch.drain(..));
        }
        let kept = if self.is_over { 0 } else { JUDGES };
        self.take_steady(kept.max(1), into);
        while self.waiting.len() > kept {
            let Some(mut request) = self.waiting.pop_front() else { break };
            let steady_ns = self.steady_ns(request.issued_ns);
            if steady_ns < request.issued_ns {
                self.slips += 1;
                self.farthest_ns = self.farthest_ns.max(request.issued_ns - steady_ns);
                request.issued_ns = steady_ns;
            }
            self.first_ns = self.first_ns.min(steady_ns);
            self.last_ns = Some(steady_ns);
            into.push(request);
        }
        read.map(|_| !self.is_over)
    }

    fn faults(&self) -> &Faults {
        self.source.faults()
    }

    fn knows(&self) -> Knows {
        self.source.knows()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes();
        if self.slips > 0 {
            notes.push(format!(
                "{} {} far ahead of those around {}, the farthest by {}: {} taken as issued with the request before",
                self.slips,
                if self.slips == 1 { "time lies" } else { "times lie" },
                if self.slips == 1 { "it" } else { "them" },
                match self.farthest_ns / AHEAD_NS {
                    1 => "an hour".to_owned(),
                    hours => format!("{hours} hours"),
                },
                if self.slips == 1 { "it was" } else { "they were" },
            ));
        }
        notes
    }
}

/// Requests in order of time, of which `gone` have been passed on.
struct Batch {
    requests: Vec<Request>,
    gone: usize,
}

/// Sorts the requests of a source by time, each among the 65,536 around it.
pub struct Sorted<S> {
    source: S,
    /// Requests that came in order, as most do: batches, and the number of requests in them.
    in_order: VecDeque<Batch>,
    in_order_count: usize,
    /// Requests that came after a later one, by time, and with equal times by order of arrival.
    late: BTreeMap<(u64, u64), Request>,
    batch: Vec<Request>,
    /// Vectors of earlier batches, for reuse.
    spare: Vec<Vec<Request>>,
    latest_ns: u64,
    moved: u64,
    /// Time of the last request passed on, and the number of requests that arrived after it but belong before it.
    handed_ns: u64,
    too_late: u64,
    is_over: bool,
    /// The error that ended the source; reported with the last requests.
    error: Option<TraceError>,
}

impl<S: Source> Sorted<S> {
    /// Sorts the requests of `source`.
    pub fn new(source: S) -> Self {
        let (in_order, late, batch, spare) = (VecDeque::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Self {
            source,
            in_order,
            in_order_count: 0,
            late,
            batch,
            spare,
            latest_ns: 0,
            moved: 0,
            handed_ns: 0,
            too_late: 0,
            is_over: false,
            error: None,
        }
    }

    /// Takes the earliest request. With equal times, requests that came in order precede those that came late.
    fn pop_first(&mut self) -> Option<Request> {
        let first = self.in_order.front().map(|batch| batch.requests[batch.gone]);
        match (first, self.late.first_key_value()) {
            (Some(first), Some((&(late_ns, _), _))) if late_ns < first.issued_ns => {
                self.late.pop_first().map(|(_, request)| request)
            }
            (Some(first), _) => {
                self.take_in_order(1);
                Some(first)
            }
            (None, _) => self.late.pop_first().map(|(_, request)| request),
        }
    }

    /// Counts `count` requests of the first batch as passed on.
    fn take_in_order(&mut self, count: usize) {
        self.in_order_count -= count;
        let Some(batch) = self.in_order.front_mut() else { return };
        batch.gone += count;
        if batch.gone == batch.requests.len()
            && let Some(Batch { mut requests, .. }) = self.in_order.pop_front()
        {
            requests.clear();
            self.keep(requests);
        }
    }

    /// Keeps the vector of a batch for reuse.
    fn keep(&mut self, requests: Vec<Request>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(requests);
        }
    }

    /// Takes the requests of the source; a batch that is in order is kept as it is.
    fn sort_batch(&mut self) {
        let mut in_order = std::mem::replace(&mut self.batch, self.spare.pop().unwrap_or_default());
        let is_in_order = in_order.first().is_none_or(|first| first.issued_ns >= self.latest_ns)
            && in_order.is_sorted_by_key(|request| request.issued_ns);
        if is_in_order {
            self.latest_ns = in_order.last().map_or(self.latest_ns, |last| last.issued_ns);
        } else {
            in_order.retain(|request| {
                let is_late = request.issued_ns < self.latest_ns;
                if is_late {
                    self.late.insert((request.issued_ns, self.moved), *request);
                    self.moved += 1;
                } else {
                    self.latest_ns = request.issued_ns;
                }
                !is_late
            });
            // If most requests came late, a whole batch would be held for the few others.
            if in_order.len() * 2 < in_order.capacity() {
                in_order.shrink_to_fit();
            }
        }
        self.in_order_count += in_order.len();
        if in_order.is_empty() {
            self.keep(in_order);
        } else {
            self.in_order.push_back(Batch { requests: in_order, gone: 0 });
        }
    }
}

impl<S: Source> Source for Sorted<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        if !self.is_over {
            let read = self.source.read(&mut self.batch, names);
            self.is_over = !matches!(read, Ok(true));
            self.error = read.err();
            self.sort_batch();
        }
        // At the end everything is passed on, about as many at a time as before.
        let held = self.in_order_count + self.late.len();
        let kept = if self.is_over { held.saturating_sub(BATCH_REQUESTS) } else { WINDOW };
        while self.late.is_empty() && self.in_order_count > kept {
            let Some(batch) = self.in_order.front() else { break };
            let rest = &batch.requests[batch.gone..];
            let ready = &rest[..rest.len().min(self.in_order_count - kept)];
            self.handed_ns = ready.last().map_or(self.handed_ns, |last| last.issued_ns);
            into.extend_from_slice(ready);
            let count = ready.len();
            self.take_in_order(count);
        }
        while self.in_order_count + self.late.len() > kept {
            let Some(request) = self.pop_first() else { break };
            if request.issued_ns < self.handed_ns {
                self.too_late += 1;
            } else {
                self.handed_ns = request.issued_ns;
            }
            into.push(request);
        }
        if self.is_over && kept > 0 {
            return Ok(true);
        }
        self.error.take().map_or(Ok(!self.is_over), Err)
    }

    fn faults(&self) -> &Faults {
        self.source.faults()
    }

    fn knows(&self) -> Knows {
        self.source.knows()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes();
        let requests = |count: u64| if count == 1 { "1 request".to_owned() } else { format!("{count} requests") };
        let were = |count: u64| if count == 1 { "was" } else { "were" };
        // Before the end, some more requests may turn out to be too late.
        let sorted = self.moved.saturating_sub(self.too_late);
        if sorted > 0 {
            let (requests, were) = (requests(sorted), were(sorted));
            notes.push(format!("{requests} came out of the order of their times, and {were} sorted"));
        }
        if self.too_late > 0 {
            let (requests, were) = (requests(self.too_late), were(self.too_late));
            notes.push(format!("{requests} came more than {WINDOW} behind their place, and {were} not sorted"));
        }
        notes
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        (**self).read(into, names)
    }

    fn faults(&self) -> &Faults {
        (**self).faults()
    }

    fn knows(&self) -> Knows {
        (**self).knows()
    }

    fn notes(&self) -> Vec<String> {
        (**self).notes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::Op;

    const HOUR_NS: u64 = AHEAD_NS;

    /// Requests at these times, returned by sevens, each with its number as its offset.
    struct Times {
        times_ns: VecDeque<u64>,
        number: u64,
        faults: Faults,
    }

    fn times(times_ns: impl IntoIterator<Item = u64>) -> Times {
        Times { times_ns: times_ns.into_iter().collect(), number: 0, faults: Faults::default() }
    }

    impl Source for Times {
        fn read(&mut self, into: &mut Vec<Request>, _: &mut Names) -> Result<bool, TraceError> {
            for _ in 0..7 {
                let Some(time_ns) = self.times_ns.pop_front() else { break };
                into.push(Request::new(time_ns, Op::Write, self.number, 1));
                self.number += 1;
            }
            Ok(!self.times_ns.is_empty())
        }

        fn faults(&self) -> &Faults {
            &self.faults
        }

        fn knows(&self) -> Knows {
            Knows { time: true, ..Knows::default() }
        }
    }

    fn all(mut source: impl Source) -> (Vec<Request>, Vec<String>) {
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while source.read(&mut requests, &mut names).unwrap() {}
        (requests, source.notes())
    }

    /// A volume whose clock is ahead makes all other requests late: each few of its requests held a whole batch.
    #[test]
    fn regression_no_batch_is_held_for_the_few_of_it_that_come_in_order() {
        let all = (0..20_000).map(|at| if at % 50 == 0 { at + HOUR_NS / 2 } else { at });
        let mut sorted = Sorted::new(times(all));
        let (mut got, mut names) = (Vec::new(), Names::default());
        while sorted.read(&mut got, &mut names).unwrap() {
            let held: usize = sorted.in_order.iter().map(|batch| batch.requests.capacity()).sum();
            assert!(held <= 2 * sorted.in_order_count + 8, "{held} for {}", sorted.in_order_count);
        }
        assert_eq!(got.len(), 20_000);
    }

    /// Everything kept for sorting came in one piece of 65,536 requests.
    #[test]
    fn regression_the_end_comes_in_batches_and_an_error_behind_all_of_it() {
        /// Fails at its end.
        struct Failing(Times);

        impl Source for Failing {
            fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
                let source = std::io::ErrorKind::Other.into();
                if self.0.read(into, names)? { Ok(true) } else { Err(TraceError::Read { offset_bytes: 0, source }) }
            }

            fn faults(&self) -> &Faults {
                self.0.faults()
            }

            fn knows(&self) -> Knows {
                self.0.knows()
            }
        }

        for late in [0, 1] {
            let mut sorted = Sorted::new(Failing(times((0..20_000).map(|at| at ^ late))));
            let (mut got, mut names, mut all) = (Vec::new(), Names::default(), Vec::new());
            let error = loop {
                let read = sorted.read(&mut got, &mut names);
                assert!(got.len() <= BATCH_REQUESTS);
                all.extend(got.drain(..).map(|request| request.issued_ns));
                if let Err(error) = read {
                    break error;
                }
            };
            assert!(matches!(error, TraceError::Read { .. }));
            assert!(all.iter().copied().eq(0..20_000));
            assert!(!sorted.read(&mut got, &mut names).unwrap() && got.is_empty());
        }
    }

    #[test]
    fn regression_a_time_a_year_ahead_does_not_make_a_year() {
        let year_ns = 365 * 24 * HOUR_NS;
        let given: Vec<u64> =
            (0..1000).map(|at| if at == 500 || at == 501 { year_ns } else { at * 1_000_000 }).collect();
        let (requests, notes) = all(Steady::new(times(given)));
        assert_eq!(requests.len(), 1000);
        assert!(requests.iter().all(|request| request.issued_ns < 1_000_000_000));
        assert_eq!((requests[500].issued_ns, requests[501].issued_ns), (499_000_000, 499_000_000));
        assert!(notes[0].starts_with("2 times lie far ahead") && notes[0].contains("8759 hours"), "{notes:?}");
    }

    /// If the first or the last time of a trace was a year ahead, nothing but that year was visible.
    #[test]
    fn regression_the_first_and_the_last_time_are_judged_too() {
        let year_ns = 365 * 24 * HOUR_NS;
        for slip in [0, 999] {
            let given = (0..1000).map(|at| if at == slip { year_ns } else { at * 1_000_000 });
            let (requests, notes) = all(Steady::new(times(given)));
            assert_eq!(requests.len(), 1000);
            assert!(requests.iter().all(|request| request.issued_ns < 1_000_000_000), "{slip}");
            assert!(notes[0].starts_with("1 time lies far ahead"), "{notes:?}");
        }
        // A request in the next night is a request, not an outlier.
        let (requests, notes) = all(Steady::new(times((0..100).chain([20 * HOUR_NS]))));
        assert!(requests[100].issued_ns == 20 * HOUR_NS && notes.is_empty());
    }

    #[test]
    fn a_night_without_requests_is_none_and_neither_is_the_next_volume() {
        let night = (0..200).map(|at| if at < 100 { at } else { 9 * HOUR_NS + at });
        let (requests, notes) = all(Steady::new(times(night.clone())));
        assert!(requests.iter().map(|request| request.issued_ns).eq(night) && notes.is_empty());
        // Volumes one after the other; the first ends with a few requests after a pause.
        let volumes = (0..300).map(|at| match at {
            0..200 => 100 * HOUR_NS + at,
            200..210 => 103 * HOUR_NS + at,
            _ => at,
        });
        let (requests, notes) = all(Steady::new(times(volumes.clone())));
        assert!(requests.iter().map(|request| request.issued_ns).eq(volumes) && notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn regression_requests_in_the_order_of_their_ends_are_sorted() {
        // Recorded by completion, as for the desktops: every third request is slow, and so comes late.
        let given: Vec<u64> =
            (0..3000_u64).map(|at| if at % 3 == 2 { at * 100 - 3500 * u64::from(at > 60) } else { at * 100 }).collect();
        let (requests, notes) = all(Sorted::new(times(given.clone())));
        assert!(requests.is_sorted_by_key(|request| request.issued_ns));
        let mut sorted = given;
        sorted.sort_unstable();
        assert!(requests.iter().map(|request| request.issued_ns).eq(sorted));
        assert!(notes[0].contains("sorted"), "{notes:?}");
        // Requests with equal times keep their order.
        let (requests, notes) = all(Sorted::new(times([5, 5, 5, 1, 5])));
        assert!(requests.iter().map(|request| request.offset_bytes).eq([3, 0, 1, 2, 4]) && notes.len() == 1);
    }

    /// A request that came 70,000 too late was reported as sorted.
    #[test]
    fn regression_what_cannot_be_sorted_is_not_said_to_be() {
        let count = WINDOW as u64 + 5000;
        let (_, notes) = all(Sorted::new(times((0..count).map(|at| at + 10).chain([3]))));
        assert_eq!(notes, [format!("1 request came more than {WINDOW} behind their place, and was not sorted")]);
        let (_, notes) = all(Sorted::new(times((0..count).map(|at| at + 10).chain([3, 4, count]))));
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].starts_with("1 request came out of the order") && notes[0].ends_with("was sorted"),
            "{notes:?}"
        );
        assert!(notes[1].starts_with("2 requests") && notes[1].ends_with("were not sorted"), "{notes:?}");
    }

    #[test]
    fn regression_an_hour_is_not_1_hours() {
        let given = (0..100).map(|at| if at == 50 { HOUR_NS + HOUR_NS / 2 } else { at });
        let (_, notes) = all(Steady::new(times(given)));
        assert!(notes[0].contains("the farthest by an hour: it was taken"), "{notes:?}");
    }

    proptest::proptest! {
        #[test]
        fn sorted_is_sorted_and_stable(times_ns in proptest::collection::vec(0_u64..50, 0..300)) {
            let mut expected: Vec<(u64, u64)> = times_ns.iter().copied().zip(0..).collect();
            expected.sort_by_key(|(time_ns, _)| *time_ns);
            let (requests, _) = all(Sorted::new(times(times_ns)));
            let found = requests.iter().map(|request| (request.issued_ns, request.offset_bytes));
            proptest::prop_assert!(found.eq(expected));
        }
    }
}
