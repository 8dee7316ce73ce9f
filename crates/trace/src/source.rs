//! What every reader of traces gives.

use crate::{Flags, Names, Request, TraceError};
use forebay_prism::HostFacts;

/// Requests that a source hands out at a time, about.
pub const BATCH_REQUESTS: usize = 4096;
/// Faults that are kept with their place; all are counted.
const FAULTS_KEPT: usize = 8;

/// A part of a trace that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where: the line of a text (from 1), or the byte of a binary file.
    pub place: u64,
    /// What is wrong there.
    pub what: String,
}

/// Bad lines and records: all are counted, the first are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// Lines and records that could be read, where the reader counts them: several of them may make a request, or none.
    pub entries_read: u64,
    /// The first of them.
    pub first: Vec<Fault>,
    /// Whether places are lines; else they are bytes.
    pub by_line: bool,
    /// Events that whoever recorded the trace says it has dropped: so much is missing, and nobody knows where.
    pub missing: u64,
}

impl Faults {
    /// Notes one.
    pub fn note(&mut self, place: u64, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < FAULTS_KEPT {
            self.first.push(Fault { place, what: what() });
        }
    }

    /// That more than half of the trace could not be read, in a sentence; `requests` are those that it gave.
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

    /// That events are missing, in a sentence; none where all are there.
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

/// What a trace can tell at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knows {
    /// Whether requests are reads, writes, ...
    pub op: bool,
    /// When they were issued.
    pub time: bool,
    /// How long they took.
    pub latency: bool,
    /// The device's depth at issue.
    pub depth: bool,
    /// Flags of the kernel.
    pub flags: bool,
    /// Write-lifetime hints.
    pub lifetime: bool,
    /// Processes.
    pub process: bool,
    /// Inodes or paths.
    pub file: bool,
}

impl Knows {
    /// What a request of such a trace tells beside its place, as classifiers take it.
    #[must_use]
    pub fn facts<'a>(self, request: &Request, names: &'a Names) -> HostFacts<'a> {
        let flag = |bit: Flags| self.flags.then(|| request.flags.has(bit));
        HostFacts {
            lifetime: self.lifetime.then_some(request.lifetime),
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
    /// Appends the next requests, about [`BATCH_REQUESTS`]; `false` at the end. Times may go back a little, as the
    /// traces have them.
    ///
    /// # Errors
    /// What makes the rest unreadable. Bad lines and records are no errors: they are counted.
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError>;

    /// What could not be read up to now.
    fn faults(&self) -> &Faults;

    /// What the trace can tell.
    fn knows(&self) -> Knows;

    /// What the reader had to decide, a sentence each: which of several times it took, and the like.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
