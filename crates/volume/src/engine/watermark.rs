//! The watermark block: up to where the journal is known to be durable, written lazily.

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::journal::Journal;
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use forebay_block::{Buf, Op, Vectored};
use std::sync::Arc;

/// How long a changed watermark may stay unwritten, in nanoseconds.
const WRITE_EVERY_NS: u64 = 1_000_000_000;

/// Failures in a row that double the wait: up to an hour.
const FAILURES_MAX: u32 = 12;

/// State of writing it.
pub(crate) struct WatermarkWriter {
    setup: Arc<Setup>,
    /// Last batch of the contiguous durable run, and the exceptions, as last written.
    written: (u64, u64),
    written_at_ns: u64,
    serial: u64,
    is_busy: bool,
    /// Writes that failed in a row. Each may mean a lost cache, and holds up hosts: one that never succeeds becomes rare.
    failures: u32,
}

impl WatermarkWriter {
    /// Nothing was written yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        Self { setup, written: (0, 0), written_at_ns: 0, serial: 0, is_busy: false, failures: 0 }
    }

    /// Recovery starts counting where the last watermark block ended.
    pub fn resume(&mut self, serial: u64) {
        self.serial = serial;
    }

    /// Writes the block when it changed and enough time has passed; never while nothing changes. Durably: no flush may
    /// follow that would make it so.
    pub fn write(&mut self, journal: &Journal, outbox: &mut Outbox, now_ns: u64) {
        let (batch, exceptions) = journal.watermark();
        let is_due = now_ns.saturating_sub(self.written_at_ns) >= WRITE_EVERY_NS << self.failures.min(FAILURES_MAX);
        if self.is_busy || !is_due || (batch, exceptions) == self.written {
            return;
        }
        self.is_busy = true;
        self.written = (batch, exceptions);
        self.written_at_ns = now_ns;
        self.serial += 1;
        let watermark = Watermark { epoch: journal.epoch(), batch, exceptions, serial: self.serial };
        let offset_bytes = OFFSETS_BYTES[(self.serial % 2) as usize];
        let bytes = Buf::copy_of(&watermark.encode(&self.setup.superblock.pool)).freeze();
        let op = Op::Write { bufs: Vectored::One(bytes), fua: true };
        outbox.send(0, offset_bytes, 0, op, Pending::Watermark);
    }

    /// The write ended; one that failed is tried again when the next is due.
    pub fn ended(&mut self, is_good: bool) {
        self.is_busy = false;
        self.failures = if is_good { 0 } else { self.failures.saturating_add(1) };
        if !is_good {
            self.written = (0, 0);
        }
    }
}
