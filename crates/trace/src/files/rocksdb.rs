//! Databases of RocksDB in a mount: their LOGs are followed to learn the levels of tables.
//!
//! A folder with `CURRENT`, `LOG` and a `MANIFEST-*` is a database (`file/filename.cc`). When it is opened, its `LOG` is renamed to
//! `LOG.old.MICROSECONDS`; the part not yet read is then read from there.

use super::FileFacts;
use super::book::Book;
use super::handle::Id;
use super::look::read_at;
use super::table::{LateTable, Levels, table_number};
use crate::rocksdb_log::RocksdbLog;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant};

/// Most databases that are followed.
const DATABASES_MAX: usize = 256;
/// Most older LOGs that are read for each database.
const OLD_MAX: usize = 16;
/// Most tables of a database whose level is awaited.
const WAITING_MAX: usize = 4096;
/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// How often a LOG is read further. RocksDB itself writes it out after at most five seconds (`env/env_posix.cc`).
const EVERY: Duration = Duration::from_millis(500);
/// How long a deleted table is still looked for in the LOG.
const GONE_FOR: Duration = Duration::from_secs(8);
/// How long after its creation a table is looked for in the LOG.
const SETTLE: Duration = Duration::from_millis(30);

/// The databases of a mount.
#[derive(Debug, Default)]
pub struct Databases {
    found: BTreeMap<u64, Database>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Database {
    log: RocksdbLog,
    /// The file being read, and the position in it.
    at: Option<(Id, u64)>,
    /// Older LOGs that come first.
    old: VecDeque<Id>,
    /// Tables whose level is not certain yet.
    waiting: BTreeSet<u64>,
    /// Tables that were deleted meanwhile, and when.
    gone: BTreeMap<u64, (FileFacts, Instant)>,
    due: Instant,
}

impl Databases {
    /// Checks a folder that may be a database.
    pub fn noticed(&mut self, book: &Book, folder: u64, now: Instant) {
        let Some(entries) = book.tree.entries(folder) else { return };
        let is_one = entries.contains_key(&b"CURRENT"[..])
            && entries.contains_key(&b"LOG"[..])
            && entries.keys().any(|name| name.starts_with(b"MANIFEST-"));
        if let Some(database) = self.found.get_mut(&folder) {
            // The LOG may be a new one.
            database.due = database.due.min(now + SETTLE);
            return;
        }
        if !is_one || self.found.len() >= DATABASES_MAX {
            return;
        }
        let number = |name: &[u8]| str::from_utf8(name.strip_prefix(b"LOG.old.")?).ok()?.parse::<u64>().ok();
        let mut old: Vec<(u64, u64)> =
            entries.iter().filter_map(|(name, inode)| Some((number(name)?, *inode))).collect();
        old.sort_unstable();
        let skip = old.len().saturating_sub(OLD_MAX);
        let waiting = entries.keys().filter_map(|name| table_number(name)).take(WAITING_MAX);
        let database = Database {
            log: RocksdbLog::default(),
            at: None,
            old: old[skip..].iter().filter_map(|(_, inode)| book.tree.id(*inode)).collect(),
            waiting: waiting.collect(),
            gone: BTreeMap::new(),
            due: now,
        };
        self.found.insert(folder, database);
    }

    /// Notes that a table was created.
    pub fn table(&mut self, folder: u64, number: u64, now: Instant) {
        if let Some(database) = self.found.get_mut(&folder)
            && database.waiting.len() < WAITING_MAX
        {
            database.waiting.insert(number);
            database.due = database.due.min(now + SETTLE);
        }
    }

    /// When there is something to read.
    pub fn next(&self) -> Option<Instant> {
        self.found.values().map(|database| database.due).min()
    }

