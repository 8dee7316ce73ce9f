use super::*;
use crate::{Op, Sorted, Steady, generate};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the source ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    Error,
    Panic,
}

/// A source of `count` batches of three requests, each with its own names, faults and notes.
struct Batches {
    given: usize,
    count: usize,
    end: End,
    faults: Faults,
    /// Number of batches read, shared with the test.
    read: Arc<AtomicUsize>,
}

fn batches(count: usize, end: End) -> Batches {
    Batches { given: 0, count, end, faults: Faults::default(), read: Arc::default() }
}

impl Source for Batches {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        if self.given == self.count {
            return Ok(false);
        }
        self.given += 1;
        self.read.fetch_add(1, Ordering::Relaxed);
        let (place, is_last) = (self.given as u64, self.given == self.count);
        for at in 0..3 {
            let mut request = Request::new(place, Op::Write, at, 4096);
            request.volume = names.volumes.number(&format!("volume {}", place / 4));
            request.path = names.paths.number(&format!("path {place} {at}"));
            // Set again to another value, as a source may do.
            names.levels.set(request.path - request.path % 2, (place % 7) as u8);
            into.push(request);
        }
        self.faults.note(place, || format!("fault {place}"));
        match self.end {
            End::Panic if is_last => panic!("as the test wants it"),
            End::Error if is_last => Err(TraceError::Read { offset_bytes: place, source: ErrorKind::Other.into() }),
            _ => Ok(!is_last),
        }
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows { op: true, time: self.given > 2, ..Knows::default() }
    }

    fn notes(&self) -> Vec<String> {
        vec![format!("{} batches", self.given)]
    }
}

/// Everything that a source reports, for at most `most` batches, and also after its end.
fn seen(source: &mut impl Source, most: usize) -> Vec<String> {
    let (mut names, mut seen, mut ends) = (Names::default(), Vec::new(), 0);
    names.volumes.number("there before");
    while ends < 3 && seen.len() < most {
        let mut requests = Vec::new();
        let read = source.read(&mut requests, &mut names);
        ends += usize::from(!matches!(read, Ok(true)));
        let all: Vec<Vec<String>> = [&names.volumes, &names.processes, &names.paths]
            .map(|table| table.iter().map(str::to_owned).collect())
            .into();
        let levels: Vec<_> = (0..names.paths.count() as u32).map(|path| names.levels.get(path)).collect();
        let (faults, knows, notes) = (source.faults(), source.knows(), source.notes());
        seen.push(format!("{requests:?} {read:?} {all:?} {levels:?} {faults:?} {knows:?} {notes:?}"));
    }
    seen
}

#[test]
fn what_is_read_ahead_is_what_would_be_read() {
    for count in [1, 2, BATCHES, 3 * BATCHES + 1] {
        for end in [End::Whole, End::Error] {
            for most in [1, 3, usize::MAX] {
                let wanted = seen(&mut batches(count, end), most);
                assert_eq!(seen(&mut Ahead::new(batches(count, end)), most), wanted, "{count} {end:?} {most}");
            }
        }
    }
    let generator = || Sorted::new(Steady::new(generate::open("rocksdb:?scale=0.001").unwrap().unwrap()));
    assert!(seen(&mut Ahead::new(generator()), 30) == seen(&mut generator(), 30));
}

#[test]
fn requests_are_appended() {
    let (mut requests, mut names, mut source) = (Vec::new(), Names::default(), Ahead::new(batches(9, End::Whole)));
    while source.read(&mut requests, &mut names).unwrap() {}
    let times: Vec<u64> = requests.iter().map(|request| request.issued_ns).collect();
    assert_eq!(times, (1..10).flat_map(|at| [at; 3]).collect::<Vec<_>>());
}

#[test]
fn whoever_stops_early_waits_for_nothing_and_little_was_read_ahead() {
    let source = batches(1_000_000, End::Whole);
    let read = source.read.clone();
    let mut source = Ahead::new(source);
    seen(&mut source, 2);
    drop(source);
    // The thread ends with the batch that it is reading, and drops the source.
    while Arc::strong_count(&read) > 1 {
        std::thread::yield_now();
    }
    assert!(read.load(Ordering::Relaxed) <= 2 + BATCHES, "{read:?}");
}

#[test]
fn a_panic_of_the_reader_is_one_of_whoever_reads() {
    for count in [1, 7] {
        let mut source = Ahead::new(batches(count, End::Panic));
        let (mut requests, mut names) = (Vec::new(), Names::default());
        let panicked = catch_unwind(AssertUnwindSafe(|| while source.read(&mut requests, &mut names).unwrap() {}));
        let what = panicked.unwrap_err();
        assert_eq!(what.downcast_ref(), Some(&"as the test wants it"));
        assert_eq!(requests.len(), 3 * (count - 1), "what was read before it was handed out");
    }
}
