//! The interface of all trace readers.

use crate::{Flags, Names, Request, TraceError};
use forebay_prism::HostFacts;

/// Approximate number of requests that a source returns at a time.
pub const BATCH_REQUESTS: usize = 4096;
/// Most faults that are kept with their place; all are counted.
const FAULTS_KEPT: usize = 8;

/// A part of a trace that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of a text (from 1), or byte of a binary file.
    pub place: u64,
    /// What is wrong there.
    pub what: String,
}

/// Bad lines and records: all are counted, the first ones are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Number of faults.
    pub count: u64,
    /// Number of lines or records that could be read, if the reader counts them; several may make one request, or none.
    pub entries_read: u64,
    /// The first faults.
    pub first: Vec<Fault>,
    /// Whether places are lines; otherwise they are bytes.
    pub by_line: bool,
    /// Number of events that the recorder of the trace reports as dropped, or that must have been; where they are missing is unknown.
    pub missing: u64,
}

impl Faults {
    /// Counts a fault.
    pub fn note(&mut self, place: u64, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < FAULTS_KEPT {
            self.first.push(Fault { place, what: what() });
        }
    }

    /// A sentence that more than half of the trace could not be read; `requests` is the number of requests read. `None` if that is not so.
    #[must_use]
    pub fn unreadable_note(&self, requests: u64) -> Option<String> {
        let read = self.entries_read.max(requests);
        let first = self.first.first().filter(|_| self.count > read)?;
        let place = if self.by_line { "line" } else { "byte" };
        Some(format!(
            "more than half of it could not be read: {} bad entries and {read} good ones; the first at {place} {}: {}",
            self.count, first.place, first.what
        ))
    }

    /// A sentence that events are missing; `None` if none are.
    #[must_use]
    pub fn missing_note(&self) -> Option<String> {
        (self.missing > 0).then(|| {
            format!(
                "{} events are missing: they were dropped while the trace was recorded, at times that are not known",
                self.missing
            )
        })
    }
}

/// The facts that a trace provides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knows {
    /// Whether operations are known.
    pub op: bool,
    /// Whether issue times are known.
    pub time: bool,
    /// Whether latencies are known.
    pub latency: bool,
    /// Whether the device's depth at issue is known.
    pub depth: bool,
    /// Whether the kernel's flags are known.
    pub flags: bool,
    /// Whether write-lifetime hints are known.
    pub lifetime: bool,
    /// Whether processes are known.
    pub process: bool,
    /// Whether inodes or paths are known.
    pub file: bool,
}

impl Knows {
    /// The facts about a request of such a trace, apart from its place, in the form for classifiers.
    #[must_use]
    pub fn facts<'a>(self, request: &Request, names: &'a Names) -> HostFacts<'a> {
        let has_flags = self.flags && !request.flags.has(Flags::NOT_KNOWN);
        let has_lifetime = self.lifetime && !request.flags.has(Flags::NO_LIFETIME);
        let flag = |bit: Flags| has_flags.then(|| request.flags.has(bit));
        HostFacts {
            lifetime: has_lifetime.then_some(request.lifetime),
            meta: flag(Flags::META),
            swap: flag(Flags::SWAP),
            direct: flag(Flags::DIRECT),
            path: (request.path > 0).then(|| names.paths.name(request.path)),
            sst_level: names.levels.get(request.path),
            process: (request.process > 0).then(|| names.processes.name(request.process)),
            pid: (request.pid > 0).then_some(request.pid),
            io_class: (request.io_class != Request::NO_CLASS).then_some(request.io_class),
            ..HostFacts::default()
        }
    }
}

/// A trace being read.
pub trait Source {
    /// Appends the next requests, about [`BATCH_REQUESTS`]; `false` at the end. Times may go back a little, if they do in the trace.
    ///
    /// # Errors
    /// The reason why the rest cannot be read. Bad lines and records are no errors: they are counted.
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError>;

    /// What could not be read so far.
    fn faults(&self) -> &Faults;

    /// The facts that the trace provides.
    fn knows(&self) -> Knows;

    /// Decisions of the reader, a sentence each: which of several times it used, and the like.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
