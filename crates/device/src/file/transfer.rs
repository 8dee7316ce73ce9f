//! A request on its way through the kernel: the next step to submit, and what an answer means. It serves io_uring and
//! plain system calls, so that short transfers, retries and fallbacks are decided in one place.

use super::kernel::IOVEC_MAX;
use super::open::Medium;
use forebay_block::{Buf, Completion, IoError, IoErrorKind, Op, Request, SharedBuf, Vectored};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// A request fails after this many interruptions or refusals for lack of resources.
const RETRIES_MAX: u32 = 10_000;
/// Longest write of zeros in one step, where zeros must be written, in bytes.
const ZERO_PIECE_BYTES: usize = 1 << 20;
/// Longest part of a buffer passed to the kernel in one step; the rest follows. The length field has 32 bits.
const PIECE_MAX_BYTES: usize = 1 << 30;

const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP_SIZE;
/// On block devices this is `BLKZEROOUT` without unmapping: both end in blkdev_issue_zeroout (Linux block/fops.c,
/// block/ioctl.c), and this one has a ring operation.
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE | KEEP_SIZE;

/// The next step to submit to the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Read into [`Transfer::vectors`].
    Read { offset_bytes: u64 },
    /// Write from [`Transfer::vectors`].
    Write { offset_bytes: u64, dsync: bool, stream: u8 },
    /// fdatasync.
    Sync,
    /// fallocate.
    Allocate { mode: i32, offset_bytes: u64, len_bytes: u64 },
    /// Discard on a block device through the ring (Linux 6.12 and later).
    DiscardCommand { offset_bytes: u64, len_bytes: u64 },
    /// `BLKDISCARD`, a call that blocks.
    DiscardCall { offset_bytes: u64, len_bytes: u64 },
}

/// Ways to zero or discard a range. Each is the fallback of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    ZeroRange,
    PunchHole,
    WriteZeros,
    DiscardCommand,
    DiscardCall,
}

#[derive(Debug)]
enum Work {
    Read { bufs: Vectored<Buf>, bounce: Option<Buf> },
    Write { bufs: Vectored<SharedBuf>, bounce: Option<SharedBuf>, fua: bool },
    Flush,
    Range { method: Method, discard: bool },
}

/// A request in flight. It owns the memory that its vectors point to until it ends.
#[derive(Debug)]
pub(super) struct Transfer {
    tag: u64,
    offset_bytes: u64,
    len_bytes: u64,
    done_bytes: u64,
    stream: u8,
    retries: u32,
    work: Work,
    /// Only the flush that makes the change durable is left.
    is_syncing: bool,
    vectors: Vec<libc::iovec>,
    /// Index of the first vector with bytes left.
    next_vector: usize,
    medium: Medium,
}

// SAFETY: the raw pointers in `vectors` lead into buffers that `work` owns (or into the static zeros); they move
// between threads together.
unsafe impl Send for Transfer {}

/// What follows an answer of the kernel.
#[derive(Debug)]
pub(super) enum Next {
    /// Submit the next step: [`Transfer::step`].
    Again,
    /// The request has ended.
    Done(Result<(), IoError>),
}

impl Transfer {
    /// A transfer for a validated request of `len_bytes`.
    pub(super) fn new(request: Request, len_bytes: u64, medium: Medium) -> Self {
        let work = match request.op {
            Op::Read { bufs, .. } => {
                let lengths = bufs.as_slice().iter().map(|buf| &**buf);
                let bounce = medium.needs_bounce(lengths).then(|| Buf::new(len_bytes as usize));
                Work::Read { bufs, bounce }
            }
            Op::Write { bufs, fua } => {
                let slices = bufs.as_slice().iter().map(|buf| &**buf);
                let bounce = medium.needs_bounce(slices).then(|| gather(bufs.as_slice(), len_bytes as usize));
                Work::Write { bufs, bounce, fua }
            }
            Op::Flush => Work::Flush,
            Op::Discard { .. } => {
                let method = if medium.block_device { Method::DiscardCommand } else { Method::PunchHole };
                Work::Range { method, discard: true }
            }
            Op::WriteZeroes { .. } => Work::Range { method: Method::ZeroRange, discard: false },
        };
        let mut transfer = Self {
            tag: request.tag,
            offset_bytes: request.offset_bytes,
            len_bytes,
            done_bytes: 0,
            stream: request.stream,
            retries: 0,
            is_syncing: false,
            work,
            vectors: Vec::new(),
            next_vector: 0,
            medium,
        };
        transfer.set_vectors();
        transfer
    }

