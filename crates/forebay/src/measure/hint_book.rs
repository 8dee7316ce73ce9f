//! Carries a trace's knowledge of its requests to a pool in this process. A measured I/O has room for a number only
//! ([`forebay_block::Io::hint`]); the book maps the numbers to hints.

use forebay_bench::job::model::Evidence;
use forebay_block::{Io, lock};
use forebay_prism::{HostFacts, HostHints, Lifetime};
use forebay_trace::{Flags, Knows, Names, Op, Request};
use forebay_volume::{HintPart, HintParts};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum number of entries, of some 250 bytes each; the pool gets no hints beyond that. It equals the maximum number of file names in a
/// trace.
const ENTRIES_MAX: usize = 1 << 20;

/// Marks that distinguish requests here.
const MARKS: u16 = Flags::META.0 | Flags::SWAP.0 | Flags::DIRECT.0;

/// Hints by number, where number 1 is the first entry. Each target has one book, shared by its queues and by the readers of its traces.
#[derive(Debug, Default)]
pub struct HintBook {
    entries: Mutex<Vec<HostHints>>,
}

impl HintBook {
    fn entries(&self) -> MutexGuard<'_, Vec<HostHints>> {
        // Entries are pushed whole.
        lock(&self.entries)
    }

    /// The hints of an I/O for the pool; `None` where there are none.
    pub(super) fn parts(&self, io: &Io) -> Option<Box<HintParts>> {
        let at = io.hint.checked_sub(1)?;
        let hints = self.entries().get(at as usize)?.clone();
        let blocks = (io.offset_bytes + u64::from(io.len_bytes)).div_ceil(4096) - io.offset_bytes / 4096;
        Some(Box::new(HintParts::from_iter([HintPart { blocks, hints }])))
    }

    /// Clears the book, while no I/O that refers to it is in flight, for the next run.
    pub(super) fn clear(&self) {
        self.entries().clear();
    }

    fn add(&self, hints: HostHints) -> u32 {
        let mut entries = self.entries();
        if entries.len() >= ENTRIES_MAX {
            return 0;
        }
        entries.push(hints);
        entries.len() as u32
    }
}

/// Key of an entry; names are the numbers that the trace gives them.
#[derive(PartialEq, Eq, Hash)]
struct Known {
    path: u32,
    sst_level: Option<u8>,
    process: u32,
    pid: u32,
    io_class: u16,
    marks: u16,
    lifetime: Lifetime,
}

/// Writes the hints of one trace into a book.
pub struct HintWriter {
    book: Arc<HintBook>,
    evidence: Evidence,
    numbers: HashMap<Known, u32>,
}

impl HintWriter {
    /// A writer for a trace with this level of evidence; `None` where the level is none.
    pub fn new(evidence: Evidence, book: &Arc<HintBook>) -> Option<Self> {
        (evidence != Evidence::None).then(|| Self { book: book.clone(), evidence, numbers: HashMap::new() })
    }

