//! Levels of RocksDB tables in a trace, taken from the LOG files of its databases.

use anyhow::{Context, Result, bail};
use forebay_trace::reading::open_file;
use forebay_trace::rocksdb_log::RocksdbLog;
use forebay_trace::{Faults, Knows, Names, Request, Source, TraceError};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a LOG per read.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum number of LOG files.
const LOGS_MAX: usize = 256;

struct Database {
    directory: PathBuf,
    log: RocksdbLog,
}

/// Levels to which tables were written, for one database or several.
pub struct Levels {
    databases: Vec<Database>,
}

impl Levels {
    /// Reads LOG files. Those of one directory belong to one database, older files first.
    ///
    /// # Errors
    /// A file cannot be read, or contains no table.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        if paths.len() > LOGS_MAX {
            bail!("--rocksdb-log: {} files; at most {LOGS_MAX}", paths.len());
        }
        let mut databases: Vec<Database> = Vec::new();
        for path in paths {
            let about = || format!("--rocksdb-log {}", path.display());
            let whole = path.canonicalize().with_context(about)?;
            let directory = whole.parent().map(Path::to_owned).unwrap_or_default();
            let at = databases.iter().position(|known| known.directory == directory).unwrap_or_else(|| {
                databases.push(Database { directory, log: RocksdbLog::default() });
                databases.len() - 1
            });
            let log = &mut databases[at].log;
            let mut file = open_file(path).with_context(about)?;
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                match file.read(&mut chunk).with_context(about)? {
                    0 => break,
                    len => log.feed(&chunk[..len]),
                }
            }
            log.end();
            if log.created_levels().next().is_none() {
                bail!("{}: tells of no table that was written; the LOG of a RocksDB database is wanted", about());
            }
        }
        Ok(Self { databases })
    }

    /// Unreadable parts of the LOG files, one line each.
    pub fn faults(&self) -> Vec<String> {
        let bad = self.databases.iter().filter(|database| database.log.faults().count > 0);
        bad.map(|database| {
            let (faults, directory) = (database.log.faults(), database.directory.display());
            let first = faults
                .first
                .first()
                .map_or_else(String::new, |fault| format!("; the first is line {}: {}", fault.place, fault.what));
            format!("--rocksdb-log: {} lines of {directory} could not be read{first}", faults.count)
        })
        .collect()
    }

    /// The level for which the table with this path was written.
    fn level(&self, path: &str) -> Option<u8> {
        let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
        let number = file.strip_suffix(".sst").filter(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()))?;
        self.of_directory(directory)?.log.level_created(number.parse().ok()?)
    }

    /// The database of a directory. A single database has all tables. Of several, it is the one whose directory ends with the path or the
    /// reverse, because a trace's paths are relative to a file system, which may have been mounted elsewhere.
    fn of_directory(&self, directory: &str) -> Option<&Database> {
        if let [only] = self.databases.as_slice() {
            return Some(only);
        }
        let parts = || directory.rsplit('/').filter(|part| !part.is_empty());
        let common = |database: &Database| {
            let mut known =
                database.directory.iter().rev().filter_map(|part| part.to_str()).filter(|part| *part != "/");
            let mut count = 0_usize;
            for part in parts() {
                match known.next() {
                    Some(other) if other == part => count += 1,
                    Some(_) => return None,
                    None => break,
                }
            }
            Some(count)
        };
        let fits: Vec<(usize, &Database)> =
            self.databases.iter().filter_map(|database| Some((common(database)?, database))).collect();
        let best = fits.iter().map(|(count, _)| *count).max()?;
        let mut of_best = fits.into_iter().filter(|(count, _)| *count == best);
        of_best.next().filter(|_| of_best.next().is_none()).map(|(_, database)| database)
    }
}

/// A trace whose paths get levels.
pub struct Leveled {
    pub source: Box<dyn Source + Send>,
    pub levels: Arc<Levels>,
    /// Number of paths examined.
    pub seen: usize,
}

impl Source for Leveled {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        let goes_on = self.source.read(into, names);
        let new = names.paths.iter().enumerate().skip(self.seen);
        for (number, path) in new {
            if let (Ok(number), Some(level)) = (u32::try_from(number), self.levels.level(path)) {
                names.levels.set(number, level);
            }
        }
        self.seen = names.paths.count();
        goes_on
    }

    fn faults(&self) -> &Faults {
        self.source.faults()
    }

    fn knows(&self) -> Knows {
        self.source.knows()
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn log(directory: &Path, name: &str, number: u64, level: u8) -> PathBuf {
        std::fs::create_dir_all(directory).unwrap();
        let path = directory.join(name);
        let at = "2026/11/22-09:43:34.414746 1";
        let text = format!(
            "{at} [f.cc:1] [default] [JOB 8] Compacting 2@0 files to L{level}, score 1.37\n\
             {at} [f.cc:1] [default] [JOB 8] Generated table #{number}: 1 keys, 7 bytes, temperature: kUnknown\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn tables_of_several_databases_are_distinguished_by_their_directories() {
        let root = tempfile::TempDir::new().unwrap();
        let (a, b) = (root.path().join("x/a"), root.path().join("x/b"));
        let one = [log(&a, "LOG.old.1", 7, 3), log(&a, "LOG", 8, 2)];
        let levels = Levels::read(&one).unwrap();
        // Two files of one directory form one database, which has all tables.
        let found = ["/mnt/other/000007.sst", "000008.sst", "000008.log", "9.sst", "+8.sst", ".sst"];
        assert_eq!(found.map(|path| levels.level(path)), [Some(3), Some(2), None, None, None, None]);
        assert!(levels.faults().is_empty());
        let levels = Levels::read(&[one[1].clone(), log(&b, "LOG", 8, 5)]).unwrap();
        let whole = format!("{}/000008.sst", b.canonicalize().unwrap().display());
        let found = ["a/000008.sst", "/x/b/000008.sst", &whole, "c/000008.sst", "000008.sst", "y/b/000008.sst"];
        assert_eq!(found.map(|path| levels.level(path)), [Some(2), Some(5), Some(5), None, None, None]);
    }

    #[test]
    fn a_file_that_is_no_log_is_refused() {
        let root = tempfile::TempDir::new().unwrap();
        let path = root.path().join("LOG");
        std::fs::write(&path, "nothing\n").unwrap();
        let error = format!("{:#}", Levels::read(&[path]).err().unwrap());
        assert!(error.contains("tells of no table"), "{error}");
        assert!(Levels::read(&[root.path().join("none")]).is_err());
    }
}
