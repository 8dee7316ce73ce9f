//! The files of a capture: segments that are written when full or old, rotation, and the names that each file needs.

use super::error::CaptureError;
use super::event::COMM_BYTES;
use super::matcher::Matched;
use crate::format::segments::{CaptureId, Captured, Header, Name, SegmentWriter, Volume, rotated_path};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of records of a full segment.
const SEGMENT_RECORDS: usize = 65_536;
/// A segment that is not full is written this long after the last one.
const SEGMENT_AGE: Duration = Duration::from_secs(1);
/// Most paths that are remembered, and most files whose path is awaited.
const PATHS_MAX: usize = 1 << 20;
/// How long the path of a deleted file is remembered: requests are reported only when they have completed.
const GONE_FOR: Duration = Duration::from_secs(10);

/// The files of a capture, and when a new one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputOptions {
    /// Path of the first file.
    pub path: PathBuf,
    /// Size in bytes at which a new file begins; `None` for no limit.
    pub rotate_bytes: Option<u64>,
    /// Time after which a new file begins; `None` for no limit.
    pub rotate_every: Option<Duration>,
}

/// Identity of a file during its life: file system (`major << 20 | minor`), inode and generation. Generation 0 is for file systems that
/// report none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId {
    pub file_system: u32,
    pub inode: u64,
    pub generation: u32,
}

/// The path and level of a file.
#[derive(Debug)]
struct Known {
    path: String,
    level: Option<u8>,
    gone: Option<Instant>,
}

/// Writes the files of a capture.
#[derive(Debug)]
pub(super) struct Output {
    options: OutputOptions,
    header: Header,
    writer: SegmentWriter<File>,
    path: PathBuf,
    files: Vec<PathBuf>,
    file_begun: Instant,
    /// Numbers of the processes in this file, and the files that its requests belong to.
    processes: HashMap<[u8; COMM_BYTES], u32>,
    asked: HashSet<FileId>,
    paths: HashMap<FileId, Known>,
    gone: VecDeque<(Instant, FileId)>,
    names: Vec<Name>,
    pending: Vec<Captured>,
    written: Instant,
}

fn begin(path: &Path, header: &Header) -> Result<SegmentWriter<File>, CaptureError> {
    let file = File::create_new(path).map_err(|source| CaptureError::Create { path: path.to_owned(), source })?;
    SegmentWriter::begin(file, header.clone()).map_err(|source| CaptureError::Write { path: path.to_owned(), source })
}

impl Output {
    pub fn begin(
        options: OutputOptions,
        capture: CaptureId,
        begin_unix_ns: u64,
        volumes: Vec<Volume>,
    ) -> Result<Self, CaptureError> {
        let header = Header { capture, begin_unix_ns, file: 0, volumes };
        let path = options.path.clone();
        let writer = begin(&path, &header)?;
        Ok(Self {
            options,
            header,
            writer,
            files: vec![path.clone()],
            path,
            file_begun: Instant::now(),
            processes: HashMap::new(),
            asked: HashSet::new(),
            paths: HashMap::new(),
            gone: VecDeque::new(),
            names: Vec::new(),
            pending: Vec::new(),
            written: Instant::now(),
        })
    }

    /// The files written so far, in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub fn add(&mut self, matched: &Matched) {
        let mut captured = matched.captured;
        let next = self.processes.len() as u32 + 1;
        let names = &mut self.names;
        captured.request.process = *self.processes.entry(matched.comm).or_insert_with(|| {
            names.push(Name::Process { number: next, name: process_name(&matched.comm) });
            next
        });
        if captured.request.inode != 0 {
            let Captured { request, file_system, generation } = captured;
            let file = FileId { file_system, inode: request.inode, generation };
            if self.asked.len() < PATHS_MAX && self.asked.insert(file) {
                // Some file systems report no generation with a name.
                let without = FileId { generation: 0, ..file };
                if !self.tell(file) && self.asked.insert(without) {
                    self.tell(without);
                }
            }
        }
        self.pending.push(captured);
    }

    /// Writes the name of a file; returns whether it is known.
    fn tell(&mut self, file: FileId) -> bool {
        let Some(known) = self.paths.get(&file) else { return false };
        let FileId { file_system, inode, generation } = file;
        let (level, path) = (known.level, known.path.clone());
        self.names.push(Name::File { file_system, inode, generation, level, path });
        true
    }

    /// Sets the path of a file, and the level of RocksDB's table in it, if it is one. It is written if a request belongs to the file.
    pub fn add_path(&mut self, file: FileId, path: String, level: Option<u8>) {
        if let Some(known) = self.paths.get_mut(&file) {
            known.gone = None;
            if known.path == path && known.level == level {
                return;
            }
            known.path = path;
            known.level = level;
        } else if self.paths.len() < PATHS_MAX {
            self.paths.insert(file, Known { path, level, gone: None });
        }
        if self.asked.contains(&file) {
            self.tell(file);
        }
    }

    /// Notes that a file was deleted.
    pub fn gone(&mut self, file: FileId) {
        let now = Instant::now();
        if let Some(known) = self.paths.get_mut(&file) {
            known.gone = Some(now);
            self.gone.push_back((now, file));
        }
        while let Some((at, file)) = self.gone.front().filter(|(at, _)| at.elapsed() > GONE_FOR) {
            // The file may have come back.
            if self.paths.get(file).is_some_and(|known| known.gone == Some(*at)) {
                self.paths.remove(file);
                self.asked.remove(file);
            }
            self.gone.pop_front();
        }
    }

    /// Writes a segment if it is due, and begins a new file if that is due.
    pub fn turn(&mut self, dropped: u64) -> Result<(), CaptureError> {
        if self.pending.len() < SEGMENT_RECORDS && self.written.elapsed() < SEGMENT_AGE {
            return Ok(());
        }
        self.write(dropped)?;
        let is_full = self.options.rotate_bytes.is_some_and(|bytes| self.writer.size_bytes() >= bytes);
        let is_old = self.options.rotate_every.is_some_and(|every| self.file_begun.elapsed() >= every);
        if is_full || is_old { self.rotate(dropped) } else { Ok(()) }
    }

    fn write(&mut self, dropped: u64) -> Result<(), CaptureError> {
        self.written = Instant::now();
        let path = &self.path;
        let failed = |source| CaptureError::Write { path: path.clone(), source };
        self.writer.names(&self.names, dropped).map_err(failed)?;
        self.names.clear();
        self.writer.records(&self.pending, dropped).map_err(failed)?;
        self.pending.clear();
        Ok(())
    }

    fn rotate(&mut self, dropped: u64) -> Result<(), CaptureError> {
        self.header.file += 1;
        let path = rotated_path(&self.options.path, self.header.file);
        let next = begin(&path, &self.header)?;
        let (writer, ended) =
            (std::mem::replace(&mut self.writer, next), std::mem::replace(&mut self.path, path.clone()));
        self.files.push(path);
        self.file_begun = Instant::now();
        self.processes.clear();
        self.asked.clear();
        end(writer, &ended, dropped)
    }

    pub fn finish(mut self, dropped: u64) -> Result<Vec<PathBuf>, CaptureError> {
        self.write(dropped)?;
        end(self.writer, &self.path, dropped)?;
        Ok(self.files)
    }
}

