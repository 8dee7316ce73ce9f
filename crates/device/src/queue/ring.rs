//! io_uring on a file or block device, with registered buffers and file.
//!
//! A ring serves one thread, the first that submits. Where the kernel allows only a single issuer, I/O of another
//! thread fails with EEXIST.

use super::arena::Arena;
use super::flight::{Answer, Flight, PUNCH_HOLE, call, rw_flags};
use super::medium::Medium;
use super::refusal;
use super::ring_setup::{Setup, TaskWork};
use super::sync::is_not_polled;
use crate::file::kernel;
use crate::file::transfer::kind_of;
use forebay_block::{Done, Io, OpKind, Queue};
use io_uring::{IoUring, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long dropping a queue waits for the kernel to release its buffers.
const DROP_TIMEOUT: Duration = Duration::from_secs(30);
/// Most calls in one submission; each takes entries, or ends the submission.
const ENTERS_MAX: u32 = 64;
/// `IORING_ENTER_GETEVENTS` (linux/io_uring.h).
const GETEVENTS: u32 = 1;
/// `BLOCK_URING_CMD_DISCARD`, `_IO(0x12, 0)`: Linux 6.12, include/uapi/linux/blkdev.h. Offset in `addr`, length in
/// `addr3`, which is the first word of the command area (block/ioctl.c, blkdev_uring_cmd).
const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// A queue over a ring of its own.
pub struct RingQueue {
    ring: IoUring,
    /// Freed only when the kernel holds no pointer into it.
    arena: ManuallyDrop<Arena>,
    medium: Arc<Medium>,
    flights: Vec<Flight>,
    /// I/Os submitted and not answered, including those in `by_call`.
    unanswered: u32,
    finished: Vec<Done>,
    /// Slots whose entry must be submitted again.
    again: Vec<u32>,
    /// Slots that only a blocking call can serve.
    by_call: VecDeque<u32>,
    /// Whether the kernel has no discard for rings.
    discards_by_call: bool,
    dsync: bool,
    polled: bool,
    disabled: bool,
    file_registered: bool,
    buffers_registered: bool,
    task_work: TaskWork,
    /// The error with which the ring itself failed; it cannot be used any more then.
    broken: Option<i32>,
}

impl std::fmt::Debug for RingQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RingQueue({} of {} in flight, {:?})", self.in_flight(), self.slots(), self.task_work)
    }
}

impl RingQueue {
    pub(super) fn new(medium: Arc<Medium>, arena: Arena, setup: Setup, polled: bool, dsync: bool) -> Self {
        let slots = arena.slots();
        Self {
            ring: setup.ring,
            arena: ManuallyDrop::new(arena),
            medium,
            flights: (0..slots).map(Flight::idle).collect(),
            unanswered: 0,
            finished: Vec::with_capacity(slots as usize),
            again: Vec::with_capacity(slots as usize),
            by_call: VecDeque::new(),
            discards_by_call: false,
            dsync,
            polled,
            disabled: setup.disabled,
            file_registered: setup.file_registered,
            buffers_registered: setup.buffers_refusal.is_none(),
            task_work: setup.task_work,
            broken: None,
        }
    }

    /// Makes this thread the one that uses the ring.
    #[cold]
    fn start(&mut self) {
        self.disabled = false;
        if let Err(error) = self.ring.submitter().register_enable_rings() {
            self.fail(error.raw_os_error().unwrap_or(libc::EIO));
        }
    }

