//! A directory with one or more files per volume: `DIR/volume=NAME/part-N.parquet`, in Hive's layout.

use super::HIVE_NULL;
use super::group::{Groups, ROW_GROUP_ROWS, failed, unfit};
use super::knowledge::knowledge;
use super::texts::{Texts, text};
use super::writer::Written;
use crate::format::partial::{refuse_existing, with_partial};
use crate::{Faults, Knows, Names, Request, TraceError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Most requests that wait for their row group, over all volumes: 80 MB.
const WAITING_ROWS_MAX: usize = 1 << 20;
/// Most files open at once.
const OPEN_FILES_MAX: usize = 64;
/// Most volumes of a trace.
const VOLUMES_MAX: usize = 65_536;
/// Longest name of a directory in bytes.
const NAME_BYTES_MAX: usize = 255;
const PREFIX: &str = "volume=";

/// Writes a trace of many volumes to a directory that is partitioned by volume.
///
/// At most 64 files are open, and at most 1 Mi requests wait in memory; with more volumes than open files, a volume gets several parts. The
/// directory is named `DIR.partial` until [`PartitionedWriter::finish`].
pub struct PartitionedWriter {
    to: PathBuf,
    at: PathBuf,
    /// Lock on the directory while it is written.
    _lock: File,
    is_whole: bool,
    volumes: BTreeMap<u32, Volume>,
    waiting_rows: usize,
    open_files: usize,
    /// Counts row groups, to find the file that was written to least recently.
    clock: u64,
    texts: Texts,
    knows: Knows,
    written: Written,
    received: u64,
    limits: Limits,
}

/// Limits on memory and files; smaller ones in tests.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub waiting_rows: usize,
    pub open_files: usize,
}

#[derive(Default)]
struct Volume {
    rows: Vec<Request>,
    open: Option<(Groups, PathBuf)>,
    parts: u32,
    written_at: u64,
}

impl PartitionedWriter {
    /// Begins the directory `path`, which must not exist yet, for a trace with these facts. What a killed writer has left in `path.partial`
    /// is removed.
    ///
    /// # Errors
    /// The directory exists or cannot be created, another process is writing it, or `path.partial` is something else.
    pub fn create(path: &Path, knows: &Knows) -> Result<Self, TraceError> {
        Self::with_limits(path, knows, Limits { waiting_rows: WAITING_ROWS_MAX, open_files: OPEN_FILES_MAX })
    }

    pub(super) fn with_limits(path: &Path, knows: &Knows, limits: Limits) -> Result<Self, TraceError> {
        let open = |path: &Path, source| TraceError::Open { path: path.to_owned(), source };
        // A trailing `/` does not belong to the name; `fleet/.partial` would be in a directory that does not exist.
        let path: PathBuf = path.components().collect();
        refuse_existing(&path).map_err(|source| open(&path, source))?;
        let at = with_partial(&path);
        let lock = own(&at).map_err(|source| open(&at, source))?;
        // The other writer may have finished in between: then this is its directory, under its final name.
        refuse_existing(&path).map_err(|source| open(&path, source))?;
        clear(&at).map_err(|source| open(&at, source))?;
        Ok(Self {
            to: path,
            at,
            _lock: lock,
            is_whole: false,
            volumes: BTreeMap::new(),
            waiting_rows: 0,
            open_files: 0,
            clock: 0,
            texts: Texts::default(),
            knows: *knows,
            written: Written { refused: Faults { by_line: true, ..Faults::default() }, ..Written::default() },
            received: 0,
            limits,
        })
    }

