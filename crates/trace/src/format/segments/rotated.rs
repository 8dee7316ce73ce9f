//! A capture in several files: `--rotate-size` and `--rotate-every` begin new ones. If the first file is named, all are read as one.

use super::{Header, Segments, read_header};
use crate::{Faults, Knows, Names, Request, Source, TraceError};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The path of file number `file` of a capture whose first file is `path`: `trace.fbr`, `trace.1.fbr`, `trace.2.fbr`, ...
#[must_use]
pub fn rotated_path(path: &Path, file: u32) -> PathBuf {
    if file == 0 {
        return path.to_owned();
    }
    let mut extension = OsString::from(file.to_string());
    if let Some(last) = path.extension() {
        extension.push(".");
        extension.push(last);
    }
    path.with_extension(extension)
}

/// The first file of the capture to which `path` belongs as a later file, judged by its name, and the file's number.
#[must_use]
pub fn first_path(path: &Path) -> Option<(PathBuf, u32)> {
    let number = |text: &OsStr| text.to_str()?.parse().ok().filter(|&number| number > 0);
    let extension = path.extension()?;
    let stem = path.with_extension("");
    let (first, number) = match number(extension) {
        Some(number) => (stem, number),
        None => (stem.with_extension(extension), number(stem.extension()?)?),
    };
    (rotated_path(&first, number) == path).then_some((first, number))
}

/// Whether `path` is a later file of a capture whose first file is beside it.
#[must_use]
pub fn is_later_file(path: &Path) -> bool {
    let Some((first, number)) = first_path(path) else { return false };
    capture_header(path)
        .ok()
        .zip(capture_header(&first).ok())
        .is_some_and(|(header, first)| is_part(&header, number, &first))
}

/// The header of the file `path`.
///
/// # Errors
/// The file cannot be read, is no capture, or its header is damaged.
pub fn capture_header(path: &Path) -> Result<Header, TraceError> {
    Ok(read_header(&mut open_file(path)?)?.0)
}

fn is_part(header: &Header, number: u32, first: &Header) -> bool {
    header.capture == first.capture && header.file == number && first.file == 0
}