    /// The number of a request's hints; 0 where there are none. Only writes have hints, as on real hosts.
    pub(super) fn number(&mut self, request: &Request, names: &Names, knows: Knows) -> u32 {
        if request.op != Op::Write {
            return 0;
        }
        let marks = request.flags.0 & MARKS;
        let known = match self.evidence {
            Evidence::None => return 0,
            Evidence::Hints => Known {
                path: 0,
                sst_level: None,
                process: 0,
                pid: 0,
                io_class: Request::NO_CLASS,
                marks: marks & !Flags::DIRECT.0,
                lifetime: request.lifetime,
            },
            Evidence::All => Known {
                path: request.path,
                sst_level: names.levels.get(request.path),
                process: request.process,
                pid: request.pid,
                io_class: request.io_class,
                marks,
                lifetime: request.lifetime,
            },
        };
        let Self { book, evidence, numbers } = self;
        if let Some(&number) = numbers.get(&known) {
            return number;
        }
        if numbers.len() >= ENTRIES_MAX {
            return 0;
        }
        let facts = knows.facts(request, names);
        let facts = match evidence {
            Evidence::All => facts,
            _ => HostFacts { lifetime: facts.lifetime, meta: facts.meta, swap: facts.swap, ..HostFacts::default() },
        };
        *numbers.entry(known).or_insert_with(|| if facts == HostFacts::default() { 0 } else { book.add(facts.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::OpKind;

    fn io(hint: u32, offset_bytes: u64, len_bytes: u32) -> Io {
        Io { slot: 0, kind: OpKind::Write, len_bytes, offset_bytes, hint }
    }

    #[test]
    fn as_much_evidence_as_was_asked_for() {
        let book = Arc::new(HintBook::default());
        let mut names = Names::default();
        let request = Request {
            path: names.paths.number("db/000007.sst"),
            process: names.processes.number("rocksdb:low0"),
            pid: 9,
            lifetime: Lifetime::Medium,
            flags: Flags::META.with(Flags::DIRECT),
            ..Request::new(0, Op::Write, 0, 4096)
        };
        names.levels.set(request.path, 2);
        let knows = Knows { lifetime: true, flags: true, ..Knows::default() };
        assert!(HintWriter::new(Evidence::None, &book).is_none());
        let mut all = HintWriter::new(Evidence::All, &book).unwrap();
        let mut hints = HintWriter::new(Evidence::Hints, &book).unwrap();
        let numbers = [&mut all, &mut hints].map(|writer| writer.number(&request, &names, knows));
        assert_eq!(numbers, [1, 2]);
        assert_eq!(all.number(&request, &names, knows), 1, "known already");
        let read = Request { op: Op::Read, ..request };
        assert_eq!(all.number(&read, &names, knows), 0, "hosts say nothing of reads");
        let of = |number| book.parts(&io(number, 8192, 12288)).unwrap();
        let (all, hints) = (of(1), of(2));
        assert_eq!((all.len(), all[0].blocks), (1, 3));
        let facts = all[0].hints.facts();
        assert_eq!(
            (facts.path, facts.sst_level, facts.process),
            (Some("db/000007.sst"), Some(2), Some("rocksdb:low0"))
        );
        assert_eq!((facts.lifetime, facts.meta, facts.direct), (Some(Lifetime::Medium), Some(true), Some(true)));
        let facts = hints[0].hints.facts();
        assert_eq!((facts.lifetime, facts.meta, facts.swap), (Some(Lifetime::Medium), Some(true), Some(false)));
        assert_eq!((facts.path, facts.process, facts.pid, facts.direct), (None, None, None, None));
    }

    #[test]
    fn what_is_not_known_has_no_entry_and_no_parts() {
        let book = Arc::new(HintBook::default());
        let mut writer = HintWriter::new(Evidence::All, &book).unwrap();
        let request = Request::new(0, Op::Write, 0, 4096);
        assert_eq!(writer.number(&request, &Names::default(), Knows::default()), 0);
        assert!(book.parts(&io(0, 0, 4096)).is_none());
        assert!(book.parts(&io(77, 0, 4096)).is_none(), "a number nobody gave");
    }

    #[test]
    fn a_full_book_takes_no_more_and_is_empty_for_the_next_run() {
        let book = Arc::new(HintBook::default());
        *book.entries() = vec![HostHints::default(); ENTRIES_MAX];
        let hints = HostHints { meta: Some(true), ..HostHints::default() };
        assert_eq!(book.add(hints.clone()), 0);
        book.clear();
        assert_eq!(book.add(hints), 1);
    }

    #[test]
    fn blocks_that_a_write_only_touches_are_covered_too() {
        let book = Arc::new(HintBook::default());
        let number = book.add(HostHints { meta: Some(true), ..HostHints::default() });
        assert_eq!(book.parts(&io(number, 512, 4096)).unwrap()[0].blocks, 2);
        assert_eq!(book.parts(&io(number, 4608, 512)).unwrap()[0].blocks, 1);
    }
}
