//! After a failed flush: what it covered is written once more, and flushed again.
//!
//! A device reports a lost write only once. What lay in its cache then may be gone with the next power cut although
//! reads still see it, and no later flush would report that (Linux does this to dirty pages, LWN 752063). So nothing
//! that the failed flush covered is trusted before it was read back, found to be right, and written again. That is:
//! batches not known durable (the journal keeps their bytes), the data that they name, and the pages of checkpoints
//! that were given up. All requests are settled before, and nobody changes the map meanwhile. Summaries of bands are in
//! memory until a flush has covered them, and are due again (`summaries.rs`).

pub(crate) mod item;

use super::map::Map;
use super::outbox::{Outbox, Pending};
use super::setup::Setup;
use crate::journal::Journal;
use crate::layout::batch::decode_batch;
use crate::layout::page::Span;
use crate::layout::record::Record;
use crate::layout::stored::{Stored, places};
use forebay_block::{Buf, DiskId, IoError, Op, Vectored};
use item::{Content, Item};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// Blocks of the devices that are read or written at once, apart from one longer item.
const IN_FLIGHT_MAX: usize = 64;
/// Wait before the first attempt; it doubles with each attempt that fails.
const WAIT_NS: u64 = 100_000_000;
/// Longest wait.
const WAIT_MAX_NS: u64 = 30_000_000_000;
/// Changes and flushes wait for this long after the first failure, which is three attempts; after that they are
/// refused.
const HOLD_NS: u64 = 1_000_000_000;
/// Attempts that fail because something cannot be read. After these the rest is flushed; what cannot be read when that flush has succeeded is lost.
const READ_ATTEMPTS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No flush has failed, or the next attempt waits for its time.
    Waiting,
    Writing,
    Flushing,
}

/// What a failed flush lost for good.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Blocks and pages.
    pub count: u64,
    /// Disks whose blocks are among them.
    pub disks: BTreeSet<DiskId>,
}

impl Lost {
    /// Adds so many lost blocks of a disk.
    pub fn add(&mut self, disk: DiskId, blocks: u64) {
        if blocks > 0 {
            self.count += blocks;
            self.disks.insert(disk);
        }
    }
}

/// State of writing again.
pub(crate) struct Rewriter {
    setup: Arc<Setup>,
    phase: Phase,
    not_before_ns: u64,
    wait_ns: u64,
    items: VecDeque<Item>,
    /// Batches from here on are still to be written again.
    next_batch: u64,
    /// Sequences of records that never took effect: their data is nobody's.
    cancelled: BTreeSet<u64>,
    in_flight: usize,
    /// When the first of the flushes failed that are not made good yet.
    failed_since_ns: Option<u64>,
    /// Attempts since the flush failed.
    attempts: u32,
    has_failed: bool,
    /// Something could not be read in this attempt. It is not lost yet: the device may be away.
    has_unread: bool,
    /// The flush of the attempt before succeeded, so the device is there.
    is_last_look: bool,
    /// What was gone in this attempt.
    lost: Lost,
    /// A leaf of the map was gone.
    has_lost_leaf: bool,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Requests are in flight, or it is not time yet.
    Waits,
    /// All is written again: a flush is to make it durable.
    Flush,
    /// A leaf of the map is gone. The next root must not name it; the last one does not.
    LostPage,
}

impl Rewriter {
    pub fn new(setup: Arc<Setup>) -> Self {
        Self {
            setup,
            phase: Phase::Waiting,
            not_before_ns: 0,
            wait_ns: WAIT_NS,
            items: VecDeque::new(),
            next_batch: 0,
            cancelled: BTreeSet::new(),
            in_flight: 0,
            failed_since_ns: None,
            attempts: 0,
            has_failed: false,
            has_unread: false,
            is_last_look: false,
            lost: Lost::default(),
            has_lost_leaf: false,
        }
    }

    /// A flush failed, perhaps that of an attempt: the next attempt comes after a while.
    pub fn flush_failed(&mut self, now_ns: u64) {
        self.failed_since_ns.get_or_insert(now_ns);
        self.is_last_look = false;
        match self.phase {
            Phase::Writing => self.has_failed = true,
            // A flush of another device, or of a job, failed beside it: the wait has begun.
            Phase::Waiting if now_ns < self.not_before_ns => {}
            Phase::Waiting | Phase::Flushing => self.wait(now_ns),
        }
    }

