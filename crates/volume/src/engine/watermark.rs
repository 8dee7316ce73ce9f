//! The watermark block: up to where the journal is known to be durable. It is written lazily.

use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::journal::Journal;
use crate::layout::watermark::{OFFSETS_BYTES, Watermark};
use forebay_block::{Buf, Op, Vectored};
use std::sync::Arc;

/// How long a changed watermark may stay unwritten, in nanoseconds.
const WRITE_EVERY_NS: u64 = 1_000_000_000;

/// State of writing the watermark.
pub(crate) struct WatermarkWriter {
    setup: Arc<Setup>,
    /// The journal's count of durable changes when a watermark was last written, and whether both blocks have that.
    written: Option<u64>,
    is_in_both: bool,
    written_at_ns: u64,
    serial: u64,
    is_busy: bool,
}

impl WatermarkWriter {
    /// Nothing was written yet.
    pub fn new(setup: Arc<Setup>) -> Self {
        Self { setup, written: None, is_in_both: false, written_at_ns: 0, serial: 0, is_busy: false }
    }

    /// Serials go on from that of the last watermark block that recovery found.
    pub fn resume(&mut self, serial: u64) {
        self.serial = serial;
    }

    /// Writes a block when the watermark has changed and enough time has passed, and the other block too where nothing changes after that: one of them alone
    /// would be the only witness of what the last flush covered. The write is durable by itself where the device supports that: no flush may follow that would
    /// make it so.
    pub fn write(&mut self, journal: &Journal, outbox: &mut Outbox, now_ns: u64) {
        let changes = journal.durable_changes();
        let is_due = now_ns.saturating_sub(self.written_at_ns) >= WRITE_EVERY_NS;
        let is_same = self.written == Some(changes);
        if self.is_busy || !is_due || is_same && self.is_in_both || changes == 0 {
            return;
        }
        self.is_busy = true;
        self.is_in_both = is_same;
        self.written = Some(changes);
        self.written_at_ns = now_ns;
        self.serial += 1;
        let (batch, exceptions) = (journal.durable(), journal.exceptions());
        let watermark = Watermark { epoch: journal.epoch(), batch, exceptions, serial: self.serial };
        let offset_bytes = OFFSETS_BYTES[(self.serial % 2) as usize];
        let bytes = Buf::copy_of(&watermark.encode(&self.setup.superblock.pool)).freeze();
        let op = Op::Write { bufs: Vectored::One(bytes), fua: self.setup.has_durable_writes() };
        outbox.send(0, offset_bytes, 0, op, Pending::Watermark);
    }

    /// The write ended. If the first write of a state failed, it is tried again when the next is due.
    pub fn ended(&mut self, is_good: bool) {
        self.is_busy = false;
        match (is_good, self.is_in_both) {
            (true, _) => {}
            (false, false) => self.written = None,
            // The second write of a state is not tried again before something changes. The next write goes to the same place, as the other block is the only
            // witness.
            (false, true) => self.serial -= 1,
        }
    }
}