fn end(writer: SegmentWriter<File>, path: &Path, dropped: u64) -> Result<(), CaptureError> {
    let ended = writer.finish(dropped).and_then(|file| file.sync_data());
    ended.map_err(|source| CaptureError::Write { path: path.to_owned(), source })
}

/// The name of a process without its padding.
#[must_use]
pub fn process_name(comm: &[u8; COMM_BYTES]) -> String {
    let len = comm.iter().position(|&byte| byte == 0).unwrap_or(COMM_BYTES);
    String::from_utf8_lossy(&comm[..len]).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::format::Segments;
    use crate::{Names, Op, Request, Source};

    fn matched(index: u64) -> Matched {
        let request = Request { inode: 5, ..Request::new(index, Op::Write, index * 512, 512) };
        Matched {
            captured: Captured { request, file_system: 1, generation: 3 },
            comm: *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
        }
    }

    #[test]
    fn rotated_files_are_whole_by_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.fbr");
        let options = OutputOptions { path: path.clone(), rotate_bytes: Some(1), rotate_every: None };
        let volumes = vec![Volume { name: "loop3".to_owned(), size_bytes: 4096 }];
        let mut output = Output::begin(options, [1; 16], 5, volumes).unwrap();
        output.add_path(FileId { file_system: 1, inode: 5, generation: 3 }, "/x".to_owned(), Some(2));
        for index in 0..3 {
            output.add(&matched(index));
            output.written = Instant::now() - SEGMENT_AGE;
            output.turn(0).unwrap();
        }
        output.add(&matched(3));
        let files = output.finish(0).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["a.fbr", "a.1.fbr", "a.2.fbr", "a.3.fbr"]);
        for (index, file) in files.iter().enumerate() {
            let mut segments = Segments::open(File::open(file).unwrap()).unwrap();
            let (mut requests, mut names) = (Vec::new(), Names::default());
            while segments.read(&mut requests, &mut names).unwrap() {}
            assert_eq!(segments.faults().count, 0, "{:?}", segments.faults());
            assert_eq!(
                (segments.header().file, requests.len(), requests[0].issued_ns),
                (index as u32, 1, index as u64)
            );
            assert_eq!(names.paths.name(requests[0].path), "/x");
            assert_eq!(names.levels.get(requests[0].path), Some(2));
            assert_eq!(names.processes.name(requests[0].process), "fio");
        }
    }

    #[test]
    fn names_come_before_and_behind_requests_and_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.fbr");
        let options = OutputOptions { path, rotate_bytes: None, rotate_every: None };
        let volumes = vec![Volume { name: "loop3".to_owned(), size_bytes: 4096 }];
        let mut output = Output::begin(options, [1; 16], 5, volumes).unwrap();
        let file = FileId { file_system: 1, inode: 5, generation: 3 };
        output.add_path(FileId { generation: 2, ..file }, "/another".to_owned(), None);
        output.add(&matched(0));
        output.write(0).unwrap();
        output.add_path(file, "/first".to_owned(), None);
        output.write(0).unwrap();
        output.add_path(file, "/second".to_owned(), None);
        output.gone(file);
        output.add(&matched(1));
        let files = output.finish(0).unwrap();
        let mut segments = Segments::open(File::open(&files[0]).unwrap()).unwrap();
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while segments.read(&mut requests, &mut names).unwrap() {}
        let paths: Vec<&str> = requests.iter().map(|request| names.paths.name(request.path)).collect();
        assert_eq!(paths, ["/first", "/second"]);
    }

    #[test]
    fn no_file_is_overwritten() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let options = OutputOptions { path: file.path().to_owned(), rotate_bytes: None, rotate_every: None };
        let error = Output::begin(options, [1; 16], 5, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("never overwritten"), "{error}");
    }
}
