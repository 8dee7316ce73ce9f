//! The journal: batches are filled, sealed, written in parallel with the data they name, and retired in order.

pub mod scan;

use crate::layout::Id;
use crate::layout::batch::{self, BATCH_MAX_BYTES, BatchHeader, EXCEPTIONS, HEADER_BYTES};
use crate::layout::codec::Writer;
use forebay_block::{Buf, SharedBuf};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What flash programs at once, in bytes: where a write covers a part of such a page, the drive reads the rest.
const PAGE_BYTES: u64 = 4096;

/// A sealed batch, ready to be written.
#[derive(Debug)]
pub struct Sealed {
    /// Its number.
    pub batch: u64,
    /// Byte offset on the fast device.
    pub offset_bytes: u64,
    /// Its bytes.
    pub bytes: SharedBuf,
    /// It is to be written past volatile caches: somebody who waits for it wants it to be durable.
    pub fua: bool,
}

/// A batch that is kept to be written again if a flush fails.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Its number.
    pub number: u64,
    /// Byte offset on the fast device.
    pub offset_bytes: u64,
    /// Its bytes.
    pub bytes: &'a SharedBuf,
    /// Whether it is durable itself.
    pub is_durable: bool,
}

/// A batch that is not yet known durable.
#[derive(Debug)]
struct Live {
    position: u64,
    /// Parts that are not complete: its own write, and the data of its records.
    remaining: u32,
    /// One bit for each device that holds a part of it in a cache, where the device has one.
    devices: u32,
    /// See [`Sealed::fua`].
    fua: bool,
    /// How many flushes had been submitted when it became complete.
    complete_at: Option<u64>,
    durable: bool,
    /// Who waits for its write.
    waiters: SmallVec<[u32; 8]>,
    /// Where it lies on the fast device, and its bytes, once it is sealed: it is written again where a flush fails.
    sealed: Option<(u64, SharedBuf)>,
}

/// Geometry of the journal.
#[derive(Clone, Copy, Debug)]
pub struct JournalGeometry {
    /// Byte offset on the fast device.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Unit of a batch in bytes.
    pub sector_bytes: u64,
}

impl JournalGeometry {
    /// How far recovery searches beyond a missing batch, in bytes; the engine flushes before more is unflushed.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        (self.len_bytes / 4).min(4 << 20)
    }
}

/// The writing end.
pub struct Journal {
    geometry: JournalGeometry,
    pool: Id,
    epoch: u64,
    /// Where the next batch goes.
    position: u64,
    /// Position from which recovery would read.
    start: u64,
    /// Number of the open batch.
    open_batch: u64,
    open: Writer,
    open_records: u16,
    open_first_sequence: u64,
    open_live: Live,
    next_sequence: u64,
    live: VecDeque<Live>,
    /// Number of the first batch in `live`.
    base: u64,
    /// How often batches have become durable.
    durable_changes: u64,
    /// Last durable root.
    pub checkpoint: u64,
}

fn new_live() -> Live {
    let waiters = SmallVec::new();
    Live { position: 0, remaining: 1, devices: 0, fua: false, complete_at: None, durable: false, waiters, sealed: None }
}

impl Journal {
    /// Continues at `position` with batch number `batch`.
    #[must_use]
    pub fn new(geometry: JournalGeometry, pool: Id, epoch: u64, position: u64, batch: u64, next_sequence: u64) -> Self {
        let mut journal = Self {
            geometry,
            pool,
            epoch,
            position,
            start: position,
            open_batch: batch,
            open: Writer::default(),
            open_records: 0,
            open_first_sequence: next_sequence,
            open_live: new_live(),
            next_sequence,
            live: VecDeque::new(),
            base: batch,
            durable_changes: 0,
            checkpoint: 0,
        };
        journal.open.bytes.resize(HEADER_BYTES, 0);
        journal
    }

    /// Epoch of the batches written.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next sequence to be given out.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// A position at or (at the end of a lap) shortly before the batch that records now go into, and the number of that batch.
    #[must_use]
    pub fn head(&self) -> (u64, u64) {
        (self.position, self.open_batch)
    }

    /// Where a batch of `len_bytes` would go: a batch does not wrap.
    fn place(&self, len_bytes: u64) -> u64 {
        let left = self.geometry.len_bytes - self.position % self.geometry.len_bytes;
        if left < len_bytes { self.position + left } else { self.position }
    }

