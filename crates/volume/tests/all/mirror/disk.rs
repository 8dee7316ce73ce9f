//! A device in memory that can fail and hang.

use forebay_block::{
    Buf, Completion, Device, Geometry, IoError, IoErrorKind, Op as DeviceOp, Request as DeviceRequest, Vectored,
};
use forebay_volume::Devices;
use forebay_volume::layout::member_label::{MemberLabel, OFFSETS_BYTES};
use forebay_volume::mirror::read_label;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// Requests that may be in flight.
pub const QUEUE: usize = 8;

/// How a device treats requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Good,
    /// Writes and flushes fail.
    Fails,
    /// Writes and flushes do not end.
    Hangs,
    /// The device is absent: everything fails.
    Away,
    /// Reads do not end.
    HangsReads,
    /// Reads fail, and their buffers are gone.
    BreaksReads,
    /// The data at this byte is unreadable until it is rewritten.
    CannotRead(usize),
    /// Only the next flush fails.
    FailsOneFlush,
    /// Writes to this label copy fail.
    FailsLabel(usize),
}

pub struct Inner {
    pub bytes: Vec<u8>,
    /// Blocks that are unreadable until they are rewritten, by their first bytes.
    pub unreadable: BTreeSet<usize>,
    /// Blocks whose next read returns other data, once.
    pub misread: BTreeSet<usize>,
    fate: Fate,
    /// How often its answers were waited for.
    pub waits: u32,
    /// Requests that have failed.
    pub failures: u32,
    waiting: Vec<DeviceRequest>,
    done: Vec<Completion>,
}

/// A device in memory that can fail.
#[derive(Clone)]
pub struct Disk {
    inner: Arc<Mutex<Inner>>,
    geometry: Geometry,
    pub name: String,
}

impl Disk {
    pub fn new(name: &str, len: usize) -> Self {
        let inner = Inner {
            bytes: vec![0; len],
            unreadable: BTreeSet::new(),
            misread: BTreeSet::new(),
            fate: Fate::Good,
            waits: 0,
            failures: 0,
            waiting: Vec::new(),
            done: Vec::new(),
        };
        let geometry = Geometry {
            size_bytes: len as u64,
            logical_block_bytes: 512,
            optimal_band_bytes: None,
            volatile_cache: false,
            durable_writes: true,
            discards: false,
        };
        Self { inner: Arc::new(Mutex::new(inner)), geometry, name: name.to_owned() }
    }

    /// The same with a volatile cache and support for write-through.
    pub fn cached(mut self) -> Self {
        self.geometry.volatile_cache = true;
        self
    }

    pub fn set(&self, fate: Fate) {
        let mut inner = self.inner.lock().unwrap();
        inner.fate = fate;
        for request in std::mem::take(&mut inner.waiting) {
            inner.carry_out(request);
        }
    }

    /// Sets the mode from now on; requests that hang keep hanging.
    pub fn set_for_others(&self, fate: Fate) {
        self.inner.lock().unwrap().fate = fate;
    }

    /// Another device with the same contents.
    pub fn copy(&self) -> Self {
        let copy = Self::new(&self.name, 0);
        copy.inner.lock().unwrap().bytes = self.inner.lock().unwrap().bytes.clone();
        Self { geometry: self.geometry.clone(), ..copy }
    }

    pub fn boxed(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }

    pub fn label(&self) -> MemberLabel {
        read_label(&mut Devices::new(vec![self.boxed()]), 0).unwrap()
    }

    /// Puts a label in the place for its serial.
    pub fn put(&self, label: &MemberLabel) {
        let at = OFFSETS_BYTES[(label.serial % 2) as usize] as usize;
        self.inner.lock().unwrap().bytes[at..at + 4096].copy_from_slice(&label.encode());
    }

    /// All contents.
    pub fn bytes(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Damages the newest label copy, or the other one.
    pub fn damage_label(&self, is_newest: bool) {
        let newest = self.label();
        let mut inner = self.inner.lock().unwrap();
        for at in OFFSETS_BYTES.map(|at| at as usize) {
            if MemberLabel::decode(&inner.bytes[at..at + 4096])
                .is_some_and(|label| (label.serial == newest.serial) == is_newest)
            {
                inner.bytes[at + 100] ^= 1;
                inner.bytes[at + 10] ^= 1;
            }
        }
    }
}

impl Inner {
    /// The contents from an offset on.
    fn fill(&self, offset_bytes: u64, bufs: &mut Vectored<Buf>) {
        let mut at = offset_bytes as usize;
        for buf in bufs.as_mut_slice() {
            let end = at + buf.len();
            buf.copy_from_slice(&self.bytes[at..end]);
            at = end;
        }
    }

