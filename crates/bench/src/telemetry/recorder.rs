//! A worker's recorder: a chunk that it fills by plain stores.

use super::outlet::{Outlet, chunk};
use super::record::Record;

/// Takes the records of one thread. A worker without telemetry has no recorder (`Option<Recorder>`).
///
/// [`Recorder::push`] never waits, allocates or makes a system call, except that it passes on a chunk for each
/// [`super::SpillOptions::chunk_records`] records, which may wake the spill thread.
#[derive(Debug)]
pub struct Recorder {
    /// Filled up to `next`; empty while no chunk is free.
    chunk: Box<[Record]>,
    next: usize,
    sink: Sink,
}

/// Where full chunks go.
#[derive(Debug)]
enum Sink {
    /// Nowhere: newer records overwrite the oldest.
    Ring {
        /// How often the chunk was filled and begun again.
        rounds: u64,
    },
    /// To the spill thread.
    Spill(Outlet),
}

/// Counts of the records of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderReport {
    /// Number of records kept in memory or passed on to the spill.
    pub recorded: u64,
    /// Number of records for which no chunk was free, or which newer ones have overwritten.
    pub dropped: u64,
}

impl Recorder {
    /// Keeps the last `records` records (at least 1) in memory and writes nothing. Uses 40 bytes each, mapped at once.
    #[must_use]
    pub fn ring(records: usize) -> Self {
        Self { chunk: chunk(records.max(1)), next: 0, sink: Sink::Ring { rounds: 0 } }
    }

    pub(super) fn spilled(mut outlet: Outlet) -> Self {
        let chunk = outlet.take_empty().unwrap_or_default();
        Self { chunk, next: 0, sink: Sink::Spill(outlet) }
    }

    /// Takes a record. If no chunk is free, the record is dropped and counted.
    #[inline]
    pub fn push(&mut self, record: Record) {
        // The record is not passed to `turn`: otherwise it would be built on the stack and copied from there each time.
        if self.next >= self.chunk.len() {
            self.turn();
        }
        if let Some(place) = self.chunk.get_mut(self.next) {
            *place = record;
            self.next += 1;
        }
    }

    /// Called when the chunk is full or there is none: makes room for a record, or counts it as dropped.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        match &mut self.sink {
            Sink::Ring { rounds } => *rounds += 1,
            Sink::Spill(outlet) => {
                if !self.chunk.is_empty() {
                    outlet.submit(std::mem::take(&mut self.chunk), self.next);
                }
                match outlet.take_empty() {
                    Some(empty) => self.chunk = empty,
                    None => outlet.count_drop(),
                }
            }
        }
        self.next = 0;
    }

    /// Passes a partly filled chunk on to the spill if another chunk is free, because records in the spill survive a kill. A ring keeps its
    /// chunk.
    #[cold]
    pub fn submit(&mut self) {
        let Sink::Spill(outlet) = &mut self.sink else { return };
        if self.next == 0 {
            return;
        }
        // No records were dropped while there was a chunk, so the order of the two steps does not matter.
        if let Some(empty) = outlet.take_empty() {
            outlet.submit(std::mem::replace(&mut self.chunk, empty), std::mem::take(&mut self.next));
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn report(&self) -> RecorderReport {
        let in_chunk = self.next as u64;
        match &self.sink {
            Sink::Ring { rounds: 0 } => RecorderReport { recorded: in_chunk, dropped: 0 },
            Sink::Ring { rounds } => {
                let kept = self.chunk.len() as u64;
                RecorderReport { recorded: kept, dropped: (rounds - 1) * kept + in_chunk }
            }
            Sink::Spill(outlet) => RecorderReport { recorded: outlet.handed() + in_chunk, dropped: outlet.dropped() },
        }
    }

    /// Ends the recorder and passes the last chunk on to the spill (never waits). To be called before [`super::Spill::finish`]; dropping
    /// the recorder has the same effect.
    pub fn finish(mut self) -> RecorderReport {
        self.close();
        self.report()
    }

    /// The records of a ring, oldest first. Empty for a recorder with a spill, which has passed its records on.
    #[must_use]
    pub fn into_records(mut self) -> Vec<Record> {
        self.close();
        let mut records = std::mem::take(&mut self.chunk).into_vec();
        match self.sink {
            Sink::Ring { rounds: 0 } => records.truncate(self.next),
            Sink::Ring { .. } => {
                let oldest = self.next.min(records.len());
                records.rotate_left(oldest);
            }
            Sink::Spill(_) => records.clear(),
        }
        records
    }

    fn close(&mut self) {
        if let Sink::Spill(outlet) = &mut self.sink {
            let chunk = std::mem::take(&mut self.chunk);
            let count = std::mem::take(&mut self.next);
            if count > 0 {
                outlet.submit(chunk, count);
            }
            outlet.publish_drops();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close();
    }
}
