//! Files below a root directory, which a malicious person may have made: links are followed inside the root only,
//! devices and pipes are never opened, and all amounts are bounded.
//!
//! The tree remembers all files that were read and the links on the way to them, so that a capture contains exactly
//! these.
//!
//! Only existing files are written, by their paths without links: the target of a link, or a file with a second name,
//! may belong to another program.

use crate::lack::{Lack, Reading};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, fstatfs, ftruncate, openat, readlinkat, stat};
use rustix::io::{Errno, read, retry_on_intr, write};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use thiserror::Error;

/// Most links on the way to one file, as in the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Most names on the way to one file, including those of links.
const STEPS_MAX: usize = 256;
/// Most bytes read of a file; most files of sysfs have at most a page.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of files with a column for each CPU.
pub const LARGE_FILE_BYTES_MAX: usize = 16 << 20;
/// Most entries of a directory that are examined; the rest is omitted, which [`Listing::is_whole`] shows.
pub const ENTRIES_MAX: usize = 65_536;
/// Most names of a directory that are returned.
pub const NAMES_MAX: usize = 4096;
/// Magic numbers of the file systems whose files the kernel generates: sysfs and procfs (statfs(2)).
const KERNEL_FILES: [u64; 2] = [0x6265_6572, 0x9fa0];

/// The error if a root cannot be opened.
#[derive(Debug, Error)]
#[error("{}: cannot be opened as a directory: {source}", path.display())]
pub struct TreeError {
    path: PathBuf,
    source: std::io::Error,
}

/// The kind of entry that was read, by its path without links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A file, with the kept part of its text.
    File(String),
    /// A link, with its target.
    Link(String),
    /// A directory, or a name in it about which nothing else is known.
    Folder,
    /// A name in a directory.
    Name,
}

/// The content of a file, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The whole text, including white space at its end.
    pub text: String,
    /// Whether the kernel generates the file: a program writes a value to it, and the kernel determines the text that
    /// is then read.
    pub is_kernel: bool,
}

/// A directory with a tree, such as `/` or a capture of it.
#[derive(Debug)]
pub struct Tree {
    root: Rc<OwnedFd>,
    /// Whether it is the machine's own root, not a copy.
    is_machine: bool,
    seen: RefCell<BTreeMap<String, Seen>>,
}

/// Names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The requested names, sorted.
    pub names: Vec<String>,
    /// Whether all entries were examined.
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
    /// Opens a root directory.
    ///
    /// # Errors
    /// The path is not a directory, or may not be opened.
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

    /// Whether none of the files that were looked for exists in it.
    pub fn is_blank(&self) -> bool {
        !self.seen.borrow().values().any(|seen| matches!(seen, Seen::File(_)))
    }

    pub(crate) fn seen(&self) -> BTreeMap<String, Seen> {
        self.seen.borrow().clone()
    }

    /// Adds a file with this text to captures, although the tree has no such file.
    pub(crate) fn remember_text(&self, path: String, text: String) {
        self.remember(path, Seen::File(text));
    }

    fn remember(&self, path: String, what: Seen) {
        let mut seen = self.seen.borrow_mut();
        // A name alone says less than an entry that was read.
        if what != Seen::Name || !seen.contains_key(&path) {
            seen.insert(path, what);
        }
    }

    /// Follows a path name by name. It reads each link and follows its target from the link's folder; `..` never
    /// leads outside of the root, and an absolute target begins at the root.
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

    /// The path without links, from the root.
    ///
    /// # Errors
    /// The path leads nowhere.
    pub fn resolved(&self, path: &str) -> Reading<String> {
        let place = self.walk(path)?;
        if place.file.is_none() {
            self.remember(place.path.clone(), Seen::Folder);
        }
        Ok(place.path)
    }

    /// The target of a link, as written.
    ///
    /// # Errors
    /// There is no link.
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

    /// The text of a file without white space at its end; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// The file is missing, not a regular file, or too long.
    pub fn read(&self, path: &str) -> Reading<String> {
        self.read_kept(path, FILE_BYTES_MAX, |text| Some(text.to_owned()))
    }

    /// Like [`Tree::read`], but returns and captures only the result of `keep`. Applied to its own result, `keep`
    /// must change nothing.
    ///
    /// # Errors
    /// The errors of [`Tree::read`]; [`Lack::Absent`] if `keep` returns `None`.
    pub fn read_kept(&self, path: &str, bytes_max: usize, keep: impl Fn(&str) -> Option<String>) -> Reading<String> {
        let place = self.walk(path)?;
        let Some(name) = &place.file else {
            return Err(Lack::unreadable(path, "a directory"));
        };
        // If it has become a pipe meanwhile, opening it does not wait.
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

    /// The content of a file, by its path without links.
    ///
    /// # Errors
    /// The errors of [`Tree::read`]; also a link on the way, a file with a second name, or text that is not UTF-8.
    pub fn content(&self, path: &str) -> Reading<Content> {
        let file = self.open_direct(path, OFlags::RDONLY)?;
        let bytes = read_all(&file, path, FILE_BYTES_MAX)?;
        let text = String::from_utf8(bytes).map_err(|_| Lack::unreadable(path, "not UTF-8"))?;
        Ok(Content { text, is_kernel: is_kernel(&file, path)? })
    }

    /// Writes an existing file, by its path without links: `value` if the kernel generates the file, or `text` in its
    /// place if it belongs to a copy. On a machine's own root only files of the kernel are written.
    ///
    /// # Errors
    /// The errors of [`Tree::content`], and errors of the kernel.
    pub fn write(&self, path: &str, value: &str, text: &str) -> Reading<()> {
        let file = self.open_direct(path, OFlags::WRONLY)?;
        let is_kernel = is_kernel(&file, path)?;
        if self.is_machine && !is_kernel {
            return Err(Lack::unreadable(path, "not a file of the kernel's"));
        }
        // The kernel takes each call as a whole value.
        let bytes = if is_kernel { format!("{value}\n") } else { text.to_owned() };
        let written = retry_on_intr(|| write(&file, bytes.as_bytes())).map_err(|error| lack(path, error))?;
        if written != bytes.len() {
            return Err(Lack::unreadable(path, format!("{written} of {} bytes were taken", bytes.len())));
        }
        if is_kernel { Ok(()) } else { ftruncate(&file, bytes.len() as u64).map_err(|error| lack(path, error)) }
    }

    /// The names in a directory for which `keep` returns true, at most 4,096. Names that are not UTF-8 are left out.
    ///
    /// # Errors
    /// The directory is missing, or not a directory.
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

    /// Like [`Tree::list`], for folders whose names alone matter: a capture contains them as empty files.
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

/// The number at the end of a name, so that `cpu10` is sorted after `cpu9`.
fn number_behind(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}
