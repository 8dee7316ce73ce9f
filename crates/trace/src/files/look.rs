//! One look at a file: size, hint and extents. Nothing of it stays open.

use super::Lifetime;
use super::extents::Layout;
use super::handle::{Handle, Id};
use super::kernel::{self, Fiemap};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// `FS_XFLAG_REALTIME`: the data of this file of XFS are on another device (`include/uapi/linux/fs.h`).
const REALTIME: u32 = 1;

/// What a look has found.
#[derive(Debug)]
pub enum Look {
    /// The file.
    Found(Found),
    /// There is no such file, or another one by that name.
    Missing,
    /// It is no regular file.
    Other,
    /// The system would not say.
    Failed(io::Error),
}

/// What is known of a file after a look.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The hint of its inode, where there are such.
    pub lifetime: Option<Lifetime>,
    /// How many names it has.
    pub links: u32,
    /// Where it lies, where that was asked.
    pub layout: Option<Layout>,
}

/// What is asked of extents.
pub struct Ask<'a> {
    /// Where the device begins on the disk.
    pub begin_bytes: u64,
    /// Most extents.
    pub limit: usize,
    /// Room for the kernel's answers.
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
    // First without opening: devices do things when they are opened.
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
        // ext2 has no such flags, and no such device.
        Some(_) if kernel::xflags(file).unwrap_or(0) & REALTIME != 0 => Some(Layout::default()),
        Some(ask) => Some(Layout::of(file, ask.begin_bytes, now.stx_size, ask.limit, ask.room)?),
        None => None,
    };
    Ok(Look::Found(Found { size_bytes: now.stx_size, lifetime, links: now.stx_nlink, layout }))
}

/// Reads from a file without touching its access time; how many bytes, 0 at its end or where it is not there.
///
/// # Errors
/// Reading.
pub fn read_at(path: &Path, id: Id, has_handles: bool, offset: u64, into: &mut [u8]) -> io::Result<usize> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags | OFlags::NOATIME, Mode::empty()) {
        // Only owners and root may ask for that.
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
