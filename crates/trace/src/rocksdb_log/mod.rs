//! The level of each sorted table of a RocksDB database, from the database's info LOG as it grows.
//!
//! Tables have numbers in their names (`000012.sst`) and no levels; the LOG says which job wrote a table, and for which level. It is read
//! as bytes in portions of any length, so a file that is still being written can be followed. Numbers are unique within a database, for all
//! its column families: use one [`RocksdbLog`] for each database.
//!
//! Lines are parsed as RocksDB 7.8 and 9.10 write them (`db/flush_job.cc`, `db/compaction/compaction_job.cc`, `db/db_impl/db_impl_open.cc`,
//! `db/db_impl/db_impl_compaction_flush.cc`, `db/external_sst_file_ingestion_job.cc`, `db/event_helpers.cc`); all others are ignored.
//!
//! Limits: levels of tables older than the LOG are unknown until a compaction reads or moves them. If a compaction has per-key placement,
//! it is unknown which of its tables went to the level above its output level.

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

/// Longest line in bytes; a longer one is a fault. RocksDB cuts its own at 64 KiB (`env/env_posix.cc`).
const LINE_BYTES_MAX: usize = 256 << 10;
/// Most jobs that are followed at a time; RocksDB has as many as threads.
const JOBS_MAX: usize = 1 << 12;
/// Most tables of one job that may wait for its level.
const WAITING_MAX: usize = 1 << 16;

/// A job that writes tables.
#[derive(Clone, Debug, Default)]
struct Job {
    /// The level that it writes; `None` if its beginning was not seen.
    level: Option<u8>,
    /// Its tables have at least this number.
    from_number: u64,
    /// Whether it has named the table that it writes: a flush, which writes only one.
    is_named: bool,
    /// Tables that wait for the level.
    waiting: Vec<u64>,
}

/// Follows the LOG of one database.
#[derive(Clone, Debug)]
pub struct RocksdbLog {
    tables: Tables,
    jobs: BTreeMap<u64, Job>,
    /// The beginning of a line whose end was not read yet.
    partial: Vec<u8>,
    /// Whether the rest of the line is skipped because it is too long.
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
    /// Reads the next portion. It may end anywhere; an incomplete line waits for the next portion.
    ///
    /// Several LOGs of one database are read one after the other, the oldest first, with [`RocksdbLog::end`] in between.
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

    /// Notes the end of the file, whose last line may lack a line end.
    pub fn end(&mut self) {
        if self.skips || !self.partial.is_empty() {
            self.feed(b"\n");
        }
    }

    /// The present level of a table; `None` if it is not known, or the table was deleted.
    #[must_use]
    pub fn level(&self, number: u64) -> Option<u8> {
        self.tables.level(number)
    }

    /// The level for which a table was written; moves only change [`RocksdbLog::level`]. It is kept after the table was deleted.
    #[must_use]
    pub fn level_created(&self, number: u64) -> Option<u8> {
        self.tables.level_created(number)
    }

    /// The level for which a table that the LOG does not mention yet is probably being written: that of the jobs that may be writing it, if
    /// they agree. A flush names its table when it begins, a compaction after it has written it.
    #[must_use]
    pub fn level_expected(&self, number: u64) -> Option<u8> {
        let may_write = |job: &&Job| !job.is_named && job.from_number <= number;
        let mut may = self.jobs.values().filter(may_write).map(|job| job.level);
        let first = may.next()??;
        may.all(|level| level == Some(first)).then_some(first)
    }

    /// Numbers of the tables whose level changed, or that were deleted, since the last call; ascending.
    pub fn take_changed(&mut self) -> impl Iterator<Item = u64> + use<> {
        self.tables.take_changed().into_iter()
    }

    /// All tables with a known level for which they were written, by number, including deleted ones.
    pub fn created_levels(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.tables.created_levels()
    }

    /// Tables that were written, by level; `None` is for jobs whose beginning is not in the LOG. Moves write nothing; neither do ingested
    /// files, which may be links.
    pub fn created(&self) -> impl Iterator<Item = (Option<u8>, Created)> + '_ {
        self.tables.sums()
    }

    /// Number of tables for which there was no room, or that were dropped in favour of others.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.tables.forgotten()
    }

    /// Lines that could not be parsed.
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
                    self.tables.set_level(at, number, level);
                }
            }
            Entry::Moves { number, level } | Entry::Ingests { number, level } => {
                self.tables.set_level(at, number, level);
            }
            Entry::Deletes { number } => self.tables.deletes(number),
        }
    }

    fn begins(&mut self, id: u64, level: u8) {
        // A flush reports its beginning twice; a job of another level with this number was left unfinished.
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
            // The oldest job, whose end was missed.
            self.jobs.pop_first();
        }
        self.jobs.insert(id, job);
    }
}