    /// Puts the entry of a slot into the submission queue, or the slot into `by_call` where it needs a call.
    #[inline]
    fn push(&mut self, slot: u32) {
        let kind = self.flights[slot as usize].io.kind;
        self.unanswered += 1;
        if (self.polled && is_not_polled(kind)) || (kind == OpKind::Trim && self.discards_by_call) {
            self.by_call.push_back(slot);
            return;
        }
        let entry = self.entry(slot).user_data(u64::from(slot));
        // SAFETY: the entry's pointer leads into the slot's part of the arena, and its length fits (`refusal`). The
        // arena lives until the kernel has answered, or is leaked; `buffer` and `submit` refuse a busy slot.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            // The queue has room for an entry of each slot, so only a kernel that takes none can lead here.
            self.end(slot, libc::EBUSY);
        }
    }

    /// Ends an unanswered I/O with an error.
    #[cold]
    fn end(&mut self, slot: u32, os_error: i32) {
        let flight = &mut self.flights[slot as usize];
        flight.busy = false;
        self.unanswered -= 1;
        self.finished.push(Done { slot, error: Some(flight.failure(kind_of(os_error), os_error)) });
    }

    #[inline]
    fn entry(&self, slot: u32) -> squeue::Entry {
        let flight = &self.flights[slot as usize];
        let (offset_bytes, len) = (flight.offset_bytes(), flight.left_bytes());
        let pointer = self.arena.pointer(slot).wrapping_add(flight.done_bytes as usize);
        let flags = rw_flags(flight.io.kind, self.dsync);
        // The crate's trait over both kinds of descriptor is sealed, hence a macro.
        macro_rules! on {
            ($fd:expr) => {
                match flight.io.kind {
                    OpKind::Read if self.buffers_registered => {
                        opcode::ReadFixed::new($fd, pointer, len, slot as u16).offset(offset_bytes).build()
                    }
                    OpKind::Read => opcode::Read::new($fd, pointer, len).offset(offset_bytes).build(),
                    OpKind::Write | OpKind::WriteFua if self.buffers_registered => {
                        opcode::WriteFixed::new($fd, pointer, len, slot as u16)
                            .offset(offset_bytes)
                            .rw_flags(flags)
                            .build()
                    }
                    OpKind::Write | OpKind::WriteFua => {
                        opcode::Write::new($fd, pointer, len).offset(offset_bytes).rw_flags(flags).build()
                    }
                    OpKind::Trim if self.medium.facts.block_device => {
                        let mut command = [0; 16];
                        command[..8].copy_from_slice(&u64::from(len).to_ne_bytes());
                        opcode::UringCmd16::new($fd, BLOCK_URING_CMD_DISCARD)
                            .addr(Some(offset_bytes))
                            .cmd(command)
                            .build()
                    }
                    OpKind::Trim => {
                        opcode::Fallocate::new($fd, u64::from(len)).offset(offset_bytes).mode(PUNCH_HOLE).build()
                    }
                    OpKind::Flush => opcode::Fsync::new($fd).flags(types::FsyncFlags::DATASYNC).build(),
                    OpKind::Fsync => opcode::Fsync::new($fd).build(),
                }
            };
        }
        if self.file_registered { on!(types::Fixed(0)) } else { on!(types::Fd(self.medium.raw_fd())) }
    }

    /// Submits entries. With `events` the kernel also posts completions that wait for this thread to enter it.
    fn enter(&mut self, mut events: bool) {
        for _ in 0..ENTERS_MAX {
            let waiting = self.ring.submission().len() as u32;
            if waiting == 0 && !events {
                return;
            }
            let flags = if events { GETEVENTS } else { 0 };
            // SAFETY: no argument is passed; the entries were vouched for when they were pushed.
            match unsafe { self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, flags, None) } {
                Ok(_) => events = false,
                Err(error) => {
                    if !self.survives(&error) {
                        return;
                    }
                    if error.raw_os_error() != Some(libc::EINTR) {
                        // Lack of memory or room: entries stay queued, and the next call submits them.
                        return;
                    }
                }
            }
        }
    }

    /// Whether the ring is still usable after this error; marks it as failed otherwise.
    #[cold]
    fn survives(&mut self, error: &io::Error) -> bool {
        match error.raw_os_error().unwrap_or(libc::EIO) {
            // EBUSY: completions must be collected first; ETIME: a wait that ended.
            libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ETIME | libc::ENOMEM => true,
            os_error => {
                self.fail(os_error);
                false
            }
        }
    }

    /// Marks the ring as unusable: everything in flight and all later I/Os fail.
    #[cold]
    fn fail(&mut self, os_error: i32) {
        self.broken = Some(os_error);
        self.by_call.clear();
        self.again.clear();
        for slot in 0..self.slots() {
            if self.flights[slot as usize].busy {
                self.end(slot, os_error);
            }
        }
    }

    /// Takes all entries out of the completion queue.
    #[inline]
    fn collect(&mut self, done: &mut Vec<Done>) {
        let Self { ring, flights, medium, again, unanswered, .. } = self;
        for entry in ring.completion() {
            let slot = entry.user_data() as u32;
            let Some(flight) = flights.get_mut(slot as usize).filter(|flight| flight.busy) else { continue };
            *unanswered -= 1;
            match flight.answer(entry.result(), &medium.facts) {
                Answer::Again => again.push(slot),
                Answer::Done(error) => {
                    flight.busy = false;
                    done.push(Done { slot, error });
                }
            }
        }
    }

    /// Continues short transfers, and discards that the ring does not support.
    #[cold]
    fn after_collect(&mut self, done: &mut Vec<Done>) {
        while let Some(slot) = self.again.pop() {
            self.push(slot);
        }
        self.enter(false);
        done.append(&mut self.finished);
    }

    /// Carries out one I/O that needs a blocking call. There is one per poll, so that its time lies between
    /// submission and completion, as for any other I/O.
    #[cold]
    fn call_one(&mut self, done: &mut Vec<Done>) {
        let Some(slot) = self.by_call.pop_front() else { return };
        let flight = &mut self.flights[slot as usize];
        // The loop is bounded: each round moves bytes or uses up a retry.
        let error = loop {
            // SAFETY: only discards and flushes come here, which use no buffer.
            let result = unsafe { call(&self.medium, flight, self.arena.pointer(slot), 0) };
            if let Answer::Done(error) = flight.answer(result, &self.medium.facts) {
                break error;
            }
        };
        flight.busy = false;
        self.unanswered -= 1;
        done.push(Done { slot, error });
    }

    /// A discard that the ring refused may still work as a call, on kernels before 6.12.
    #[cold]
    fn retry_discards(&mut self, done: &mut [Done]) -> bool {
        let unknown = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENOTTY];
        let facts = self.medium.facts;
        let mut known = false;
        for one in done.iter_mut() {
            let flight = &mut self.flights[one.slot as usize];
            let refused = one.error.as_ref().is_some_and(|error| unknown.contains(&error.os_error));
            if refused && flight.io.kind == OpKind::Trim {
                // SAFETY: a discard uses no buffer.
                let result = unsafe { call(&self.medium, flight, self.arena.pointer(one.slot), 0) };
                if let Answer::Done(None) = flight.answer(result, &facts) {
                    one.error = None;
                    known = true;
                }
            }
        }
        known
    }
}

