//! Kernel calls without a safe wrapper: fanotify(7), file handles, FIEMAP, and the write-lifetime hint of an inode.
//!
//! The only file of this room with `unsafe`. Layouts: `include/uapi/linux/fanotify.h`, `fiemap.h`, `fcntl.h`, `fs.h` of Linux 6.18, and
//! name_to_handle_at(2).

use rustix::ioctl::opcode;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Gives this thread, and threads that it starts, their own table of descriptors with only the three standard ones (close_range(2), Linux
/// 5.9).
///
/// A thread that waits for a disk keeps the process's descriptors open while it waits, even when the process is killed. If this process
/// serves the disk, its clients would never notice that it has gone, and both would wait for each other forever.
///
/// # Errors
/// The kernel is too old.
pub fn own_descriptors() -> io::Result<()> {
    // SAFETY: the call takes numbers only. The table is this thread's own before anything in it is closed, so no descriptor of
    // another thread is touched; this one owns none yet, as its caller promises by calling it first.
    match unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_UNSHARE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Longest file handle, in bytes (`MAX_HANDLE_SZ`).
pub const HANDLE_BYTES_MAX: usize = 128;
/// Extents asked for in one call.
pub const FIEMAP_EXTENTS: usize = 256;

/// A file handle as the file system wrote it: `struct file_handle`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawHandle {
    /// Length of the handle in bytes.
    pub len_bytes: u32,
    /// Its type (`enum fid_type`).
    pub kind: i32,
    /// The contents.
    pub bytes: [u8; HANDLE_BYTES_MAX],
}

/// An extent as the kernel reports it: `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawExtent {
    /// Offset in the file, in bytes.
    pub logical: u64,
    /// Offset on the block device, in bytes.
    pub physical: u64,
    /// Length in bytes.
    pub length: u64,
    pub(super) reserved64: [u64; 2],
    /// `FIEMAP_EXTENT_*`.
    pub flags: u32,
    pub(super) reserved: [u32; 3],
}

/// `struct fiemap` without its array.
#[repr(C)]
struct FiemapHead {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

/// `struct fiemap` with room for extents.
#[repr(C)]
pub struct Fiemap {
    head: FiemapHead,
    extents: [RawExtent; FIEMAP_EXTENTS],
}

impl Fiemap {
    /// Room for an answer.
    pub fn new() -> Box<Self> {
        let head = FiemapHead { start: 0, length: 0, flags: 0, mapped: 0, count: 0, reserved: 0 };
        Box::new(Self { head, extents: [RawExtent::default(); FIEMAP_EXTENTS] })
    }
}

/// `struct fsxattr`.
#[repr(C)]
struct FsxAttr {
    xflags: u32,
    others: [u32; 4],
    pad: [u8; 8],
}

fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new group of fanotify: fanotify_init(2).
pub fn fanotify(flags: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers and gives a new descriptor or an error.
    let fd = unsafe { libc::fanotify_init(flags, (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE) as u32) };
    checked(i64::from(fd))?;
    // SAFETY: the call has just given us this descriptor, which nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Requests the events of the whole file system that contains `path`: fanotify_mark(2).
pub fn mark_file_system(group: BorrowedFd<'_>, mask: u64, path: &CStr) -> io::Result<()> {
    let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    // SAFETY: the descriptor is open for as long as it is borrowed, and the path ends with a zero.
    let result = unsafe { libc::fanotify_mark(group.as_raw_fd(), flags, mask, libc::AT_FDCWD, path.as_ptr()) };
    checked(i64::from(result)).map(drop)
}

/// The handle of `path` relative to `folder`, and the id of its mount; symbolic links are not followed. An empty path means `folder`
/// itself.
pub fn handle(folder: BorrowedFd<'_>, path: &CStr) -> io::Result<(RawHandle, i32)> {
    let mut handle = RawHandle { len_bytes: HANDLE_BYTES_MAX as u32, kind: 0, bytes: [0; HANDLE_BYTES_MAX] };
    let mut mount = 0i32;
    // SAFETY: the descriptor is open, the path ends with a zero, `handle` has the layout of struct file_handle with as many
    // bytes as it says, and both results are ours for the time of the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            folder.as_raw_fd() as RawFd,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    checked(result)?;
    Ok((handle, mount))
}

/// The lifetime hint of the file's inode (`F_GET_RW_HINT`).
pub fn write_hint(file: BorrowedFd<'_>) -> io::Result<u64> {
    let mut hint = 0u64;
    // SAFETY: the descriptor is open, and the kernel writes eight bytes to where `hint` is.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), F_GET_RW_HINT, &raw mut hint) };
    checked(i64::from(result))?;
    Ok(hint)
}

const F_GET_RW_HINT: i32 = 1024 + 11;

/// The extended flags of a file, which XFS and others keep (`FS_IOC_FSGETXATTR`).
pub fn xflags(file: BorrowedFd<'_>) -> io::Result<u32> {
    let mut attributes = FsxAttr { xflags: 0, others: [0; 4], pad: [0; 8] };
    let operation = opcode::read::<FsxAttr>(b'X', 31);
    // SAFETY: the descriptor is open, and the kernel writes a struct fsxattr, whose layout this is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), operation as _, &raw mut attributes) };
    checked(i64::from(result))?;
    Ok(attributes.xflags)
}

/// The file's extents from `start` on, as many as fit (`FS_IOC_FIEMAP`). Does not make the file system write data back.
pub fn fiemap<'a>(file: BorrowedFd<'_>, start: u64, room: &'a mut Fiemap) -> io::Result<&'a [RawExtent]> {
    room.head =
        FiemapHead { start, length: u64::MAX - start, flags: 0, mapped: 0, count: FIEMAP_EXTENTS as u32, reserved: 0 };
    let operation = opcode::read_write::<FiemapHead>(b'f', 11);
    let room_at: *mut Fiemap = room;
    // SAFETY: the descriptor is open, and the kernel writes at most `count` extents behind the head, where the array is.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), operation as _, room_at) };
    checked(i64::from(result))?;
    Ok(room.extents.get(..room.head.mapped as usize).unwrap_or(&[]))
}