    /// Like [`super::ParquetWriter::write`]. A request whose volume's name is too long for a directory is refused too.
    ///
    /// # Errors
    /// A file cannot be written, or there are more than 65,536 volumes. The writer cannot be used afterwards.
    pub fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        self.texts.learn(names);
        for request in requests {
            self.received += 1;
            if let Some((what, value)) = unfit(request) {
                self.written.refused.note(self.received, || format!("{what} of {value} is above 2^63 - 1"));
                continue;
            }
            if !self.volumes.contains_key(&request.volume) {
                if directory_name(names.volumes.name(request.volume)).len() > NAME_BYTES_MAX {
                    let refused = || "the name of its volume is too long for a directory".to_owned();
                    self.written.refused.note(self.received, refused);
                    continue;
                }
                if self.volumes.len() >= VOLUMES_MAX {
                    let source = io::Error::other(format!("more than {VOLUMES_MAX} volumes"));
                    return Err(TraceError::WriteFile { path: self.to.clone(), source });
                }
            }
            let volume = self.volumes.entry(request.volume).or_default();
            volume.rows.push(*request);
            self.waiting_rows += 1;
            if volume.rows.len() >= ROW_GROUP_ROWS {
                self.write_group(request.volume)?;
            } else if self.waiting_rows >= self.limits.waiting_rows {
                self.make_room()?;
            }
        }
        Ok(())
    }

    /// Writes the volumes with most waiting requests until half of all are written: so each request is sorted only a few times, however
    /// many volumes there are.
    fn make_room(&mut self) -> Result<(), TraceError> {
        let mut volumes: Vec<(usize, u32)> = self.volumes.iter().map(|(&n, volume)| (volume.rows.len(), n)).collect();
        volumes.sort_unstable_by(|a, b| b.cmp(a));
        for (_, number) in volumes {
            if self.waiting_rows <= self.limits.waiting_rows / 2 {
                break;
            }
            self.write_group(number)?;
        }
        Ok(())
    }

    fn write_group(&mut self, number: u32) -> Result<(), TraceError> {
        if self.volumes.get(&number).is_none_or(|volume| volume.open.is_none()) {
            if self.open_files >= self.limits.open_files {
                self.close_oldest()?;
            }
            self.open(number)?;
        }
        self.clock += 1;
        let Some(volume) = self.volumes.get_mut(&number) else { return Ok(()) };
        let Some((groups, path)) = &mut volume.open else { return Ok(()) };
        // The memory is freed too, or volumes that were once large would keep it.
        let rows = std::mem::take(&mut volume.rows);
        groups.write(&rows, &self.texts).map_err(|error| failed(path, error))?;
        volume.written_at = self.clock;
        self.waiting_rows -= rows.len();
        self.written.rows += rows.len() as u64;
        Ok(())
    }

    /// Begins the next part of a volume.
    fn open(&mut self, number: u32) -> Result<(), TraceError> {
        let name = name(&self.texts, number);
        let directory = self.at.join(directory_name(&name));
        let Some(volume) = self.volumes.get_mut(&number) else { return Ok(()) };
        let path = directory.join(format!("part-{}.parquet", volume.parts));
        let file = fs::create_dir_all(&directory).and_then(|()| File::create_new(&path));
        let file = file.map_err(|source| TraceError::WriteFile { path: path.clone(), source })?;
        let groups = Groups::new(file, false, self.knows).map_err(|error| failed(&path, error))?;
        volume.open = Some((groups, path));
        volume.parts += 1;
        self.open_files += 1;
        Ok(())
    }

    fn close_oldest(&mut self) -> Result<(), TraceError> {
        let open = self.volumes.iter().filter(|(_, volume)| volume.open.is_some());
        match open.min_by_key(|(_, volume)| volume.written_at).map(|(&number, _)| number) {
            Some(number) => self.close(number, &Faults::default()),
            None => Ok(()),
        }
    }

    fn close(&mut self, number: u32, of_source: &Faults) -> Result<(), TraceError> {
        let name = name(&self.texts, number);
        let Some(volume) = self.volumes.get_mut(&number) else { return Ok(()) };
        let Some((groups, path)) = volume.open.take() else { return Ok(()) };
        self.open_files -= 1;
        groups
            .finish(knowledge(self.knows, of_source).to_string(), Some(&name))
            .map_err(|error| failed(&path, error))?;
        let synced = File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|source| TraceError::WriteFile { path, source })
    }

    /// Completes all files and gives the directory its name. `of_source` is what could not be read of the trace; it is stored in the last
    /// file of each volume that is still open.
    ///
    /// # Errors
    /// A file cannot be written, or the directory's name has been taken meanwhile. Nothing is left then.
    pub fn finish(mut self, of_source: &Faults) -> Result<Written, TraceError> {
        let numbers: Vec<u32> = self.volumes.keys().copied().collect();
        for number in numbers {
            if self.volumes.get(&number).is_some_and(|volume| !volume.rows.is_empty()) {
                self.write_group(number)?;
            }
            self.close(number, of_source)?;
        }
        let renamed = refuse_existing(&self.to).and_then(|()| fs::rename(&self.at, &self.to));
        renamed.map_err(|source| TraceError::WriteFile { path: self.to.clone(), source })?;
        self.is_whole = true;
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for PartitionedWriter {
    fn drop(&mut self) {
        if !self.is_whole {
            // The directory belongs to this writer: it was locked, and empty.
            let _ = fs::remove_dir_all(&self.at);
        }
    }
}

/// Makes the directory `at`, if it does not exist, and locks it for its only writer.
fn own(at: &Path) -> io::Result<File> {
    match fs::create_dir(at) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && fs::symlink_metadata(at)?.is_dir() => {}
        made => made?,
    }
    let lock = File::open(at)?;
    lock.try_lock().map_err(|_| io::Error::new(ErrorKind::ResourceBusy, "another convert is writing it"))?;
    Ok(lock)
}