    fn set_vectors(&mut self) {
        let vectors = &mut self.vectors;
        let mut add = |pointer: *const u8, len: usize| {
            if len > 0 {
                vectors.push(libc::iovec { iov_base: pointer.cast_mut().cast(), iov_len: len });
            }
        };
        match &mut self.work {
            Work::Read { bounce: Some(bounce), .. } => add(bounce.as_mut_ptr(), bounce.len()),
            Work::Read { bufs, bounce: None } => {
                bufs.as_mut_slice().iter_mut().for_each(|buf| add(buf.as_mut_ptr(), buf.len()));
            }
            Work::Write { bounce: Some(bounce), .. } => add(bounce.as_ptr(), bounce.len()),
            Work::Write { bufs, .. } => bufs.as_slice().iter().for_each(|buf| add(buf.as_ptr(), buf.len())),
            Work::Flush | Work::Range { .. } => {}
        }
    }

    /// The memory of the next read or write, as vectors.
    pub(super) fn vectors(&self) -> &[libc::iovec] {
        let rest = &self.vectors[self.next_vector..];
        &rest[..rest.len().min(IOVEC_MAX)]
    }

    /// The next step.
    pub(super) fn step(&mut self) -> Step {
        let offset_bytes = self.offset_bytes + self.done_bytes;
        let len_bytes = self.len_bytes - self.done_bytes;
        if self.is_syncing {
            return Step::Sync;
        }
        match self.work {
            Work::Read { .. } => Step::Read { offset_bytes },
            Work::Write { fua, .. } => Step::Write { offset_bytes, dsync: fua, stream: self.stream },
            Work::Flush => Step::Sync,
            Work::Range { method, .. } => match method {
                Method::ZeroRange => Step::Allocate { mode: ZERO_RANGE, offset_bytes, len_bytes },
                Method::PunchHole => Step::Allocate { mode: PUNCH_HOLE, offset_bytes, len_bytes },
                Method::DiscardCommand => Step::DiscardCommand { offset_bytes, len_bytes },
                Method::DiscardCall => Step::DiscardCall { offset_bytes, len_bytes },
                Method::WriteZeros => {
                    let zeros = zeros();
                    let iov_len = (len_bytes as usize).min(zeros.len());
                    let iov_base = zeros.as_ptr().cast_mut().cast();
                    self.vectors.clear();
                    self.next_vector = 0;
                    self.vectors.push(libc::iovec { iov_base, iov_len });
                    Step::Write { offset_bytes, dsync: false, stream: 0 }
                }
            },
        }
    }

    /// Takes the kernel's answer: a count of bytes, or a negative errno.
    pub(super) fn answer(&mut self, result: i32) -> Next {
        if result < 0 {
            return self.refused(-result);
        }
        match self.work {
            _ if self.is_syncing => return Next::Done(Ok(())),
            Work::Flush => return Next::Done(Ok(())),
            Work::Range { method, .. } if method != Method::WriteZeros => return self.changed(),
            _ => {}
        }
        let count = result as u64;
        let left_bytes = self.len_bytes - self.done_bytes;
        // Zero bytes: the file was truncated meanwhile, or the device has lost its end. With direct I/O a count that
        // is not aligned cannot be continued.
        if count == 0 || (count < left_bytes && self.medium.direct && !count.is_multiple_of(self.medium.block_bytes()))
        {
            return Next::Done(Err(self.error(IoErrorKind::Short, 0)));
        }
        self.done_bytes += count.min(left_bytes);
        if self.done_bytes < self.len_bytes {
            self.consume(count as usize);
            return Next::Again;
        }
        if let Work::Read { bufs, bounce: Some(bounce) } = &mut self.work {
            let mut at = 0;
            for buf in bufs.as_mut_slice() {
                let len = buf.len();
                buf.copy_from_slice(&bounce[at..at + len]);
                at += len;
            }
        }
        self.changed()
    }

    /// The whole range is done. Adds a flush where the device has gained a volatile cache, unless the write was
    /// durable by itself.
    fn changed(&mut self) -> Next {
        self.is_syncing = self.medium.writes_through.is_some_and(|is_on| is_on.load(Ordering::Acquire))
            && matches!(self.work, Work::Write { fua: false, .. } | Work::Range { discard: false, .. });
        if self.is_syncing { Next::Again } else { Next::Done(Ok(())) }
    }

