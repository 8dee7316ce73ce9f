//! Reads folders: one at a time, in slices, with nothing open in between.

use super::book::{Book, Todo};
use super::handle::{Handle, Id};
use super::place::Place;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// The root of a mount, as its file handles name it.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    /// The root folder.
    pub handle: Handle,
    /// The mount id in handles; `None` if the file system has no known kind of handles.
    pub mount: Option<i32>,
    /// Device number of its files.
    device: (u32, u32),
}

impl Root {
    /// The root of a mounted file system. It stays in memory while mounted, so this does no I/O on the device.
    ///
    /// # Errors
    /// The mount point cannot be opened.
    pub fn of(point: &Path) -> io::Result<Self> {
        let folder = open(point, OFlags::PATH)?;
        let stat = statx(folder.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        match Handle::of(folder.as_fd(), c"") {
            // If the handle has another inode number, it is not the one by which requests name files.
            Ok((handle, mount)) if handle.id.inode == stat.stx_ino => Ok(Self { handle, mount: Some(mount), device }),
            _ => {
                let id = Id { inode: stat.stx_ino, generation: 0 };
                Ok(Self { handle: Handle { id, subvolume: 0 }, mount: None, device })
            }
        }
    }

    /// What `name` in `folder` is; `None` if it does not belong to this mount, or is gone.
    fn identify(&self, folder: BorrowedFd<'_>, name: &[u8], kind: FileType) -> Option<(Id, bool)> {
        let name = CString::new(name).ok()?;
        let is_known = matches!(kind, FileType::Directory | FileType::RegularFile);
        match self.mount {
            Some(mount) if is_known => {
                let (handle, on) = Handle::of(folder, &name).ok()?;
                let is_ours = on == mount && handle.subvolume == self.handle.subvolume;
                is_ours.then_some((handle.id, kind == FileType::Directory))
            }
            _ => {
                let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
                let stat = statx(folder, &name, flags, StatxFlags::TYPE | StatxFlags::INO).ok()?;
                let kind = FileType::from_raw_mode(stat.stx_mode.into());
                let is_file = matches!(kind, FileType::Directory | FileType::RegularFile);
                if !is_file || (stat.stx_dev_major, stat.stx_dev_minor) != self.device {
                    return None;
                }
                match self.mount {
                    Some(_) => self.identify(folder, name.to_bytes(), kind),
                    None => Some((Id { inode: stat.stx_ino, generation: 0 }, kind == FileType::Directory)),
                }
            }
        }
    }

    /// Whether this open folder is the expected one.
    fn is(&self, folder: BorrowedFd<'_>, id: Id) -> bool {
        match self.mount {
            Some(mount) => Handle::of(folder, c"").is_ok_and(|(handle, on)| handle.id == id && on == mount),
            None => statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::INO).is_ok_and(|stat| stat.stx_ino == id.inode),
        }
    }
}

fn open(path: &Path, how: OFlags) -> io::Result<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// The folders that are to be read.
#[derive(Debug, Default)]
pub struct Scans {
    queue: VecDeque<(u64, bool)>,
    queued: HashSet<u64>,
    current: Option<Current>,
    /// When the present walk of everything began, and whether another one must follow.
    walk: Option<(Instant, bool)>,
}

#[derive(Debug)]
struct Current {
    folder: Id,
    is_deep: bool,
    entries: std::vec::IntoIter<(Box<[u8]>, FileType)>,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to do.
    More,
    /// Nothing is left; if a walk has ended, the time when it began.
    Done(Option<Instant>),
}

