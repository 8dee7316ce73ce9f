//! One look at a file: size, hint and extents. Nothing stays open afterwards.

use super::Lifetime;
use super::extents::Layout;
use super::handle::{Handle, Id};
use super::kernel::{self, Fiemap};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// `FS_XFLAG_REALTIME`: the data of this XFS file is on another device (`include/uapi/linux/fs.h`).
const REALTIME: u32 = 1;

/// The result of a look.
#[derive(Debug)]
pub enum Look {
    /// The file was found.
    Found(Found),
    /// There is no such file, or another one has its name.
    Missing,
    /// The name belongs to something else than a regular file.
    Other,
    /// The system call failed.
    Failed(io::Error),
}

/// The facts about a file by a look.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The hint of its inode; `None` if the file system has none.
    pub lifetime: Option<Lifetime>,
    /// Number of its names.
    pub links: u32,
    /// Places of its data, if they were asked for.
    pub layout: Option<Layout>,
}

/// How extents are asked for.
pub struct Ask<'a> {
    /// Where the file system's device begins on the disk.
    pub begin_bytes: u64,
    /// Most extents to return.
    pub limit: usize,
    /// Buffer for the kernel's answers.
    pub room: &'a mut Fiemap,
}

/// Looks at the file `id` at `path`.
pub fn look(path: &Path, id: Id, has_handles: bool, extents: Option<Ask<'_>>) -> Look {
    match found(path, id, has_handles, extents) {
        Ok(look) => look,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Look::Missing,
            // A symbolic link.
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Look::Missing,
            _ => Look::Failed(error),
        },
    }
}

fn found(path: &Path, id: Id, has_handles: bool, extents: Option<Ask<'_>>) -> io::Result<Look> {
    let wanted = StatxFlags::TYPE | StatxFlags::INO;
    // Without opening it first, because opening a device may have effects.
    let before = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC, wanted)?;
    if before.stx_ino != id.inode {
        return Ok(Look::Missing);
    }
    if u32::from(before.stx_mode) & libc::S_IFMT != libc::S_IFREG {
        return Ok(Look::Other);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: OwnedFd = openat(CWD, path, flags, Mode::empty())?;
    let file = file.as_fd();
    if has_handles && Handle::of(file, c"")?.0.id != id {
        return Ok(Look::Missing);
    }
    let wanted = StatxFlags::SIZE | StatxFlags::NLINK | StatxFlags::INO;
    let now = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted)?;
    if now.stx_ino != id.inode {
        return Ok(Look::Missing);
    }
    // Not every file system has hints.
    let hint = kernel::write_hint(file).ok().and_then(|hint| usize::try_from(hint).ok());
    let lifetime = hint.and_then(|hint| Lifetime::ALL.get(hint)).copied();
    let layout = match extents {
        // ext2 has neither such flags nor such a device.
        Some(_) if kernel::xflags(file).unwrap_or(0) & REALTIME != 0 => Some(Layout::default()),
        Some(ask) => Some(Layout::of(file, ask.begin_bytes, now.stx_size, ask.limit, ask.room)?),
        None => None,
    };
    Ok(Look::Found(Found { size_bytes: now.stx_size, lifetime, links: now.stx_nlink, layout }))
}

/// Reads from a file without changing its access time. Returns the number of bytes: 0 at the end, or if there is no such file.
///
/// # Errors
/// Reading failed.
pub fn read_at(path: &Path, id: Id, has_handles: bool, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags | OFlags::NOATIME, Mode::empty()) {
        // Only owners and root may use this flag.
        Err(Errno::PERM) => openat(CWD, path, flags, Mode::empty()),
        other => other,
    };
    let file = match file {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(0),
        other => other?,
    };
    if has_handles && Handle::of(file.as_fd(), c"")?.0.id != id {
        return Ok(0);
    }
    Ok(rustix::io::pread(&file, into, offset)?)
}
