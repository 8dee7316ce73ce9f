//! System calls that the standard library lacks, each behind a safe function.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `BLKDISCARD`, `BLKGETSIZE64`: linux/fs.h, stable ABI; the latter is `_IOR(0x12, 114, size_t)` on 64-bit.
const BLKDISCARD: libc::c_ulong = 0x1277;
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

/// Most vectors in one call (UIO_MAXIOV, linux/uio.h).
pub(crate) const IOVEC_MAX: usize = 1024;

/// Alignment of direct I/O as statx(2) reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectAlignment {
    /// Alignment of buffers in memory, in bytes.
    pub(crate) memory_bytes: u32,
    /// Alignment of offsets and lengths, in bytes; 0: direct I/O is impossible.
    pub(crate) offset_bytes: u32,
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A result in the convention of io_uring: a count, or a negative errno.
fn as_ring_result(result: isize) -> i32 {
    if result < 0 {
        -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
    } else {
        // Transfers are limited to 0x7ffff000 bytes (read(2)), which fits.
        i32::try_from(result).unwrap_or(i32::MAX)
    }
}

/// Where the next data of a file begins, at or after `from`; `None` where there is none (lseek(2), SEEK_DATA). File
/// systems without holes return `from`.
pub(crate) fn next_data(fd: BorrowedFd<'_>, from: u64) -> io::Result<Option<u64>> {
    seek(fd, from, libc::SEEK_DATA)
}

/// Where the next hole of a file begins; the end of the file counts as one.
pub(crate) fn next_hole(fd: BorrowedFd<'_>, from: u64) -> io::Result<Option<u64>> {
    seek(fd, from, libc::SEEK_HOLE)
}

fn seek(fd: BorrowedFd<'_>, from: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    // SAFETY: lseek takes no pointers; the descriptor is open.
    let at = unsafe { libc::lseek(fd.as_raw_fd(), from, whence) };
    match u64::try_from(at) {
        Ok(at) => Ok(Some(at)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
    }
}

/// Takes an advisory lock without waiting; `Ok(false)` where another holder conflicts.
pub(crate) fn try_lock(fd: BorrowedFd<'_>, exclusive: bool) -> io::Result<bool> {
    let kind = if exclusive { libc::LOCK_EX } else { libc::LOCK_SH };
    // SAFETY: flock takes no pointers; the descriptor is open.
    match checked(unsafe { libc::flock(fd.as_raw_fd(), kind | libc::LOCK_NB) }) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases an advisory lock, for every descriptor of the open file description.
pub(crate) fn unlock(fd: BorrowedFd<'_>) {
    // SAFETY: flock takes no pointers; the descriptor is open. It cannot fail for a lock of our own.
    unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_UN) };
}

/// Size of a block device in bytes.
pub(crate) fn block_device_size(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut size: u64 = 0;
    // SAFETY: BLKGETSIZE64 writes one u64 through the pointer, which is valid for that.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64, &raw mut size) })?;
    Ok(size)
}

/// Logical block of a block device in bytes.
pub(crate) fn block_device_sector(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut size: libc::c_int = 0;
    // SAFETY: BLKSSZGET writes one int through the pointer, which is valid for that.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::BLKSSZGET, &raw mut size) })?;
    u32::try_from(size).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// `BLKDISCARD`; the result is in the convention of io_uring.
pub(crate) fn discard(fd: BorrowedFd<'_>, offset_bytes: u64, len_bytes: u64) -> i32 {
    let range = [offset_bytes, len_bytes];
    // SAFETY: BLKDISCARD reads two u64 through the pointer, which is valid for that.
    as_ring_result(unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD, range.as_ptr()) } as isize)
}

/// Alignment of direct I/O; `None` where the kernel does not report it (before Linux 6.1; statx(2), STATX_DIOALIGN).
pub(crate) fn direct_alignment(fd: BorrowedFd<'_>) -> Option<DirectAlignment> {
    const EMPTY: &CStr = c"";
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the path is a C string, and the kernel fills a structure of just this type.
    let result = unsafe {
        libc::statx(fd.as_raw_fd(), EMPTY.as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN, &raw mut found)
    };
    (result == 0 && found.stx_mask & libc::STATX_DIOALIGN != 0)
        .then_some(DirectAlignment { memory_bytes: found.stx_dio_mem_align, offset_bytes: found.stx_dio_offset_align })
}

/// preadv(2) of raw vectors; the result is in the convention of io_uring.
///
/// # Safety
/// Each vector describes memory that is valid for writing and that nobody else uses meanwhile.
pub(crate) unsafe fn read_raw(fd: BorrowedFd<'_>, vectors: &[libc::iovec], offset_bytes: u64) -> i32 {
    let count = vectors.len().min(IOVEC_MAX) as libc::c_int;
    // SAFETY: the caller's promise.
    as_ring_result(unsafe { libc::preadv(fd.as_raw_fd(), vectors.as_ptr(), count, offset_bytes as libc::off_t) })
}