impl Scans {
    /// Whether there is something to read.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty()
    }

    /// Queues a folder, with everything below it if `is_deep`.
    pub fn folder(&mut self, folder: u64, is_deep: bool) {
        self.push(folder, is_deep);
    }

    /// Walks everything from the root, after a walk that is in progress.
    pub fn walk(&mut self, root: u64, now: Instant) {
        match &mut self.walk {
            Some((_, again)) => *again = true,
            walk => {
                *walk = Some((now, false));
                self.push(root, true);
            }
        }
    }

    fn push(&mut self, folder: u64, is_deep: bool) {
        if self.queued.insert(folder) {
            self.queue.push_back((folder, is_deep));
        } else if is_deep && let Some((_, deep)) = self.queue.iter_mut().find(|(other, _)| *other == folder) {
            *deep = true;
        }
    }

    /// Reads for a while. Returns what failed, if something did; the walk goes on without that folder.
    pub fn step(
        &mut self,
        book: &mut Book,
        root: &Root,
        until: Instant,
        limit: usize,
        todo: &mut Vec<Todo>,
    ) -> (Step, Option<io::Error>) {
        let error = self.read(book, root, until, limit, todo).err();
        if self.is_busy() {
            return (Step::More, error);
        }
        let ended = self.walk.take();
        if let Some((_, true)) = ended {
            todo.push(Todo::Walk);
        }
        (Step::Done(ended.map(|(begun, _)| begun)), error)
    }

    fn read(
        &mut self,
        book: &mut Book,
        root: &Root,
        until: Instant,
        limit: usize,
        todo: &mut Vec<Todo>,
    ) -> io::Result<()> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => match self.begin(book, root, limit, todo)? {
                Some(current) => current,
                None => return Ok(()),
            },
        };
        let path =
            book.path(current.folder.inode).filter(|_| book.tree.id(current.folder.inode) == Some(current.folder));
        // Moved or gone meanwhile: events report that, or the next walk finds it.
        let Some(path) = path else { return Ok(()) };
        let folder = match open(&path, OFlags::PATH) {
            Ok(folder) if root.is(folder.as_fd(), current.folder) => folder,
            _ => return Ok(()),
        };
        while book.has_room() && Instant::now() < until {
            let Some((name, kind)) = current.entries.next() else { return Ok(()) };
            let Some((id, is_folder)) = root.identify(folder.as_fd(), &name, kind) else { continue };
            let is_new = book.link(current.folder.inode, &name, id, is_folder, todo) == super::tree::Linked::New;
            if !is_folder {
                book.met(id.inode);
            } else if book.tree.id(id.inode) == Some(id) && (is_new || current.is_deep) {
                self.push(id.inode, true);
            }
        }
        self.current = Some(current);
        Ok(())
    }

    /// Reads the names of the next folder, and removes those that are gone.
    fn begin(
        &mut self,
        book: &mut Book,
        root: &Root,
        limit: usize,
        todo: &mut Vec<Todo>,
    ) -> io::Result<Option<Current>> {
        let Some((inode, is_deep)) = self.queue.pop_front() else { return Ok(None) };
        self.queued.remove(&inode);
        let (Some(path), Some(id)) = (book.path(inode), book.tree.id(inode)) else { return Ok(None) };
        // Reading must not cause a write of the folder's access time; only owners and root may use this flag.
        let folder = match open(&path, OFlags::RDONLY | OFlags::NOATIME) {
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => open(&path, OFlags::RDONLY),
            other => other,
        };
        let folder = match folder {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if !root.is(folder.as_fd(), id) {
            return Ok(None);
        }
        let mut entries = Vec::new();
        let mut is_all = true;
        for entry in Dir::new(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if entries.len() >= limit {
                is_all = false;
                book.left_out_files += 1;
                continue;
            }
            let kind = entry.file_type();
            if matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Unknown) {
                entries.push((Box::<[u8]>::from(name), kind));
            }
        }
        if is_all {
            let there: HashSet<&[u8]> = entries.iter().map(|(name, _)| name.as_ref()).collect();
            let known = book.tree.entries(inode).into_iter().flatten();
            let gone: Vec<_> =
                known.filter(|(name, _)| !there.contains(name.as_ref())).map(|(name, _)| name.clone()).collect();
            for name in gone {
                book.not_there(inode, &name, todo);
            }
        }
        Ok(Some(Current { folder: id, is_deep, entries: entries.into_iter() }))
    }
}

impl Place {
    /// The root of the file system mounted here.
    ///
    /// # Errors
    /// The mount point cannot be opened.
    pub fn root(&self) -> io::Result<Root> {
        Root::of(&self.mount.point)
    }
}