/// Removes what a killed writer has left in its directory; nothing if there is anything else.
fn clear(at: &Path) -> io::Result<()> {
    let list = |of: &Path| fs::read_dir(of)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
    let is_real_directory = |of: &Path| fs::symlink_metadata(of).map(|found| found.is_dir());
    let volumes = list(at)?;
    for volume in &volumes {
        let is_ours = volume_of(volume).is_some()
            && is_real_directory(volume)?
            && list(volume)?.iter().all(|part| part.extension().is_some_and(|extension| extension == "parquet"));
        if !is_ours {
            let what = format!(
                "is no leftover of an interrupted convert, as it has {}: rename or remove it",
                volume.file_name().unwrap_or_default().display()
            );
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
    }
    volumes.iter().try_for_each(fs::remove_dir_all)
}

fn name(texts: &Texts, number: u32) -> String {
    let bytes = text(&texts.volumes, number);
    bytes.and_then(|bytes| bytes.as_utf8().ok().map(str::to_owned)).unwrap_or_default()
}

/// The directory name of a volume. ASCII characters other than letters, digits, `.`, `_` and `-` are percent-encoded. Other characters stay
/// as they are, since Spark decodes to characters and not to bytes (`ExternalCatalogUtils.unescapePathName`).
fn directory_name(volume: &str) -> String {
    let mut name = PREFIX.to_owned();
    if volume.is_empty() {
        name.push_str(HIVE_NULL);
    }
    // A volume whose name is that of null is distinguished by encoding its first character.
    let is_like_null = volume == HIVE_NULL;
    for (index, character) in volume.char_indices() {
        let is_plain = !(is_like_null && index == 0);
        if character.is_ascii()
            && !(is_plain && (character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')))
        {
            let _ = write!(name, "%{:02X}", u32::from(character));
        } else {
            name.push(character);
        }
    }
    name
}

/// The volume of a directory, empty if it is not known; `None` if this is no such directory.
pub(super) fn volume_of(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    if name == HIVE_NULL {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|code| first == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A volume of a directory that is partitioned by volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name of the volume; empty if it is not known.
    pub volume: String,
    /// Its files in the order of their names (part 2 before part 10).
    pub files: Vec<PathBuf>,
}

/// The volumes of a directory, in the order of their names, as written by [`PartitionedWriter`] or another tool. Other directories than
/// `volume=...`, and files that do not end in `.parquet`, are ignored. If the directory is itself that of a volume, the result is this
/// volume.
///
/// # Errors
/// The directory cannot be read.
pub fn partitions(directory: &Path) -> Result<Vec<Partition>, TraceError> {
    let mut partitions = Vec::new();
    for inner in entries(directory)? {
        let Some(volume) = volume_of(&inner) else { continue };
        partitions.push(Partition { volume, files: parts(&inner)? });
    }
    if partitions.is_empty()
        && let Some(volume) = volume_of(directory)
    {
        partitions.push(Partition { volume, files: parts(directory)? });
    }
    partitions.sort_by(|a, b| a.volume.cmp(&b.volume));
    Ok(partitions)
}

/// The files of a volume in the order of their names; shorter names first.
fn parts(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let mut files = entries(directory)?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
    files.sort_by_key(|file| (file.as_os_str().len(), file.clone()));
    Ok(files)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let listed = fs::read_dir(directory).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    listed.map_err(|source| TraceError::Open { path: directory.to_owned(), source })
}
