//! The level of each sorted table of a RocksDB database, from the database's info LOG as it grows.
//!
//! Tables carry numbers in their names (`000012.sst`) and no levels; the LOG tells which job wrote a table, and for which
//! level. It is read as bytes in any portions, so a file that is still written can be followed. Numbers count for one
//! database, whatever its column families: one [`RocksdbLog`] for each.
//!
//! Lines are understood as RocksDB 7.8 and 9.10 write them (`db/flush_job.cc`, `db/compaction/compaction_job.cc`,
//! `db/db_impl/db_impl_open.cc`, `db/db_impl/db_impl_compaction_flush.cc`, `db/external_sst_file_ingestion_job.cc`,
//! `db/event_helpers.cc`); all others are passed over.
//!
//! What it cannot tell: levels of tables that are older than the LOG, until a compaction takes them in or moves them;
//! which tables of a compaction with per-key placement went to the level above its output level.

mod line;
mod tables;

pub use tables::Created;
#[cfg(test)]
mod tests;

use crate::Faults;
use line::{Entry, parse};
use memchr::memchr;
use std::collections::BTreeMap;
use tables::Tables;

/// A longer line is a fault. RocksDB cuts its own at 64 KiB (`env/env_posix.cc`).
const LINE_BYTES_MAX: usize = 256 << 10;
/// Jobs that are followed at a time; RocksDB has as many as threads.
const JOBS_MAX: usize = 1 << 12;
/// Tables of one job that may wait for its level.
const WAITING_MAX: usize = 1 << 16;

/// A job that writes tables.
#[derive(Clone, Debug, Default)]
struct Job {
    /// The level that it writes; `None` where its begin was not seen.
    level: Option<u8>,
    /// No table of it has a smaller number.
    from_number: u64,
    /// It has named the table that it writes: a flush, which writes one only.
    is_named: bool,
    /// Tables that wait for that level.
    waiting: Vec<u64>,
}

/// Follows the LOG of one database.
#[derive(Clone, Debug)]
pub struct RocksdbLog {
    tables: Tables,
    jobs: BTreeMap<u64, Job>,
    /// What was read of a line whose end was not.
    partial: Vec<u8>,
    /// The rest of the line is passed over: it was too long.
    skips: bool,
    lines: u64,
    faults: Faults,
}

impl Default for RocksdbLog {
    fn default() -> Self {
        Self {
            tables: Tables::default(),
            jobs: BTreeMap::new(),
            partial: Vec::new(),
            skips: false,
            lines: 0,
            faults: Faults { by_line: true, ..Faults::default() },
        }
    }
}