/// pwritev2(2) of raw vectors; the result is in the convention of io_uring. `dsync`: the data is durable on return,
/// by an extra fdatasync where necessary.
///
/// # Safety
/// Each vector describes memory that is valid for reading and that nobody writes meanwhile.
pub(crate) unsafe fn write_raw(fd: BorrowedFd<'_>, vectors: &[libc::iovec], offset_bytes: u64, dsync: bool) -> i32 {
    let count = vectors.len().min(IOVEC_MAX) as libc::c_int;
    let (raw, pointer, offset) = (fd.as_raw_fd(), vectors.as_ptr(), offset_bytes as libc::off_t);
    if dsync {
        // SAFETY: the caller's promise.
        let result = as_ring_result(unsafe { libc::pwritev2(raw, pointer, count, offset, libc::RWF_DSYNC) });
        if ![-libc::ENOSYS, -libc::EOPNOTSUPP].contains(&result) {
            return result;
        }
        // User-space kernels (gVisor) lack the flag. A write and an fdatasync have the same effect.
    }
    // SAFETY: the caller's promise.
    let written = as_ring_result(unsafe { libc::pwritev(raw, pointer, count, offset) });
    if dsync && written > 0 {
        let synced = sync_data(fd);
        if synced < 0 {
            return synced;
        }
    }
    written
}

/// fdatasync(2); the result is in the convention of io_uring.
pub(crate) fn sync_data(fd: BorrowedFd<'_>) -> i32 {
    // SAFETY: fdatasync takes no pointers; the descriptor is open.
    as_ring_result(unsafe { libc::fdatasync(fd.as_raw_fd()) } as isize)
}

/// fsync(2); the result is in the convention of io_uring.
pub(crate) fn sync_all(fd: BorrowedFd<'_>) -> i32 {
    // SAFETY: fsync takes no pointers; the descriptor is open.
    as_ring_result(unsafe { libc::fsync(fd.as_raw_fd()) } as isize)
}

/// pread(2) of one buffer, or preadv2(2) where `flags` are given; the result is in the convention of io_uring.
///
/// # Safety
/// `into` is valid for writing `len` bytes, and nobody else uses them meanwhile.
pub(crate) unsafe fn read_one(fd: BorrowedFd<'_>, into: *mut u8, len: usize, offset_bytes: u64, flags: i32) -> i32 {
    let (raw, offset) = (fd.as_raw_fd(), offset_bytes as libc::off_t);
    if flags == 0 {
        // SAFETY: the caller's promise.
        return as_ring_result(unsafe { libc::pread(raw, into.cast(), len, offset) });
    }
    let vector = libc::iovec { iov_base: into.cast(), iov_len: len };
    // SAFETY: the caller's promise; one valid vector.
    as_ring_result(unsafe { libc::preadv2(raw, &raw const vector, 1, offset, flags) })
}

/// pwrite(2) of one buffer, or pwritev2(2) where `flags` are given; the result is in the convention of io_uring.
/// Where the kernel does not know `RWF_DSYNC`, it becomes a write and an fdatasync.
///
/// # Safety
/// `from` is valid for reading `len` bytes, and nobody writes them meanwhile.
pub(crate) unsafe fn write_one(fd: BorrowedFd<'_>, from: *const u8, len: usize, offset_bytes: u64, flags: i32) -> i32 {
    let (raw, offset) = (fd.as_raw_fd(), offset_bytes as libc::off_t);
    if flags == 0 {
        // SAFETY: the caller's promise.
        return as_ring_result(unsafe { libc::pwrite(raw, from.cast(), len, offset) });
    }
    let vector = libc::iovec { iov_base: from.cast_mut().cast(), iov_len: len };
    // SAFETY: the caller's promise; one valid vector.
    let result = as_ring_result(unsafe { libc::pwritev2(raw, &raw const vector, 1, offset, flags) });
    if flags & libc::RWF_DSYNC == 0 || ![-libc::ENOSYS, -libc::EOPNOTSUPP].contains(&result) {
        return result;
    }
    // SAFETY: the caller's promise.
    unsafe { write_raw(fd, &[vector], offset_bytes, true) }
}

/// fallocate(2); the result is in the convention of io_uring.
pub(crate) fn allocate(fd: BorrowedFd<'_>, mode: i32, offset_bytes: u64, len_bytes: u64) -> i32 {
    let (offset, len) = (offset_bytes as libc::off_t, len_bytes as libc::off_t);
    // SAFETY: fallocate takes no pointers; the descriptor is open.
    as_ring_result(unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset, len) } as isize)
}

/// Waits until `fd` is readable or the time is over. An interruption ends the wait, too, because the caller checks
/// again anyway.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, timeout_ns: u64) {
    let mut wanted = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout_ms = i32::try_from(timeout_ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut wanted, 1, timeout_ms) };
}

/// Waits in ppoll(2) until one of `wanted` is ready or the time is over. An interruption ends the wait, too.
pub(crate) fn poll_until(wanted: &mut [libc::pollfd], timeout_ns: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: a valid array of pollfd of that length, a valid timespec, and no signal mask.
    unsafe { libc::ppoll(wanted.as_mut_ptr(), wanted.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) };
}