    /// Reads further in one LOG that is due; false if none is due.
    ///
    /// # Errors
    /// A LOG cannot be read; it is tried again later.
    pub fn step(&mut self, book: &mut Book, has_handles: bool, now: Instant) -> io::Result<bool> {
        for LateTable { folder, number, facts } in book.take_late() {
            if let Some(database) = self.found.get_mut(&folder)
                && database.gone.len() < WAITING_MAX
            {
                database.gone.insert(number, (facts, now));
            }
        }
        let Some((&folder, database)) = self.found.iter_mut().find(|(_, database)| database.due <= now) else {
            return Ok(false);
        };
        let Some(log) = book.tree.entries(folder).map(|entries| entries.get(&b"LOG"[..]).copied()) else {
            self.found.remove(&folder);
            return Ok(true);
        };
        let log = log.and_then(|inode| book.tree.id(inode));
        database.due = now + EVERY;
        if database.at.is_none() {
            database.at = database.old.pop_front().or(log).map(|id| (id, 0));
        }
        let Some((id, offset)) = database.at else { return Ok(true) };
        self.buffer.resize(READ_BYTES, 0);
        let path = book.path(id.inode).filter(|_| book.tree.id(id.inode) == Some(id));
        let read = match path {
            Some(path) => read_at(&path, id, has_handles, offset, &mut self.buffer)?,
            None => 0,
        };
        if read > 0 {
            database.log.feed(&self.buffer[..read]);
            database.at = Some((id, offset + read as u64));
            if read == READ_BYTES {
                database.due = now;
            }
        } else if Some(id) != log {
            // The next LOG begins.
            database.log.end();
            database.at = None;
            database.due = now;
        }
        database.tell(book, folder, now);
        Ok(true)
    }
}

impl Database {
    fn tell(&mut self, book: &mut Book, folder: u64, now: Instant) {
        let mut numbers: BTreeSet<u64> = self.log.take_changed().collect();
        numbers.append(&mut self.waiting);
        for number in numbers {
            let name = format!("{number:06}.sst");
            let entry = book.tree.entries(folder).and_then(|entries| entries.get(name.as_bytes()).copied());
            let Some(inode) = entry else { continue };
            let written = self.log.level_created(number);
            let now = self.log.level(number).or(written).or_else(|| self.log.level_expected(number));
            book.set_levels(inode, Levels { now, written });
            if written.is_none() && self.waiting.len() < WAITING_MAX {
                self.waiting.insert(number);
            }
        }
        self.gone.retain(|number, (facts, since)| {
            let written = self.log.level_created(*number);
            if written.is_some() && book.has_room() {
                book.tell_late(FileFacts { level_written: written, ..facts.clone() });
                return false;
            }
            now.saturating_duration_since(*since) < GONE_FOR
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::handle::Handle;
    use super::super::table::is_sign;
    use super::super::{Change, WatchOptions};
    use super::*;

    fn facts(inode: u64, number: u64) -> FileFacts {
        let path = format!("/m/{number:06}.sst");
        FileFacts { inode, generation: 1, path, size_bytes: 5, lifetime: None, level: None, level_written: None }
    }

    /// The flush that wrote table 12 is logged after the table was deleted; table 13 is never logged.
    #[test]
    fn levels_of_tables_that_are_gone_are_reported_or_given_up() {
        let options = WatchOptions { mount: "/m".into(), with_extents: false, files_max: 100, extents_max: 0 };
        let root = Handle { id: Id { inode: 1, generation: 1 }, subvolume: 0 };
        let mut book = Book::new(options, "/m".into(), root);
        let begun = Instant::now();
        let mut database = Database {
            log: RocksdbLog::default(),
            at: None,
            old: VecDeque::new(),
            waiting: BTreeSet::new(),
            gone: BTreeMap::from([(12, (facts(5, 12), begun)), (13, (facts(6, 13), begun))]),
            due: begun,
        };
        let reported = |book: &mut Book| {
            let mut all = Vec::new();
            book.drain(|changes| {
                all.append(changes);
                (0, 0)
            });
            all
        };
        database.tell(&mut book, 1, begun);
        assert_eq!((reported(&mut book), database.gone.len()), (vec![], 2));
        database.log.feed(
            b"2026/11/22-09:43:34.162409 7 EVENT_LOG_v1 {\"job\": 2, \"event\": \"flush_started\"}\n\
              2026/11/22-09:43:34.186798 7 EVENT_LOG_v1 {\"job\": 2, \"event\": \"table_file_creation\", \
              \"file_number\": 12, \"file_size\": 5}\n",
        );
        database.tell(&mut book, 1, begun + GONE_FOR / 2);
        let late = FileFacts { level_written: Some(0), ..facts(5, 12) };
        let expected =
            [Change::File { facts: late, extents: None, seen_ns: 0 }, Change::Gone { inode: 5, generation: 1 }];
        assert_eq!((reported(&mut book), database.gone.len()), (expected.to_vec(), 1));
        database.tell(&mut book, 1, begun + GONE_FOR);
        assert_eq!((reported(&mut book), database.gone.len()), (vec![], 0));
    }

    #[test]
    fn tables_and_signs_are_known_by_their_names() {
        assert_eq!(table_number(b"000012.sst"), Some(12));
        assert_eq!(table_number(b"1234567.sst"), Some(1_234_567));
        for name in ["12.sst", "000012.log", "00001x.sst", ".sst", "99999999999999999999999.sst"] {
            assert_eq!(table_number(name.as_bytes()), None, "{name}");
        }
        assert!(is_sign(b"MANIFEST-000004") && is_sign(b"LOG") && !is_sign(b"LOG.old.1"));
    }
}