impl Queue for RingQueue {
    fn slots(&self) -> u32 {
        self.arena.slots()
    }

    fn buffer_bytes(&self) -> usize {
        self.arena.buffer_bytes()
    }

    /// # Panics
    /// The slot is in flight: the kernel has its buffer.
    #[inline]
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.flights[slot as usize].busy, "slot {slot} is in flight");
        self.arena.slice_mut(slot)
    }

    /// # Panics
    /// The slot is in flight already.
    #[inline]
    fn submit(&mut self, io: &Io) {
        assert!(!self.flights[io.slot as usize].busy, "slot {} is in flight", io.slot);
        if self.disabled {
            self.start();
        }
        self.flights[io.slot as usize] = Flight::new(io);
        if let Some(os_error) = self.broken {
            self.unanswered += 1;
            self.end(io.slot, os_error);
            return;
        }
        if let Some(error) = refusal(io, self.arena.buffer_bytes()) {
            self.flights[io.slot as usize].busy = false;
            self.finished.push(Done { slot: io.slot, error: Some(error) });
            return;
        }
        self.push(io.slot);
    }

    #[inline]
    fn kick(&mut self) {
        if self.broken.is_none() {
            self.enter(false);
        }
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Done>) {
        if !self.finished.is_empty() {
            done.append(&mut self.finished);
        }
        if self.unanswered == 0 || self.broken.is_some() {
            return;
        }
        if !self.by_call.is_empty() {
            self.call_one(done);
        }
        let before = done.len();
        self.collect(done);
        if done.len() == before && self.again.is_empty() {
            // Avoids the system call where nothing can be there. A polled ring must always be asked; otherwise the
            // kernel says whether completions wait for this thread to enter.
            let submission = self.ring.submission();
            if !(self.polled || submission.taskrun() || !submission.is_empty()) {
                return;
            }
            drop(submission);
            self.enter(true);
            self.collect(done);
        }
        if self.medium.facts.block_device && done[before..].iter().any(|one| one.error.is_some()) {
            self.discards_by_call |= self.retry_discards(&mut done[before..]);
        }
        if !self.again.is_empty() || !self.finished.is_empty() {
            self.after_collect(done);
        }
    }

    fn wait(&mut self, timeout_ns: u64) {
        if self.unanswered == 0 || self.broken.is_some() {
            return;
        }
        if !self.finished.is_empty() || !self.by_call.is_empty() || !self.ring.completion().is_empty() {
            self.enter(false);
            return;
        }
        if self.ring.params().is_feature_ext_arg() {
            let timeout = types::Timespec::from(Duration::from_nanos(timeout_ns));
            let arguments = types::SubmitArgs::new().timespec(&timeout);
            if let Err(error) = self.ring.submitter().submit_with_args(1, &arguments) {
                self.survives(&error);
            }
        } else {
            self.enter(false);
            // SAFETY: the ring's descriptor is open as long as the ring lives.
            let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
            kernel::wait_readable(fd, timeout_ns);
        }
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.unanswered + self.finished.len() as u32
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        let started = Instant::now();
        let mut forgotten = Vec::new();
        for slot in self.by_call.drain(..) {
            self.flights[slot as usize].busy = false;
        }
        self.finished.clear();
        while self.broken.is_none() && self.flights.iter().any(|flight| flight.busy) {
            // Continuations are dropped; requests in the kernel must complete.
            self.wait(100_000_000);
            self.collect(&mut forgotten);
            for slot in self.again.drain(..) {
                self.flights[slot as usize].busy = false;
            }
            forgotten.clear();
            if started.elapsed() > DROP_TIMEOUT {
                self.broken = Some(libc::ETIMEDOUT);
            }
        }
        // The kernel tears a ring down later, on a thread of its own, and until then the registered file stays open.
        // Unregistering it is refused on another thread than the ring's; the file then stays open for that time.
        if self.file_registered {
            let _ = self.ring.submitter().unregister_files();
        }
        if self.broken.is_none() {
            // SAFETY: the kernel has answered everything, so that it holds no pointer into the arena, which is
            // dropped here and never used again.
            unsafe { ManuallyDrop::drop(&mut self.arena) };
        }
    }
}
