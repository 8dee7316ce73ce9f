//! Files below a root directory, which may have been made by somebody who means harm: links are followed inside the root only,
//! devices and pipes are never opened, and everything is bounded.
//!
//! What was read is remembered with the links on the way to it, so that a capture holds exactly that.
//!
//! What is written is a file that was there, by its path without links: what a link leads to, and a file that has a second name,
//! may be somebody else's.

use crate::lack::{Lack, Reading};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, fstatfs, ftruncate, openat, readlinkat, stat};
use rustix::io::{Errno, read, retry_on_intr, write};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use thiserror::Error;

/// Links on the way to one file, as the kernel has it (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Names on the way to one file, those of links included.
const STEPS_MAX: usize = 256;
/// Most files of sysfs hold at most a page.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// Of files with a column for each CPU.
pub const LARGE_FILE_BYTES_MAX: usize = 16 << 20;
/// Entries of a directory that are looked at; the rest is left out, and said to be.
pub const ENTRIES_MAX: usize = 65_536;
/// Entries of a directory that are taken.
pub const NAMES_MAX: usize = 4096;
/// File systems whose files the kernel makes: sysfs and procfs (statfs(2)).
const KERNEL_FILES: [u64; 2] = [0x6265_6572, 0x9fa0];

/// A root that cannot be read.
#[derive(Debug, Error)]
#[error("{}: cannot be opened as a directory: {source}", path.display())]
pub struct TreeError {
    path: PathBuf,
    source: std::io::Error,
}

/// What was found at a place, by its path without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A file, with what was kept of it.
    File(String),
    /// A link, with its target.
    Link(String),
    /// A directory, or a name in one of which nothing else is known.
    Folder,
    /// A name that stood in a directory.
    Name,
}

/// What stands in a file, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The text with all that is behind it.
    pub text: String,
    /// The kernel makes the file: a value is written to it, and what it says then is the kernel's.
    pub is_kernel: bool,
}

/// A directory with a tree such as `/` or a capture of it.
#[derive(Debug)]
pub struct Tree {
    root: Rc<OwnedFd>,
    /// It is the machine's own, not a copy.
    is_machine: bool,
    seen: RefCell<BTreeMap<String, Seen>>,
}

/// Names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those that were asked for, sorted.
    pub names: Vec<String>,
    /// All entries were looked at.
    pub is_whole: bool,
}

/// Where a path leads: a directory, or a file in it.
struct Place {
    folder: Rc<OwnedFd>,
    file: Option<String>,
    path: String,
}

fn path_of(stack: &[(String, Rc<OwnedFd>)], name: Option<&str>) -> String {
    let names = stack.iter().map(|(name, _)| name.as_str()).chain(name);
    names.fold(String::new(), |path, name| format!("{path}/{name}"))
}

fn lack(path: &str, error: Errno) -> Lack {
    match error {
        Errno::NOENT | Errno::NOTDIR => Lack::absent(path),
        Errno::ACCESS | Errno::PERM => Lack::unreadable(path, "no permission"),
        error => Lack::unreadable(path, std::io::Error::from(error).to_string()),
    }
}

