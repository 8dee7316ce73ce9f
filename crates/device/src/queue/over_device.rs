//! Queues over any [`forebay_block::Device`], for targets in memory, which are only devices.
//!
//! A device takes and returns owned buffers, so writes are copied once; reads are not. These queues are for trials
//! and for tests of the generator, not for finding the limits of memory.

use super::error::OpenError;
use super::shared_device::{Handle, QueueNumber};
use super::{QueueOptions, failure, refusal};
use forebay_block::{Buf, Completion, Done, Io, IoErrorKind, Op, OpKind, Queue, Request, Vectored};
use std::time::Duration;

/// How long dropping a queue waits for its I/Os in flight.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// One of the queues over a device; each may be used by its own thread.
pub struct DeviceQueue {
    handle: Handle,
    number: QueueNumber,
    options: QueueOptions,
    /// The buffer of each slot; empty while a read has it.
    buffers: Vec<Buf>,
    /// The unread rest of each slot's buffer during a read.
    tails: Vec<Buf>,
    gathered: Vec<Request>,
    completions: Vec<Completion>,
    finished: Vec<Done>,
    /// Requests passed to the device whose completions were not taken, including gathered ones.
    outstanding: u32,
    synchronous: bool,
}

impl std::fmt::Debug for DeviceQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DeviceQueue({}, {} in flight)", self.number, self.in_flight())
    }
}

impl DeviceQueue {
    /// Adds a queue to a device.
    ///
    /// # Errors
    /// [`OpenError::Buffers`] where the system gives no descriptor to wait with.
    pub(super) fn new(handle: &Handle, options: &QueueOptions) -> Result<Self, OpenError> {
        let (slots, buffer_bytes) = (options.slots, options.buffer_bytes);
        let size_bytes = buffer_bytes as u64 * u64::from(slots);
        let number = handle.enter().map_err(|source| OpenError::Buffers { size_bytes, slots, source })?;
        Ok(Self {
            handle: handle.clone(),
            number,
            options: *options,
            buffers: (0..slots).map(|_| Buf::zeroed(buffer_bytes)).collect(),
            tails: (0..slots).map(|_| Buf::empty()).collect(),
            gathered: Vec::new(),
            completions: Vec::new(),
            finished: Vec::new(),
            outstanding: 0,
            synchronous: handle.is_synchronous(),
        })
    }

    fn operation(&mut self, io: &Io) -> Op {
        let (slot, len) = (io.slot as usize, io.len_bytes as usize);
        match io.kind {
            OpKind::Read => {
                let mut buf = std::mem::replace(&mut self.buffers[slot], Buf::empty());
                self.tails[slot] = buf.split_off(len);
                Op::read(Vectored::One(buf))
            }
            OpKind::Write | OpKind::WriteFua => {
                let bufs = Vectored::One(Buf::copy_of(&self.buffers[slot][..len]).freeze());
                Op::Write { bufs, fua: io.kind == OpKind::WriteFua || self.options.dsync }
            }
            OpKind::Trim => Op::Discard { len_bytes: u64::from(io.len_bytes) },
            OpKind::Flush | OpKind::Fsync => Op::Flush,
        }
    }

    /// Turns completions into results, and reassembles the buffers of reads.
    fn settle(&mut self) {
        for completion in self.completions.drain(..) {
            // The lower half of the tag is the slot. The upper half is the queue, which is this one.
            let slot = completion.tag as u32;
            self.outstanding -= 1;
            if let Some(Vectored::One(mut buf)) = completion.bufs {
                let tail = std::mem::replace(&mut self.tails[slot as usize], Buf::empty());
                let joined = buf.try_join(tail).is_ok() && buf.len() == self.options.buffer_bytes;
                self.buffers[slot as usize] = if joined { buf } else { Buf::zeroed(self.options.buffer_bytes) };
            } else if self.buffers[slot as usize].is_empty() {
                self.buffers[slot as usize] = Buf::zeroed(self.options.buffer_bytes);
            }
            self.finished.push(Done { slot, error: completion.result.err().map(Box::new) });
        }
    }
}

impl Queue for DeviceQueue {
    fn slots(&self) -> u32 {
        self.options.slots
    }

    fn buffer_bytes(&self) -> usize {
        self.options.buffer_bytes
    }

    #[inline]
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        &mut self.buffers[slot as usize]
    }

    fn submit(&mut self, io: &Io) {
        let forbidden = self.options.read_only && io.kind.is_destructive();
        let refused = refusal(io, self.options.buffer_bytes)
            .or_else(|| forbidden.then(|| failure(IoErrorKind::Unsupported, io.kind, io.offset_bytes, libc::EROFS)));
        if let Some(error) = refused {
            self.finished.push(Done { slot: io.slot, error: Some(error) });
            return;
        }
        let tag = u64::from(self.number) << 32 | u64::from(io.slot);
        let request = Request { tag, offset_bytes: io.offset_bytes, stream: 0, op: self.operation(io) };
        self.outstanding += 1;
        if self.synchronous {
            self.handle.carry_out(request, self.number, &mut self.completions);
            self.settle();
        } else {
            self.gathered.push(request);
        }
    }

    fn kick(&mut self) {
        if !self.gathered.is_empty() {
            self.handle.give(&mut self.gathered);
        }
    }

    fn reap(&mut self, done: &mut Vec<Done>) {
        if self.outstanding > 0 {
            self.handle.take(self.number, &mut self.completions);
            self.settle();
        }
        done.append(&mut self.finished);
    }

    fn wait(&mut self, timeout_ns: u64) {
        self.kick();
        if self.outstanding > 0 && self.finished.is_empty() {
            self.handle.wait(self.number, timeout_ns);
        }
    }

    fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    fn in_flight(&self) -> u32 {
        self.outstanding + self.finished.len() as u32
    }
}

impl Drop for DeviceQueue {
    fn drop(&mut self) {
        let given = self.outstanding as usize - self.gathered.len();
        self.handle.leave(self.number, given, DROP_TIMEOUT);
    }
}
