//! An I/O on a file on its way through the kernel: what an answer means, and the plain call that carries it out. It
//! serves io_uring and plain calls, so that short transfers and retries are decided in one place.

use super::failure;
use super::medium::{Facts, Medium};
use crate::file::kernel;
use crate::file::transfer::kind_of;
use forebay_block::{Io, IoError, IoErrorKind, OpKind};

/// An I/O fails after this many interruptions or refusals for lack of resources.
const RETRIES_MAX: u32 = 10_000;
/// Mode of fallocate(2) that discards a range of a file.
pub(super) const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// One I/O and its progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) io: Io,
    /// Submitted, and not completed yet.
    pub(super) busy: bool,
    pub(super) done_bytes: u32,
    retries: u32,
}

/// What follows an answer of the kernel.
#[derive(Debug)]
pub(super) enum Answer {
    /// Submit the rest of the I/O.
    Again,
    /// The I/O has ended.
    Done(Option<Box<IoError>>),
}

impl Flight {
    /// A slot without I/O.
    pub(super) fn idle(slot: u32) -> Self {
        let io = Io { slot, kind: OpKind::Flush, len_bytes: 0, offset_bytes: 0, hint: 0 };
        Self { io, busy: false, done_bytes: 0, retries: 0 }
    }

    #[inline]
    pub(super) fn new(io: &Io) -> Self {
        Self { io: *io, busy: true, done_bytes: 0, retries: 0 }
    }

    /// Offset of the rest, in bytes.
    #[inline]
    pub(super) fn offset_bytes(&self) -> u64 {
        self.io.offset_bytes.wrapping_add(u64::from(self.done_bytes))
    }

    /// Length of the rest, in bytes.
    #[inline]
    pub(super) fn left_bytes(&self) -> u32 {
        self.io.len_bytes - self.done_bytes
    }

    /// Takes the kernel's answer: a count of bytes, or a negative errno.
    #[inline]
    pub(super) fn answer(&mut self, result: i32, facts: &Facts) -> Answer {
        let whole = if self.io.kind.has_data() { self.left_bytes() as i32 } else { 0 };
        if result == whole {
            return Answer::Done(None);
        }
        self.unusual(result, facts)
    }

    #[cold]
    fn unusual(&mut self, result: i32, facts: &Facts) -> Answer {
        if result < 0 {
            let os_error = -result;
            if [libc::EINTR, libc::EAGAIN].contains(&os_error) && self.retries < RETRIES_MAX {
                self.retries += 1;
                return Answer::Again;
            }
            return Answer::Done(Some(self.failure(kind_of(os_error), os_error)));
        }
        if !self.io.kind.has_data() {
            return Answer::Done(None);
        }
        let count = (result as u32).min(self.left_bytes());
        // Zero bytes: the end of the file. With direct I/O a count that is not aligned cannot be continued.
        if count == 0 || (facts.direct && !count.is_multiple_of(facts.block_bytes)) {
            return Answer::Done(Some(self.failure(IoErrorKind::Short, 0)));
        }
        self.done_bytes += count;
        if self.left_bytes() == 0 { Answer::Done(None) } else { Answer::Again }
    }

    /// The error of this I/O, at the offset that it has reached.
    pub(super) fn failure(&self, kind: IoErrorKind, os_error: i32) -> Box<IoError> {
        failure(kind, self.io.kind, self.offset_bytes(), os_error)
    }
}

/// Flags of a read or write (pwritev2(2)).
#[inline]
pub(super) fn rw_flags(kind: OpKind, dsync: bool) -> i32 {
    match kind {
        OpKind::WriteFua => libc::RWF_DSYNC,
        OpKind::Write if dsync => libc::RWF_DSYNC,
        _ => 0,
    }
}

/// Carries out the rest of an I/O in one blocking call; the result is in the convention of io_uring.
///
/// # Safety
/// `buffer` is valid for the I/O's length, and nobody else uses it meanwhile.
pub(super) unsafe fn call(medium: &Medium, flight: &Flight, buffer: *mut u8, flags: i32) -> i32 {
    let (fd, offset_bytes, len) = (medium.fd(), flight.offset_bytes(), flight.left_bytes());
    let rest = buffer.wrapping_add(flight.done_bytes as usize);
    match flight.io.kind {
        // SAFETY: the caller's promise; what is done and what is left make the I/O's length.
        OpKind::Read => unsafe { kernel::read_one(fd, rest, len as usize, offset_bytes, flags) },
        // SAFETY: as above.
        OpKind::Write | OpKind::WriteFua => unsafe {
            kernel::write_one(fd, rest.cast_const(), len as usize, offset_bytes, flags)
        },
        OpKind::Trim if medium.facts.block_device => kernel::discard(fd, offset_bytes, u64::from(len)),
        OpKind::Trim => kernel::allocate(fd, PUNCH_HOLE, offset_bytes, u64::from(len)),
        OpKind::Flush => kernel::sync_data(fd),
        OpKind::Fsync => kernel::sync_all(fd),
    }
}