    fn carry_out(&mut self, request: DeviceRequest) {
        let DeviceRequest { tag, offset_bytes, op, .. } = request;
        let is_read = matches!(op, DeviceOp::Read { .. });
        if self.fate == Fate::Hangs && !is_read || self.fate == Fate::HangsReads && is_read {
            self.waiting.push(DeviceRequest { tag, offset_bytes, stream: 0, op });
            return;
        }
        let is_flush = matches!(op, DeviceOp::Flush);
        let has = |at: usize| (offset_bytes..offset_bytes + op.len_bytes()).contains(&(at as u64));
        let fails = match self.fate {
            Fate::Fails => !is_read,
            Fate::FailsOneFlush => is_flush,
            Fate::FailsLabel(copy) => !is_read && !is_flush && offset_bytes == OFFSETS_BYTES[copy],
            Fate::BreaksReads => is_read,
            Fate::CannotRead(at) => is_read && has(at),
            Fate::Away => true,
            Fate::Good | Fate::Hangs | Fate::HangsReads => false,
        };
        let blocks = offset_bytes as usize / 4096 * 4096..(offset_bytes + op.len_bytes()) as usize;
        let is_unreadable = is_read && self.unreadable.range(blocks.clone()).next().is_some();
        if matches!(op, DeviceOp::Write { .. }) {
            self.unreadable.retain(|at| !blocks.contains(at));
        }
        let is_written = matches!((self.fate, &op), (Fate::CannotRead(at), DeviceOp::Write { .. }) if has(at));
        if self.fate == Fate::FailsOneFlush && is_flush || is_written {
            self.fate = Fate::Good;
        }
        if fails || is_unreadable {
            self.failures += 1;
            let kind = if self.fate == Fate::Away { IoErrorKind::Gone } else { IoErrorKind::Medium };
            let error = IoError { kind, operation: op.name(), offset_bytes, os_error: 5 };
            let bufs = match op {
                DeviceOp::Read { mut bufs, .. } if self.fate != Fate::BreaksReads => {
                    // Reused memory may still hold the same data from a good read.
                    self.fill(offset_bytes, &mut bufs);
                    Some(bufs)
                }
                _ => None,
            };
            self.done.push(Completion { tag, result: Err(error), bufs });
            return;
        }
        let mut at = offset_bytes as usize;
        let mut back = None;
        match op {
            DeviceOp::Read { mut bufs, .. } => {
                self.fill(offset_bytes, &mut bufs);
                for buf in bufs.as_mut_slice() {
                    for (block, part) in (at..).step_by(4096).zip(buf.chunks_mut(4096)) {
                        part[0] ^= u8::from(self.misread.remove(&block));
                    }
                    at += buf.len();
                }
                back = Some(bufs);
            }
            DeviceOp::Write { bufs, .. } => {
                for buf in bufs.as_slice() {
                    self.bytes[at..at + buf.len()].copy_from_slice(buf);
                    at += buf.len();
                }
            }
            DeviceOp::WriteZeroes { len_bytes } => self.bytes[at..at + len_bytes as usize].fill(0),
            DeviceOp::Flush | DeviceOp::Discard { .. } => {}
        }
        self.done.push(Completion { tag, result: Ok(()), bufs: back });
    }
}

impl Device for Disk {
    fn name(&self) -> &str {
        &self.name
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: DeviceRequest) {
        self.inner.lock().unwrap().carry_out(request);
    }

    fn poll(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.inner.lock().unwrap().done);
    }

    fn wait(&mut self, _timeout_ns: u64) {
        self.inner.lock().unwrap().waits += 1;
    }

    fn queue_limit(&self) -> usize {
        QUEUE
    }

    fn in_flight(&self) -> usize {
        let inner = self.inner.lock().unwrap();
        inner.waiting.len() + inner.done.len()
    }
}