impl Tree {
    /// Opens a root.
    ///
    /// # Errors
    /// Where it is no directory, or may not be opened.
    pub fn open(root: &Path) -> Result<Self, TreeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_fd = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|error| TreeError { path: root.to_owned(), source: error.into() })?;
        let failed = |error: Errno| TreeError { path: root.to_owned(), source: error.into() };
        let (found, own) = (fstat(&root_fd).map_err(failed)?, stat("/").map_err(failed)?);
        let is_machine = (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino);
        Ok(Self { root: Rc::new(root_fd), is_machine, seen: RefCell::default() })
    }

    /// Whether it is the machine's own root, not a copy of one.
    pub fn is_machine(&self) -> bool {
        self.is_machine
    }

    /// Whether no file was found in it of all that was looked for.
    pub fn is_blank(&self) -> bool {
        !self.seen.borrow().values().any(|seen| matches!(seen, Seen::File(_)))
    }

    pub(crate) fn seen(&self) -> BTreeMap<String, Seen> {
        self.seen.borrow().clone()
    }

    /// Has a capture hold a file of that text, which stands in no file here.
    pub(crate) fn remember_text(&self, path: String, text: String) {
        self.remember(path, Seen::File(text));
    }

    fn remember(&self, path: String, what: Seen) {
        let mut seen = self.seen.borrow_mut();
        // A name alone says less than what was read there.
        if what != Seen::Name || !seen.contains_key(&path) {
            seen.insert(path, what);
        }
    }

    /// Follows a path name by name. Each link is read, and its target followed from where it stands; `..` never leads beyond
    /// the root, and a target from `/` on begins at the root.
    fn walk(&self, path: &str) -> Reading<Place> {
        let mut waiting: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
        let mut stack: Vec<(String, Rc<OwnedFd>)> = Vec::new();
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = waiting.pop() {
            steps += 1;
            if steps > STEPS_MAX {
                return Err(Lack::unreadable(path, format!("more than {STEPS_MAX} names on the way")));
            }
            match name.as_str() {
                "" | "." => continue,
                ".." => {
                    if stack.pop().is_none() {
                        return Err(Lack::unreadable(path, "a link leads out of the tree"));
                    }
                    continue;
                }
                _ => {}
            }
            let folder = Rc::clone(stack.last().map_or(&self.root, |(_, folder)| folder));
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = openat(&*folder, &name, flags, Mode::empty()).map_err(|error| lack(path, error))?;
            let stat = fstat(&found).map_err(|error| lack(path, error))?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => stack.push((name, Rc::new(found))),
                FileType::Symlink => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Lack::unreadable(path, format!("more than {LINKS_MAX} links on the way")));
                    }
                    let target = readlinkat(&found, "", Vec::new()).map_err(|error| lack(path, error))?;
                    let Ok(target) = target.into_string() else {
                        return Err(Lack::unreadable(path, "a link on the way is not UTF-8"));
                    };
                    self.remember(path_of(&stack, Some(&name)), Seen::Link(target.clone()));
                    if target.starts_with('/') {
                        stack.clear();
                    }
                    waiting.extend(target.rsplit('/').map(str::to_owned));
                }
                FileType::RegularFile if waiting.iter().all(|rest| rest.is_empty()) => {
                    let path = path_of(&stack, Some(&name));
                    return Ok(Place { folder, file: Some(name), path });
                }
                FileType::RegularFile => return Err(Lack::absent(path)),
                _ => return Err(Lack::unreadable(path, "neither a file nor a directory")),
            }
        }
        let path = path_of(&stack, None);
        let folder = stack.pop().map_or_else(|| Rc::clone(&self.root), |(_, folder)| folder);
        Ok(Place { folder, file: None, path })
    }

    /// Where a path leads, without links, from the root on.
    ///
    /// # Errors
    /// Where it leads nowhere.
    pub fn resolved(&self, path: &str) -> Reading<String> {
        let place = self.walk(path)?;
        if place.file.is_none() {
            self.remember(place.path.clone(), Seen::Folder);
        }
        Ok(place.path)
    }

    /// The target of a link as it is written.
    ///
    /// # Errors
    /// Where there is no link.
    pub fn link(&self, path: &str) -> Reading<String> {
        let (folder_path, name) = path.rsplit_once('/').unwrap_or(("", path));
        let place = self.walk(folder_path).map_err(|error| match error {
            Lack::Absent { .. } => Lack::absent(path),
            other => other,
        })?;
        if place.file.is_some() || matches!(name, "" | "." | "..") {
            return Err(Lack::absent(path));
        }
        let target = readlinkat(&*place.folder, name, Vec::new()).map_err(|error| match error {
            Errno::INVAL => Lack::unreadable(path, "no link"),
            error => lack(path, error),
        })?;
        let Ok(target) = target.into_string() else {
            return Err(Lack::unreadable(path, "not UTF-8"));
        };
        self.remember(format!("{}/{name}", place.path), Seen::Link(target.clone()));
        Ok(target)
    }

    /// The text of a file without spaces and line ends behind it; what is no UTF-8 in it is replaced.
    ///
    /// # Errors
    /// Where it is not there, not a file, or too long.
    pub fn read(&self, path: &str) -> Reading<String> {
        self.read_kept(path, FILE_BYTES_MAX, |text| Some(text.to_owned()))
    }

    /// As [`Tree::read`], of which only what `keep` makes of it is returned, and captured; nothing where that is `None`.
    /// Applied to its own result `keep` must change nothing.
    ///
    /// # Errors
    /// As [`Tree::read`]; absent, too, where nothing is kept.
    pub fn read_kept(&self, path: &str, bytes_max: usize, keep: impl Fn(&str) -> Option<String>) -> Reading<String> {
        let place = self.walk(path)?;
        let Some(name) = &place.file else {
            return Err(Lack::unreadable(path, "a directory"));
        };
        // Should it have become a pipe since, opening does not wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&*place.folder, name, flags, Mode::empty()).map_err(|error| lack(path, error))?;
        let stat = fstat(&file).map_err(|error| lack(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Lack::unreadable(path, "not a file any more"));
        }
        let bytes = read_all(&file, path, bytes_max)?;
        let text = String::from_utf8_lossy(&bytes);
        let Some(kept) = keep(text.trim_end_matches(|c: char| c.is_whitespace() || c == '\0')) else {
            return Err(Lack::absent(path));
        };
        self.remember(place.path, Seen::File(kept.clone()));
        Ok(kept)
    }

    /// Opens a file by its path without links.
    fn open_direct(&self, path: &str, access: OFlags) -> Reading<OwnedFd> {
        let place = self.walk(path)?;
        let Some(name) = place.file.as_ref().filter(|_| place.path == path) else {
            let why = if place.file.is_none() { "a directory" } else { "a link is on the way" };
            return Err(Lack::unreadable(path, why));
        };
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&*place.folder, name, flags, Mode::empty()).map_err(|error| lack(path, error))?;
        let stat = fstat(&file).map_err(|error| lack(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Lack::unreadable(path, "not a file any more"));
        }
        if stat.st_nlink != 1 {
            return Err(Lack::unreadable(path, "it has another name as well, maybe outside of the tree"));
        }
        Ok(file)
    }

    /// What stands in a file, by its path without links.
    ///
    /// # Errors
    /// As [`Tree::read`], where a link is on the way, where the file has a second name, and where it is no text.
    pub fn content(&self, path: &str) -> Reading<Content> {
        let file = self.open_direct(path, OFlags::RDONLY)?;
        let bytes = read_all(&file, path, FILE_BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| Lack::unreadable(path, "not UTF-8"))?;
        Ok(Content { text, is_kernel: is_kernel(&file, path)? })
    }

    /// Writes a file that is there, by its path without links: `value` where the kernel makes it, and `text` in its place where
    /// it is part of a copy. On a machine's own root only files of the kernel are written.
    ///
    /// # Errors
    /// As [`Tree::content`], and what the kernel refuses.
    pub fn write(&self, path: &str, value: &str, text: &str) -> Reading<()> {
        let file = self.open_direct(path, OFlags::WRONLY)?;
        let is_kernel = is_kernel(&file, path)?;
        if self.is_machine && !is_kernel {
            return Err(Lack::unreadable(path, "not a file of the kernel's"));
        }
        // The kernel takes each call for a whole value.
        let bytes = if is_kernel { format!("{value}\n") } else { text.to_owned() };
        let written = retry_on_intr(|| write(&file, bytes.as_bytes())).map_err(|error| lack(path, error))?;
        if written != bytes.len() {
            return Err(Lack::unreadable(path, format!("{written} of {} bytes were taken", bytes.len())));
        }
        if is_kernel { Ok(()) } else { ftruncate(&file, bytes.len() as u64).map_err(|error| lack(path, error)) }
    }

    /// The names in a directory of which `keep` is true, at most so many (4,096). Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// Where it is not there, or no directory.
    pub fn list(&self, path: &str, keep: impl Fn(&str) -> bool) -> Reading<Listing> {
        let place = self.walk(path)?;
        if place.file.is_some() {
            return Err(Lack::unreadable(path, "no directory"));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&*place.folder, ".", flags, Mode::empty()).map_err(|error| lack(path, error))?;
        let entries = Dir::new(folder).map_err(|error| lack(path, error))?;
        let mut listing = Listing { names: Vec::new(), is_whole: true };
        for (number, entry) in entries.enumerate() {
            let entry = entry.map_err(|error| lack(path, error))?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_wanted = !matches!(name, "." | "..") && keep(name);
            if number >= ENTRIES_MAX || is_wanted && listing.names.len() >= NAMES_MAX {
                listing.is_whole = false;
                break;
            }
            if is_wanted {
                listing.names.push(name.to_owned());
            }
        }
        listing.names.sort_by_key(|name| (number_behind(name), name.clone()));
        self.remember(place.path, Seen::Folder);
        Ok(listing)
    }

    /// As [`Tree::list`], where the names alone say something: a capture holds them as empty files.
    ///
    /// # Errors
    /// As [`Tree::list`].
    pub fn list_for_names(&self, path: &str, keep: impl Fn(&str) -> bool) -> Reading<Listing> {
        let listing = self.list(path, keep)?;
        let folder = self.walk(path)?.path;
        for name in &listing.names {
            self.remember(format!("{folder}/{name}"), Seen::Name);
        }
        Ok(listing)
    }
}

fn read_all(file: &OwnedFd, path: &str, bytes_max: usize) -> Reading<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 16 << 10];
    loop {
        let got = retry_on_intr(|| read(file, &mut part[..])).map_err(|error| lack(path, error))?;
        if got == 0 {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&part[..got]);
        if bytes.len() > bytes_max {
            return Err(Lack::unreadable(path, format!("longer than {bytes_max} bytes")));
        }
    }
}

fn is_kernel(file: &OwnedFd, path: &str) -> Reading<bool> {
    let kind = fstatfs(file).map_err(|error| lack(path, error))?.f_type;
    Ok(KERNEL_FILES.contains(&(kind as u64 & u64::from(u32::MAX))))
}

/// The number at the end of a name, so that `cpu10` comes behind `cpu9`.
fn number_behind(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}