    fn wait(&mut self, now_ns: u64) {
        self.phase = Phase::Waiting;
        self.not_before_ns = now_ns.saturating_add(self.wait_ns);
        self.wait_ns = (2 * self.wait_ns).min(WAIT_MAX_NS);
    }

    /// Whether a flush failed so recently that it is worth waiting for the attempts.
    pub fn has_failed_lately(&self, now_ns: u64) -> bool {
        self.failed_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) < HOLD_NS)
    }

    /// The next attempt need not wait.
    pub fn hurry(&mut self) {
        self.not_before_ns = 0;
    }

    /// Whether an attempt is in progress.
    pub fn is_active(&self) -> bool {
        self.phase != Phase::Waiting
    }

    /// Whether an attempt is to begin, where nothing else is in progress.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.phase == Phase::Waiting && now_ns >= self.not_before_ns
    }

    /// Begins an attempt with all that is not known durable in the journal, and `others`.
    pub fn begin(&mut self, journal: &Journal, others: VecDeque<Item>) {
        self.phase = Phase::Writing;
        self.items = others;
        self.next_batch = 0;
        self.attempts += 1;
        (self.has_failed, self.has_unread, self.lost, self.has_lost_leaf) = (false, false, Lost::default(), false);
        self.cancelled.clear();
        let mut from = 0;
        // Also in batches that are durable, as cancel records go past caches.
        while let Some(batch) = journal.kept(from) {
            let (_, records) = decode_batch(batch.bytes, &self.setup.superblock.pool).unzip();
            self.cancelled.extend(records.into_iter().flatten().filter_map(|record| match record {
                Record::Cancel { sequence } => Some(sequence),
                _ => None,
            }));
            from = batch.number + 1;
        }
    }

    /// Goes on as far as possible without waiting.
    pub fn step(&mut self, journal: &Journal, outbox: &mut Outbox, now_ns: u64) -> Step {
        if self.phase != Phase::Writing {
            return Step::Waits;
        }
        while self.in_flight < IN_FLIGHT_MAX {
            if let Some(item) = self.items.pop_front() {
                self.read(item, outbox);
            } else if !self.next_of_journal(journal, outbox) {
                break;
            }
        }
        if self.in_flight > 0 {
            return Step::Waits;
        }
        if self.has_lost_leaf {
            self.wait(now_ns);
            return Step::LostPage;
        }
        if self.has_failed {
            self.is_last_look = false;
            self.wait(now_ns);
            return Step::Waits;
        }
        self.phase = Phase::Flushing;
        Step::Flush
    }

    /// Whether something could not be read that may be read when the flush of the attempt has succeeded. That flush counts for nothing then, as what could not
    /// be read was not written again.
    pub fn looks_again(&self) -> bool {
        self.has_unread
    }

    /// The flush of an attempt ended, and counts for nothing. Where it succeeded all the same, the next attempt does not wait.
    pub fn flush_ended(&mut self) {
        if self.phase == Phase::Flushing {
            (self.phase, self.not_before_ns, self.is_last_look) = (Phase::Waiting, 0, true);
        }
    }

    /// The flush of an attempt succeeded. Returns what was lost.
    pub fn flushed(&mut self) -> Lost {
        self.is_last_look = false;
        (self.phase, self.wait_ns, self.attempts, self.failed_since_ns) = (Phase::Waiting, WAIT_NS, 0, None);
        std::mem::take(&mut self.lost)
    }

    /// Writes the next batch again, and lists the data that it names; false where there is no other batch.
    fn next_of_journal(&mut self, journal: &Journal, outbox: &mut Outbox) -> bool {
        let Some(batch) = journal.kept(self.next_batch) else { return false };
        self.next_batch = batch.number + 1;
        if batch.is_durable {
            return true;
        }
        let op = Op::Write { bufs: Vectored::One(batch.bytes.clone()), fua: false };
        self.in_flight += 1;
        outbox.send(0, batch.offset_bytes, 0, op, Pending::Rewrite { blocks: 1 });
        let Some((header, records)) = decode_batch(batch.bytes, &self.setup.superblock.pool) else { return true };
        for (sequence, record) in (header.first_sequence..).zip(records) {
            if let Record::Write { disk, block, location, stored, .. } = record
                && !self.cancelled.contains(&sequence)
            {
                let item = |location: u64, content: Content| {
                    let (device, offset_bytes) = self.setup.extents.place(location)?;
                    (self.setup.volatile & 1 << device != 0).then(|| Item::new(device, offset_bytes, content))
                };
                if stored.iter().all(|stored| stored.is_whole()) {
                    self.items.extend((block..).zip(places(location, &stored)).filter_map(
                        |(block, (Span { location, .. }, Stored { checksum, .. }))| {
                            item(location, Content::Block { disk, block, location, checksum })
                        },
                    ));
                } else {
                    self.items.extend(item(location, Content::Packed { disk, block, location, stored }));
                }
            }
        }
        true
    }

    fn read(&mut self, item: Item, outbox: &mut Outbox) {
        self.in_flight += item.content.device_blocks();
        let bufs = Vectored::One(Buf::new(item.content.len_bytes()));
        let attempt = if item.device == 0 { self.setup.of_each_copy(item.attempt) } else { item.attempt };
        let op = Op::Read { bufs, attempt };
        outbox.send(item.device, item.offset_bytes, 0, op, Pending::RewriteRead { item });
    }

    /// Something was read that is to be written again. Where it is wrong it is lost: whoever reads it finds that out, and the rest is saved all the same. What
    /// cannot be read may be readable the next time.
    ///
    /// A block that was overwritten, discarded or moved since is no loss: all changes up to the failed flush are in the map, nobody changes the map meanwhile,
    /// and what took the block's place is durable with the flush that ends this, or is counted itself.
    pub fn read_done(&mut self, mut item: Item, result: Result<Option<Buf>, IoError>, map: &Map, outbox: &mut Outbox) {
        let blocks = item.content.device_blocks();
        self.in_flight -= blocks;
        let is_unread = item.is_unread || result.is_err() && item.device == 0 && self.setup.copies > 1;
        let could_be_read = result.is_ok() && !is_unread;
        let read = result.ok().flatten();
        let (was_read, best) = (read.is_some(), item.merged(read));
        let counts = could_be_read || self.is_last_look;
        let is_last = item.attempt + 1 >= self.setup.read_attempts(item.device);
        let (good, all) = best.as_ref().map_or((0, 1), |bytes| item.content.good_in(bytes));
        if good < all && !is_last {
            return self.read(item.again(is_unread, best), outbox);
        }
        // Beside what is right only the last reading, which is of this place itself, is written again: what lies there may be readable later.
        let bytes = best.filter(|_| was_read || good == all);
        let missing = match good == all {
            true => Vec::new(),
            false => item.content.blocks_not_in(bytes.as_deref().unwrap_or_default()),
        };
        match bytes {
            // The part that is wrong is written again as it is, with its neighbours, and is lost.
            Some(bytes) if good == all || good > 0 && counts => {
                self.in_flight += blocks;
                let op = Op::Write { bufs: Vectored::One(bytes.freeze()), fua: false };
                outbox.send(item.device, item.offset_bytes, 0, op, Pending::Rewrite { blocks });
                if good == all {
                    return;
                }
            }
            _ if counts => {}
            _ => {
                self.has_failed |= self.attempts < READ_ATTEMPTS;
                self.has_unread = true;
                return;
            }
        }
        match item.content {
            Content::Block { disk, .. } | Content::Packed { disk, .. } => {
                let lost = missing.iter().filter(|&&(block, location)| !map.has_left(disk, block, location)).count();
                self.lost.add(disk, lost as u64);
            }
            Content::Leaf { .. } | Content::Tiers { .. } => {
                self.lost.count += 1;
                self.has_lost_leaf |= matches!(item.content, Content::Leaf { .. });
            }
        }
    }

    /// A write ended.
    pub fn written(&mut self, blocks: usize, result: &Result<(), IoError>) {
        self.in_flight -= blocks;
        self.has_failed |= result.is_err();
    }
}