/// Opens a regular file; a pipe, for example, might block forever.
fn open_file(path: &Path) -> Result<File, TraceError> {
    let of = |source| TraceError::Open { path: path.to_owned(), source };
    if !path.metadata().map_err(of)?.is_file() {
        return Err(of(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    File::open(path).map_err(of)
}

/// The later files of a capture with their numbers: all with such names, except those of other captures.
fn later_files(path: &Path, first: &Header) -> io::Result<Vec<(u32, PathBuf)>> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let file = path.with_file_name(entry?.file_name());
        let Some((_, number)) = first_path(&file).filter(|(first, _)| first == path) else { continue };
        // A file that cannot be read may belong to it: reading it will report the error.
        if capture_header(&file).is_ok_and(|header| !is_part(&header, number, first)) {
            continue;
        }
        found.push((number, file));
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads a capture, file after file.
pub struct Capture {
    current: Segments<File>,
    file: u32,
    rest: VecDeque<(u32, PathBuf)>,
    /// Faults of the files that have been read.
    before: Faults,
    faults: Faults,
    is_over: bool,
}

impl Capture {
    /// Reads the file `path`, and the later ones if it is the first of a capture.
    ///
    /// # Errors
    /// The file is no capture, its header is damaged, or reading failed.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        let current = Segments::open(file)?;
        let mut before = Faults::default();
        let rest = match current.header().file {
            0 => later_files(path, current.header()).unwrap_or_else(|error| {
                before.note(0, || format!("later files of the capture cannot be looked for: {error}"));
                Vec::new()
            }),
            _ => Vec::new(),
        };
        Ok(Self { current, file: 0, rest: rest.into(), faults: before.clone(), before, is_over: false })
    }

    /// Opens the next file that can be read; `false` if there is none.
    fn next_file(&mut self) -> bool {
        self.before = std::mem::take(&mut self.faults);
        while let Some((number, path)) = self.rest.pop_front() {
            let missing = number.saturating_sub(self.file).saturating_sub(1);
            if missing > 0 {
                self.before.note(0, || format!("{missing} files of the capture are missing before {}", path.display()));
            }
            self.file = number;
            match open_file(&path).and_then(Segments::open) {
                Ok(segments) => {
                    self.current = segments;
                    self.gather();
                    return true;
                }
                Err(error) => self.before.note(0, || format!("{}: {error}", path.display())),
            }
        }
        self.faults = self.before.clone();
        false
    }

    /// Combines what could not be read so far in all files.
    fn gather(&mut self) {
        let current = self.current.faults();
        // Each file counts all events dropped since the capture began.
        let missing = self.before.missing.max(current.missing);
        if self.before.count + current.count == self.faults.count {
            self.faults.missing = missing;
            return;
        }
        self.faults = self.before.clone();
        for fault in &current.first {
            let what = || match self.file {
                0 => fault.what.clone(),
                file => format!("in file {file} of the capture: {}", fault.what),
            };
            self.faults.note(fault.place, what);
        }
        self.faults.count = self.before.count + current.count;
        self.faults.missing = missing;
    }
}

impl Source for Capture {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        while !self.is_over {
            let goes_on = self.current.read(into, names);
            self.gather();
            if goes_on? {
                return Ok(true);
            }
            self.is_over = !self.next_file();
        }
        Ok(false)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        self.current.knows()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{Captured, Header, Name, SegmentWriter, Volume};
    use super::*;
    use crate::Op;

    /// Writes file number `number` of a capture, with one request at that second by the process `p<number>`.
    fn write(path: &Path, capture: u8, number: u32) {
        let volume = Volume { name: "sda".to_owned(), size_bytes: 1 << 30 };
        let header = Header { capture: [capture; 16], begin_unix_ns: 5, file: number, volumes: vec![volume] };
        let mut writer = SegmentWriter::begin(File::create(path).unwrap(), header).unwrap();
        let request = Request {
            process: 1,
            ..Request::new(u64::from(number) * 1_000_000_000, Op::Write, u64::from(number) * 4096, 4096)
        };
        writer.names(&[Name::Process { number: 1, name: format!("p{number}") }], 0).unwrap();
        writer.records(&[Captured { request, file_system: 0, generation: 0 }], 0).unwrap();
        writer.finish(0).unwrap();
    }

    fn read(path: &Path) -> (Vec<(u64, String)>, Faults) {
        let mut capture = Capture::open(path).unwrap();
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while capture.read(&mut requests, &mut names).unwrap() {}
        let paths = requests
            .iter()
            .map(|request| (request.offset_bytes / 4096, names.processes.name(request.process).to_owned()))
            .collect();
        (paths, capture.faults().clone())
    }

    fn paths(numbers: &[u64]) -> Vec<(u64, String)> {
        numbers.iter().map(|&number| (number, format!("p{number}"))).collect()
    }

    #[test]
    fn later_files_are_known_by_their_names() {
        let of = |text: &str| first_path(Path::new(text)).map(|(first, number)| (first.display().to_string(), number));
        assert_eq!(of("/d/a.b.12.fbr"), Some(("/d/a.b.fbr".to_owned(), 12)));
        assert_eq!(of("a.3"), Some(("a".to_owned(), 3)));
        for text in ["a.fbr", "a.0.fbr", "a.01.fbr", "a.+1.fbr", "a.-1.fbr", "a.4294967296.fbr", ".1.fbr/x", "12"] {
            assert_eq!(of(text), None, "{text}");
        }
        for (first, number) in [("/d/a.b.fbr", 12), ("a", 3), ("a.5.fbr", 7)] {
            let first = Path::new(first);
            assert_eq!(first_path(&rotated_path(first, number)), Some((first.to_owned(), number)));
        }
    }

    #[test]
    fn the_files_of_a_capture_are_read_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.b.fbr");
        for number in 0..12 {
            write(&rotated_path(&first, number), 7, number);
        }
        // Files of other captures, or with names that do not belong to this one.
        write(&folder.path().join("a.b.12.fbr"), 8, 12);
        write(&folder.path().join("a.b.013.fbr"), 7, 13);
        write(&folder.path().join("a.fbr"), 7, 0);
        write(&folder.path().join("a.b.14.fbt"), 7, 14);
        write(&folder.path().join("a.b.15.fbr"), 7, 16);
        let (requests, faults) = read(&first);
        assert_eq!(requests, paths(&(0..12).collect::<Vec<_>>()));
        assert_eq!(faults, Faults::default());
        assert_eq!(read(&rotated_path(&first, 3)).0, paths(&[3]), "a later one is itself alone");
        for (name, is_later) in [("a.b.fbr", false), ("a.b.11.fbr", true), ("a.b.12.fbr", false), ("a.b.15.fbr", false)]
        {
            assert_eq!(is_later_file(&folder.path().join(name)), is_later, "{name}");
        }
    }

    #[test]
    fn what_is_missing_or_damaged_of_a_capture_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.fbr");
        for number in [0, 1, 4, 5, 6] {
            write(&rotated_path(&first, number), 7, number);
        }
        std::fs::write(rotated_path(&first, 5), b"FOREBAYR and nothing else").unwrap();
        let cut = rotated_path(&first, 6);
        let file = File::options().write(true).open(&cut).unwrap();
        file.set_len(cut.metadata().unwrap().len() - 1).unwrap();
        let (requests, faults) = read(&first);
        assert_eq!(requests, paths(&[0, 1, 4, 6]));
        let reported: Vec<&str> = faults.first.iter().map(|fault| fault.what.as_str()).collect();
        assert!(reported[0].starts_with("2 files of the capture are missing before"), "{reported:?}");
        assert!(reported[1].contains("a.5.fbr: "), "{reported:?}");
        assert!(reported[2].starts_with("in file 6 of the capture: the end of the file is cut off"), "{reported:?}");
        assert_eq!(faults.count as usize, reported.len());
    }

    #[test]
    fn faults_are_reported_once_however_often_its_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.fbr");
        write(&first, 7, 0);
        let file = File::options().write(true).open(&first).unwrap();
        file.set_len(first.metadata().unwrap().len() - 1).unwrap();
        let mut capture = Capture::open(&first).unwrap();
        let (mut requests, mut names) = (Vec::new(), Names::default());
        while capture.read(&mut requests, &mut names).unwrap() {}
        let count = capture.faults().count;
        assert!(!capture.read(&mut requests, &mut names).unwrap());
        assert!(!capture.read(&mut requests, &mut names).unwrap());
        assert_eq!(capture.faults().count, count);
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_followed() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.fbr"));
        for number in 0..3 {
            write(&rotated_path(&first, number), 7, number);
        }
        assert_eq!(read(&first).0, paths(&[0, 1, 2]));
    }

    #[test]
    fn what_is_no_file_by_the_name_of_a_later_one_is_reported_and_costs_nothing() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.fbr");
        write(&first, 7, 0);
        std::fs::create_dir(rotated_path(&first, 1)).unwrap();
        std::os::unix::fs::symlink("/nowhere", rotated_path(&first, 2)).unwrap();
        mknodat(CWD, rotated_path(&first, 3), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        write(&rotated_path(&first, 4), 7, 4);
        // A pipe without a writer would block.
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(read(&first)));
        let (requests, faults) = is_done.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        assert_eq!((requests, faults.count), (paths(&[0, 4]), 3));
        for (number, fault) in (1..).zip(&faults.first) {
            assert!(fault.what.contains(&format!("a.{number}.fbr")), "{faults:?}");
        }
    }
}
