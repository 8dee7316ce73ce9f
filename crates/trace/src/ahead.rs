//! Read-ahead: a thread reads a source some batches ahead of its consumer.

use crate::names::{NamesWithCopy, NewNames};
use crate::worker::Worker;
use crate::{Faults, Knows, Names, Request, Source, TraceError};

/// Batches that are read ahead. They are reused, so that none is allocated for the next one.
const BATCHES: usize = 4;

/// The state that a source reports with its batches.
#[derive(Debug, Default)]
struct Said {
    faults: Faults,
    knows: Knows,
    notes: Vec<String>,
}

impl Said {
    fn update(&mut self, source: &impl Source) {
        if self.faults != *source.faults() {
            self.faults = source.faults().clone();
        }
        (self.knows, self.notes) = (source.knows(), source.notes());
    }
}

/// The requests of one read, and the state that the source reported after it.
struct Batch {
    requests: Vec<Request>,
    names: NewNames,
    said: Said,
    read: Result<bool, TraceError>,
}

impl Batch {
    fn new() -> Self {
        Self { requests: Vec::new(), names: NewNames::default(), said: Said::default(), read: Ok(true) }
    }
}

/// A source, and the names that it adds to.
type Reading<S> = (S, NamesWithCopy);

/// Fills a batch; true if there are more.
fn fill<S: Source>((source, names): &mut Reading<S>, batch: &mut Batch) -> bool {
    batch.read = source.read(&mut batch.requests, &mut names.names);
    names.take_new(&mut batch.names);
    batch.said.update(source);
    matches!(batch.read, Ok(true))
}

/// Reads a source ahead by a thread that starts with the first read and ends after the last. Requests are those of the source; faults and
/// facts too, and they belong to the requests passed on so far, not to those ahead. The same names must be passed to each read, and nobody
/// else may add to them.
pub struct Ahead<S> {
    /// The source before the first read and after the last; in between, the thread has it.
    source: Option<S>,
    reader: Option<Worker<Reading<S>, Batch>>,
    was_started: bool,
    said: Said,
}

impl<S: Source + Send + 'static> Ahead<S> {
    /// Reads `source` ahead.
    pub fn new(source: S) -> Self {
        let mut said = Said::default();
        said.update(&source);
        Self { source: Some(source), reader: None, was_started: false, said }
    }

    /// Starts the thread; if there can be none, the source is read by the caller.
    fn start(&mut self, names: &Names) {
        self.was_started = true;
        let Some(source) = self.source.take() else { return };
        match Worker::start("trace-reader", BATCHES, (source, NamesWithCopy::of(names)), fill) {
            Ok(reader) => {
                (0..BATCHES).for_each(|_| reader.give(Batch::new()));
                self.reader = Some(reader);
            }
            Err((source, _)) => self.source = Some(source),
        }
    }

    /// Takes the source back from the thread, which has ended.
    fn take_back(&mut self) {
        self.source = self.reader.take().map(|reader| reader.end().0);
    }

    /// Reads the source in the caller's thread.
    fn read_here(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let read = source.read(into, names);
        self.said.update(source);
        read
    }
}

impl<S: Source + Send + 'static> Source for Ahead<S> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        if !self.was_started {
            self.start(names);
        }
        let Some(reader) = &mut self.reader else { return self.read_here(into, names) };
        let mut batch = reader.take();
        batch.names.add_to(names);
        std::mem::swap(&mut self.said, &mut batch.said);
        if into.is_empty() {
            std::mem::swap(into, &mut batch.requests);
        } else {
            into.append(&mut batch.requests);
        }
        let read = std::mem::replace(&mut batch.read, Ok(true));
        match read {
            Ok(true) => reader.give(batch),
            _ => self.take_back(),
        }
        read
    }

    fn faults(&self) -> &Faults {
        &self.said.faults
    }

    fn knows(&self) -> Knows {
        self.said.knows
    }

    fn notes(&self) -> Vec<String> {
        self.said.notes.clone()
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests;