    /// Bytes between the start of what recovery would read and the head.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.position - self.start
    }

    /// Position from which recovery reads it, by the last durable root.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Length of the ring in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.geometry.len_bytes
    }

    /// Bytes from the first batch not known durable to the head.
    #[must_use]
    pub fn unflushed_bytes(&self) -> u64 {
        self.live.front().map_or(0, |front| self.position - front.position)
    }

    /// Bytes that recovery's search window allows to be unflushed.
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.geometry.window_bytes()
    }

    /// Whether records of `bytes` may be appended now. `reserved`: the caller may use the part kept for moves and
    /// cancellations, without which space could not be freed.
    #[must_use]
    pub fn accepts(&self, bytes: usize, reserved: bool) -> bool {
        // Two batches may be needed, and a skip at the end of a lap.
        let worst =
            (bytes + self.open.bytes.len() + 3 * HEADER_BYTES) as u64 + 2 * BATCH_MAX_BYTES.min(self.largest()) as u64;
        // A part of the window is kept, too: a cancellation must fit where hosts' records have filled it.
        let kept = |bytes: u64| if reserved { 0 } else { bytes / 8 };
        let (len_bytes, window_bytes) = (self.geometry.len_bytes, self.geometry.window_bytes());
        self.used_bytes() + worst + kept(len_bytes) <= len_bytes
            && self.unflushed_bytes() + worst + kept(window_bytes) <= window_bytes
    }

    /// Largest batch this journal takes, in bytes: small journals take small batches.
    #[must_use]
    pub fn largest(&self) -> usize {
        let sector_bytes = self.geometry.sector_bytes;
        ((self.geometry.window_bytes() / 8 / sector_bytes * sector_bytes) as usize).clamp(4096, BATCH_MAX_BYTES)
    }

    /// Whether a record of `bytes` still fits into the open batch.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.open_records == 0 || self.open.bytes.len() + bytes <= self.largest()
    }

    /// The newest batch that holds a record.
    #[must_use]
    pub fn last_recorded(&self) -> u64 {
        if self.has_open() { self.open_batch } else { self.open_batch - 1 }
    }

    /// Whether the open batch holds records.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.open_records > 0
    }

    /// Appends one record with `put` and returns (batch, sequence).
    pub fn append(&mut self, put: impl FnOnce(&mut Writer)) -> (u64, u64) {
        put(&mut self.open);
        self.open_records += 1;
        self.next_sequence += 1;
        (self.open_batch, self.next_sequence - 1)
    }

    /// The open batch has its first record of `waiter`, which is notified when it is written, and owes it one part.
    pub fn join(&mut self, waiter: u32) {
        self.open_live.waiters.push(waiter);
        self.open_live.remaining += 1;
    }

    /// Data of the open batch is in flight to the caches of these devices.
    pub fn add_devices(&mut self, devices: u32) {
        self.open_live.devices |= devices;
    }

    /// The open batch is to be durable when it is written.
    pub fn make_durable(&mut self) {
        self.open_live.fua = true;
    }

    /// Completes the open batch for writing. `force`: even when it holds no record (for a watermark).
    pub fn seal(&mut self, force: bool) -> Option<Sealed> {
        if self.open_records == 0 && !force {
            return None;
        }
        let sector = self.geometry.sector_bytes as usize;
        let mut len = self.open.bytes.len().next_multiple_of(sector);
        self.position = self.place(len as u64);
        if self.open_live.fua {
            len = self.to_end_of_page(len);
        }
        let mut buf = Buf::new(len);
        buf[..self.open.bytes.len()].copy_from_slice(&self.open.bytes);
        buf[self.open.bytes.len()..].fill(0);
        let (durable, exceptions) = self.watermark();
        let header = BatchHeader {
            len_bytes: len as u32,
            records: self.open_records,
            shard: 0,
            epoch: self.epoch,
            position: self.position,
            batch: self.open_batch,
            durable,
            exceptions,
            checkpoint: self.checkpoint,
            first_sequence: self.open_first_sequence,
        };
        batch::seal_batch(&mut buf, &header, &self.pool);
        let offset_bytes = self.geometry.offset_bytes + self.position % self.geometry.len_bytes;
        let mut live = std::mem::replace(&mut self.open_live, new_live());
        live.position = self.position;
        let fua = live.fua;
        // The batch itself lies on the first device.
        live.devices |= u32::from(!fua);
        let bytes = buf.freeze();
        live.sealed = Some((offset_bytes, bytes.clone()));
        self.live.push_back(live);
        let sealed = Sealed { batch: self.open_batch, offset_bytes, bytes, fua };
        self.position += len as u64;
        self.open_batch += 1;
        self.open.bytes.truncate(0);
        self.open.bytes.resize(HEADER_BYTES, 0);
        self.open_records = 0;
        self.open_first_sequence = self.next_sequence;
        Some(sealed)
    }

    /// Length of a batch at the position, padded to the end of its last page. Somebody waits for this batch on a drive with a volatile cache, and would
    /// wait for the drive to read the rest of the page, too. What [`Journal::accepts`] keeps for a skip and the rest of a lap has room for the padding
    /// where batches may be longer than a page.
    fn to_end_of_page(&self, len: usize) -> usize {
        let padded = ((self.position + len as u64).next_multiple_of(PAGE_BYTES) - self.position) as usize;
        let lap_left = self.geometry.len_bytes - self.position % self.geometry.len_bytes;
        let fits = padded <= self.largest() && padded as u64 <= lap_left;
        if self.largest() as u64 >= 2 * PAGE_BYTES && fits { padded } else { len }
    }

    /// The last batch of the contiguous durable run, and as many exceptions above it as a header has.
    #[must_use]
    pub fn watermark(&self) -> (u64, u64) {
        let mut exceptions = 0;
        for (i, live) in self.live.iter().skip(1).take(EXCEPTIONS as usize).enumerate() {
            exceptions |= u64::from(live.durable) << i;
        }
        (self.base - 1, exceptions)
    }

    /// All exceptions above the contiguous durable run, 64 in a word.
    #[must_use]
    pub fn exceptions(&self) -> Vec<u64> {
        let mut words = vec![0; self.live.len().div_ceil(64)];
        for (i, live) in self.live.iter().skip(1).enumerate() {
            words[i / 64] |= u64::from(live.durable) << (i % 64);
        }
        words
    }

    /// How often batches have become durable: as long as it stays the same, a watermark has nothing new to say.
    #[must_use]
    pub fn durable_changes(&self) -> u64 {
        self.durable_changes
    }

    /// The first batch from `from` on that is kept. A batch is kept as long as it, or one before it, is not known durable.
    #[must_use]
    pub fn kept(&self, from: u64) -> Option<Kept<'_>> {
        let number = from.max(self.base);
        let live = self.live.get((number - self.base) as usize)?;
        let (offset_bytes, bytes) = live.sealed.as_ref()?;
        Some(Kept { number, offset_bytes: *offset_bytes, bytes, is_durable: live.durable })
    }

    fn live_mut(&mut self, batch: u64) -> Option<&mut Live> {
        if batch == self.open_batch {
            return Some(&mut self.open_live);
        }
        self.live.get_mut(batch.checked_sub(self.base)? as usize)
    }

    /// The batch's own write ended; returns who waited for it.
    pub fn written(&mut self, batch: u64) -> SmallVec<[u32; 8]> {
        self.live_mut(batch).map(|live| std::mem::take(&mut live.waiters)).unwrap_or_default()
    }

    /// One part of a batch is complete.
    pub fn part_complete(&mut self, batch: u64, flushes_submitted: u64, volatile_devices: u32) {
        if let Some(live) = self.live_mut(batch) {
            live.remaining -= 1;
            if live.remaining == 0 {
                live.complete_at = Some(flushes_submitted);
                live.durable = live.devices & volatile_devices == 0;
                self.durable_changes += u64::from(live.durable);
            }
        }
        self.retire();
    }

    /// The flush with this number succeeded: what was complete before it was submitted is durable.
    pub fn flushed(&mut self, flush: u64) {
        for live in &mut self.live {
            if !live.durable && live.complete_at.is_some_and(|at| at <= flush) {
                live.durable = true;
                self.durable_changes += 1;
            }
        }
        self.retire();
    }

    fn retire(&mut self) {
        while self.live.front().is_some_and(|front| front.durable) {
            self.live.pop_front();
            self.base += 1;
        }
    }

    /// Last batch of the contiguous durable run.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.base - 1
    }

    /// A root that starts at `position` is durable.
    pub fn truncate(&mut self, position: u64, checkpoint: u64) {
        self.start = self.start.max(position);
        self.checkpoint = checkpoint;
    }
}

#[cfg(test)]
mod tests;