    /// Moves the vectors past `count` bytes.
    fn consume(&mut self, mut count: usize) {
        while let Some(vector) = self.vectors.get_mut(self.next_vector) {
            let step = count.min(vector.iov_len);
            vector.iov_base = vector.iov_base.cast::<u8>().wrapping_add(step).cast();
            vector.iov_len -= step;
            count -= step;
            if vector.iov_len > 0 {
                return;
            }
            self.next_vector += 1;
        }
    }

    fn refused(&mut self, os_error: i32) -> Next {
        if [libc::EINTR, libc::EAGAIN].contains(&os_error) && self.retries < RETRIES_MAX {
            self.retries += 1;
            return Next::Again;
        }
        if let Work::Range { method, discard } = &mut self.work
            && !self.is_syncing
        {
            // EINVAL: the ring does not know the command, or the file system not the flag; EPERM: a write seal, or a
            // block device that forbids it. A real error occurs again with the fallback.
            let unsupported = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL, libc::ENOTTY, libc::ENODEV];
            let next = match (*method, unsupported.contains(&os_error)) {
                (_, false) | (Method::WriteZeros, _) => None,
                (Method::DiscardCommand, true) => Some(Method::DiscardCall),
                (Method::ZeroRange, true) if !self.medium.block_device => Some(Method::PunchHole),
                (Method::ZeroRange, true) => Some(Method::WriteZeros),
                // An unsupported discard is no failure: the content of the range was not needed.
                (Method::PunchHole | Method::DiscardCall, true) if *discard && os_error != libc::ENODEV => {
                    return Next::Done(Ok(()));
                }
                (Method::PunchHole, true) if !*discard => Some(Method::WriteZeros),
                (Method::PunchHole | Method::DiscardCall, true) => None,
            };
            if let Some(next) = next {
                *method = next;
                return Next::Again;
            }
        }
        Next::Done(Err(self.error(kind_of(os_error), os_error)))
    }

    fn error(&self, kind: IoErrorKind, os_error: i32) -> IoError {
        let operation = match self.work {
            Work::Read { .. } => "read",
            Work::Write { .. } => "write",
            Work::Flush => "flush",
            Work::Range { discard: true, .. } => "discard",
            Work::Range { discard: false, .. } => "write-zeroes",
        };
        IoError { kind, operation, offset_bytes: self.offset_bytes + self.done_bytes, os_error }
    }

    /// The error of a transfer whose ring failed.
    pub(super) fn ring_error(&self, os_error: i32) -> IoError {
        self.error(IoErrorKind::Medium, os_error)
    }

    /// The request's tag.
    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    /// Completes the request.
    pub(super) fn finish(self, result: Result<(), IoError>) -> Completion {
        let bufs = match self.work {
            Work::Read { bufs, .. } => Some(bufs),
            _ => None,
        };
        Completion { tag: self.tag, result, bufs }
    }
}

/// Length of a single-buffer operation.
pub(super) fn piece_len(vector: &libc::iovec) -> u32 {
    vector.iov_len.min(PIECE_MAX_BYTES) as u32
}

/// The kind of an error number.
pub(crate) fn kind_of(os_error: i32) -> IoErrorKind {
    match os_error {
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM | libc::ESHUTDOWN | libc::EBADFD => IoErrorKind::Gone,
        libc::ENOSPC | libc::EDQUOT | libc::EFBIG => IoErrorKind::NoSpace,
        libc::EINVAL | libc::EFAULT => IoErrorKind::Invalid,
        libc::EOPNOTSUPP | libc::ENOSYS | libc::EBADF | libc::EPERM | libc::EROFS => IoErrorKind::Unsupported,
        _ => IoErrorKind::Medium,
    }
}

fn gather(bufs: &[SharedBuf], len: usize) -> SharedBuf {
    let mut whole = Buf::new(len);
    let mut at = 0;
    for buf in bufs {
        whole[at..at + buf.len()].copy_from_slice(buf);
        at += buf.len();
    }
    whole.freeze()
}

fn zeros() -> &'static SharedBuf {
    static ZEROS: OnceLock<SharedBuf> = OnceLock::new();
    ZEROS.get_or_init(|| Buf::zeroed(ZERO_PIECE_BYTES).freeze())
}
