//! A capture in several files: `--rotate-size` and `--rotate-every` begin a new one. Named by its first, it is read as one.

use super::{FORMAT, Segments, read_header};
use crate::{Faults, Knows, Names, Request, Source, TraceError};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where file number `file` of the capture is whose first is `path`: `trace.fbr`, `trace.1.fbr`, `trace.2.fbr`, ...
#[must_use]
pub fn rotated_path(path: &Path, file: u32) -> PathBuf {
    if file == 0 {
        return path.to_owned();
    }
    match path.extension() {
        Some(extension) => path.with_extension(format!("{file}.{}", extension.to_string_lossy())),
        None => path.with_extension(file.to_string()),
    }
}

/// The files behind `path`, with their numbers, if it is the first of a capture; none for any other file. A file of that
/// name whose header is damaged may be one of them.
///
/// # Errors
/// `path` or its directory cannot be read.
pub fn rotated_files(path: &Path) -> Result<Vec<(u32, PathBuf)>, TraceError> {
    let header_of = |path: &Path| -> Result<Option<super::Header>, TraceError> {
        let mut file = File::open(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        match read_header(&mut file) {
            Ok((header, _)) => Ok(Some(header)),
            Err(TraceError::Malformed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let Some(first) = header_of(path)?.filter(|header| header.file == 0) else { return Ok(Vec::new()) };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unreadable = |source| TraceError::Open { path: directory.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let Some(number) = number_of(path, Path::new(&name)) else { continue };
        let file = rotated_path(path, number);
        let header = header_of(&file)?;
        if header.is_none_or(|header| header.capture == first.capture && header.file == number) {
            found.push((number, file));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The number in `name`, if it is that of a later file of the capture that begins with `path`.
fn number_of(path: &Path, name: &Path) -> Option<u32> {
    let stem = name.to_str()?.strip_prefix(path.file_stem()?.to_str()?)?.strip_prefix('.')?;
    let digits = stem.split('.').next()?;
    let number = digits.parse().ok().filter(|&number| number > 0)?;
    (rotated_path(path, number).file_name()? == name.as_os_str()).then_some(number)
}

/// A capture being read, file after file.
pub struct Capture {
    current: Segments<File>,
    file: u32,
    rest: VecDeque<(u32, PathBuf)>,
    /// Of the files that have been read.
    before: Faults,
    faults: Faults,
}

impl Capture {
    /// Reads the file `path`, and those behind it if it is the first of a capture.
    ///
    /// # Errors
    /// A file that is no capture or whose header is damaged; reading.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        let current = Segments::open(file)?;
        let rest = rotated_files(path)?.into();
        Ok(Self { current, file: 0, rest, before: Faults::default(), faults: Faults::default() })
    }

    /// Takes up the next file that can be read; `false` where there is none.
    fn next_file(&mut self) -> bool {
        self.before = std::mem::take(&mut self.faults);
        while let Some((number, path)) = self.rest.pop_front() {
            let missing = number.saturating_sub(self.file).saturating_sub(1);
            if missing > 0 {
                self.before.note(0, || format!("{missing} files of the capture are missing before {}", path.display()));
            }
            self.file = number;
            let opened = File::open(&path)
                .map_err(|source| TraceError::Open { path: path.clone(), source })
                .and_then(Segments::open);
            match opened {
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

    /// What could not be read up to now, of all files.
    fn gather(&mut self) {
        let current = self.current.faults();
        if self.before.count + current.count == self.faults.count {
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
    }
}

impl Source for Capture {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        loop {
            let goes_on = self.current.read(into, names);
            self.gather();
            if goes_on? {
                return Ok(true);
            }
            if !self.next_file() {
                return Ok(false);
            }
        }
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        self.current.knows()
    }

    fn notes(&self) -> Vec<String> {
        match self.file {
            0 => Vec::new(),
            file => vec![format!("{FORMAT}: the capture has rotated; read up to its file {file}")],
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::{Captured, Header, Name, SegmentWriter, Volume};
    use super::*;
    use crate::Op;

    /// Writes file `number` of a capture, of one request at that second by the process `p<number>`.
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
        let told = requests
            .iter()
            .map(|request| (request.offset_bytes / 4096, names.processes.name(request.process).to_owned()))
            .collect();
        (told, capture.faults().clone())
    }

    fn told(numbers: &[u64]) -> Vec<(u64, String)> {
        numbers.iter().map(|&number| (number, format!("p{number}"))).collect()
    }

    #[test]
    fn the_files_of_a_capture_are_read_as_one() {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("a.b.fbr");
        for number in 0..12 {
            write(&rotated_path(&first, number), 7, number);
        }
        // Of other captures, and no files of this one.
        write(&folder.path().join("a.b.12.fbr"), 8, 12);
        write(&folder.path().join("a.b.013.fbr"), 7, 13);
        write(&folder.path().join("a.fbr"), 7, 0);
        write(&folder.path().join("a.b.14.fbt"), 7, 14);
        let (requests, faults) = read(&first);
        assert_eq!(requests, told(&(0..12).collect::<Vec<_>>()));
        assert_eq!(faults, Faults::default());
        assert_eq!(read(&rotated_path(&first, 3)).0, told(&[3]), "a later one is itself alone");
    }

    #[test]
    fn what_is_missing_or_damaged_of_a_capture_is_told() {
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
        assert_eq!(requests, told(&[0, 1, 4, 6]));
        let told: Vec<&str> = faults.first.iter().map(|fault| fault.what.as_str()).collect();
        assert!(told[0].starts_with("2 files of the capture are missing before"), "{told:?}");
        assert!(told[1].contains("a.5.fbr: "), "{told:?}");
        assert!(told[2].starts_with("in file 6 of the capture: the end of the file is cut off"), "{told:?}");
        assert_eq!(faults.count as usize, told.len());
    }
}