impl RocksdbLog {
    /// Reads on. Portions may end anywhere; what is behind the last line's end waits for the next one.
    ///
    /// Several LOGs of one database are fed one after the other, the oldest first, with [`RocksdbLog::end`] between.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.skips || self.partial.len() + line.len() > LINE_BYTES_MAX {
                self.too_long();
                self.skips = false;
            } else if self.partial.is_empty() {
                self.line(line);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole);
                whole.clear();
                self.partial = whole;
            }
            bytes = rest;
        }
        if !self.skips && self.partial.len() + bytes.len() <= LINE_BYTES_MAX {
            self.partial.extend_from_slice(bytes);
        } else {
            self.partial.clear();
            self.skips = true;
        }
    }

    /// The file is over: its last line may lack an end.
    pub fn end(&mut self) {
        if self.skips || !self.partial.is_empty() {
            self.feed(b"\n");
        }
    }

    /// The level at which a table is now; `None` where that is not known, or where it was deleted.
    #[must_use]
    pub fn level(&self, number: u64) -> Option<u8> {
        self.tables.level(number)
    }

    /// The level for which the bytes of a table were written: moves change [`RocksdbLog::level`] only. Kept when the table
    /// is deleted.
    #[must_use]
    pub fn level_created(&self, number: u64) -> Option<u8> {
        self.tables.level_created(number)
    }

    /// The level for which a table of which the LOG does not tell yet is probably being written: that of the jobs that
    /// may be writing it, where they agree. A flush names its table when it begins, a compaction when it has written it.
    #[must_use]
    pub fn level_expected(&self, number: u64) -> Option<u8> {
        let may_write = |job: &&Job| !job.is_named && job.from_number <= number;
        let mut may = self.jobs.values().filter(may_write).map(|job| job.level);
        let first = may.next()??;
        may.all(|level| level == Some(first)).then_some(first)
    }

    /// Numbers of tables of which a level changed, or that were deleted, since this was last asked; in order.
    pub fn take_changed(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.tables.take_changed().into_iter()
    }

    /// All tables known whose bytes were written for a known level, by number: also deleted ones.
    pub fn created_levels(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.tables.created_levels()
    }

    /// Tables that were written, for each level for which any was; `None` gathers those of jobs whose begin is not in the
    /// LOG. Moves write nothing; neither do ingested files, which may be links.
    pub fn created(&self) -> impl Iterator<Item = (Option<u8>, Created)> + '_ {
        self.tables.sums()
    }

    /// Tables for which there was no place, or that were forgotten for others.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.tables.forgotten()
    }

    /// Lines that could not be read.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    fn too_long(&mut self) {
        self.partial.clear();
        self.lines += 1;
        self.faults.note(self.lines, || format!("the line is longer than {LINE_BYTES_MAX} bytes"));
    }

    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        match parse(line) {
            Ok(None) => {}
            Ok(Some((at, entry))) => self.take_in(at, entry),
            Err(what) => self.faults.note(self.lines, || what.to_owned()),
        }
    }

    fn take_in(&mut self, at: u64, entry: Entry) {
        match entry {
            // Jobs are numbered anew when the database is opened.
            Entry::Opens => self.jobs.clear(),
            Entry::Begins { job, level } => self.begins(job, level),
            Entry::Writes { job, number, level } => {
                if let Some(job) = job {
                    self.begins(job, level);
                    self.jobs.entry(job).and_modify(|job| job.is_named = true);
                }
                self.tables.wrote(at, number, Some(level), 0);
            }
            Entry::Wrote { job, number, bytes } => self.wrote(at, job, number, bytes),
            Entry::Ends { job, level } => {
                let Some(job) = self.jobs.remove(&job) else { return };
                for number in job.waiting {
                    self.tables.wrote(at, number, level, 0);
                }
            }
            Entry::Are { inputs } => {
                for (level, number) in inputs {
                    self.tables.is_at(at, number, level);
                }
            }
            Entry::Moves { number, level } | Entry::Ingests { number, level } => self.tables.is_at(at, number, level),
            Entry::Deletes { number } => self.tables.deletes(number),
        }
    }

    fn begins(&mut self, id: u64, level: u8) {
        // A flush tells twice that it begins; a job of another level was left unfinished before.
        if self.jobs.get(&id).is_none_or(|job| job.level != Some(level)) {
            let from_number = self.tables.next_number();
            self.put(id, Job { level: Some(level), from_number, ..Job::default() });
        }
    }

    fn wrote(&mut self, at: u64, id: u64, number: u64, bytes: u64) {
        let level = self.jobs.get(&id).and_then(|job| job.level);
        self.tables.wrote(at, number, level, bytes);
        if self.tables.level_created(number).is_some() {
            return;
        }
        if !self.jobs.contains_key(&id) {
            self.put(id, Job::default());
        }
        if let Some(job) = self.jobs.get_mut(&id)
            && job.waiting.len() < WAITING_MAX
            && job.waiting.last() != Some(&number)
        {
            job.waiting.push(number);
        }
    }

    fn put(&mut self, id: u64, job: Job) {
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&id) {
            // The oldest: its end was missed.
            self.jobs.pop_first();
        }
        self.jobs.insert(id, job);
    }
}
