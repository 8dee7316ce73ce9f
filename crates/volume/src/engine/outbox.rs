//! Requests to devices, and what each of those in flight is for.

use super::rewrite::item::Item;
use super::setup::Setup;
use crate::journal::Sealed;
use crate::layout::band_summary::{BandShape, SummaryEntry};
use crate::layout::page::PageRef;
use crate::map::tiers::PageKey;
use crate::space::groups::GroupKey;
use forebay_block::{Buf, DiskId, IoError, Op, Request as DeviceRequest, Vectored};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Writes in flight on the fast device from which on it is saturated: the knee of an Optane-class drive lies near 6, and
/// each write has a journal batch beside it.
const FAST_QUEUE: u32 = 16;

/// Groups of bands whose summary goes with a request.
pub(crate) type Groups = SmallVec<[GroupKey; 1]>;

/// What a device request was for.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Data of a read piece.
    Read { piece: u32, part: u16 },
    /// A group of a band, read ahead of a sequential reader.
    Ahead { key: GroupKey },
    /// Fast copies of blocks, in slots that lie together.
    Copy { disk: DiskId, block: u64, slots: std::ops::Range<u64> },
    /// A part of the list of these copies.
    WarmList,
    /// Old content of a block that is partly overwritten.
    Merge { piece: u32 },
    /// Data of a write piece on a device.
    Write { piece: u32, device: usize, groups: Groups },
    /// A journal batch, for another attempt.
    Batch { sealed: Sealed, attempts: u8 },
    /// A leaf being read into a frame: what its parent names, and which attempt it is.
    PageIn { frame: u32, which: LeafRead },
    /// A leaf being written.
    PageOut { frame: u32, location: u64 },
    /// An index page being written.
    IndexOut,
    /// The root blob or a root header.
    RootOut,
    /// A tier page, being read to be changed, and which attempt it is.
    TierPageIn { key: PageKey, slot: u64, attempt: u8 },
    /// A tier page, being written.
    TierPageOut { key: PageKey, slot: u64, crc: u32 },
    /// The root of the capacity tier.
    CapacityOut,
    /// A summary beside that root, which it can do without.
    CapacityBeside,
    /// A device flush of the flush in flight.
    Flush { device: usize },
    /// A device flush that a job needs, by its number.
    MoveFlush { number: u64 },
    /// Source blocks of a job, by their number in its list.
    MoveRead { job: u32, candidates: Vec<u32> },
    /// A source block that was wrong: its number in the list, and which attempt it is.
    MoveReadAgain { job: u32, which: (u32, u8) },
    /// Destination blocks of a job.
    MoveWrite { job: u32, groups: Groups },
    /// The summary of a group of the band being collected, and which attempt it is.
    MoveSummary { job: u32, which: SummaryRead },
    /// The summary of a complete group.
    Summary { device: usize, key: GroupKey },
    /// A freed band being trimmed.
    Trim { band: u32 },
    /// The lazily written watermark block.
    Watermark,
    /// Something that a failed flush covered, being read to be written again.
    RewriteRead { item: Item },
    /// Something that a failed flush covered, being written again; its length in blocks.
    Rewrite { blocks: usize },
    /// A block of which one copy was wrong, being written to all.
    Mend,
    /// A page of the map, being read from each copy for a scrub.
    ScrubPage(Box<PageCopies>),
    /// Blocks of a band, in this generation, being compared with their parity for a scrub.
    Compare { band: u32, generation: u32 },
    /// A group of a band with compressed blocks that are wrong in their place.
    MendGroup(Box<GroupMend>),
}

/// A read of a leaf of the map.
#[derive(Debug)]
pub(crate) struct LeafRead {
    pub reference: PageRef,
    pub attempt: u8,
    /// Why an earlier attempt failed.
    pub failed: Option<Box<IoError>>,
}

/// A page whose copies are read, one after the other.
#[derive(Debug)]
pub(crate) struct PageCopies {
    pub disk: DiskId,
    /// Number of the leaf, or of the index page.
    pub number: u64,
    pub is_index: bool,
    pub reference: PageRef,
    pub attempt: u8,
    pub good: Option<Buf>,
    pub has_bad: bool,
    /// A copy was not there to be read: what it has is unknown.
    pub is_away: bool,
}

/// Which summary of a band is read, in which attempt, and how many pages of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryRead {
    pub group: u32,
    pub attempt: u8,
    pub pages: u32,
}

impl SummaryRead {
    /// Where the pages lie.
    pub fn location(self, setup: &Setup, shape: BandShape, band: u32) -> u64 {
        setup.extents.band_location(band, shape.summary_begin(self.group, self.pages))
    }
}

/// A group of a band that is being mended.
#[derive(Debug)]
pub(crate) struct GroupMend {
    pub key: GroupKey,
    /// Generation of its band: in another one other data lies there.
    pub generation: u32,
    pub attempt: u8,
    /// What lies in its place, where its summary is wrong there.
    pub wrong: Option<Buf>,
    /// The entries of its summary, once that was read.
    pub entries: Option<Vec<SummaryEntry>>,
    /// What lies in its place, with wrong blocks replaced from other readings.
    pub bytes: Option<Buf>,
}

impl Pending {
    /// Whether space for hosts may depend on it: on the end of a move, of a checkpoint or of a flush, or of a write after which another finds room.
    fn may_free_space(&self) -> bool {
        !self.changes_nothing() || matches!(self, Self::PageIn { .. })
    }

    /// Whether it changes nothing on the devices, except for what nobody relies on.
    fn changes_nothing(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::Ahead { .. }
                | Self::Copy { .. }
                | Self::WarmList
                | Self::PageIn { .. }
                | Self::Trim { .. }
                | Self::Watermark
                | Self::Mend
                | Self::ScrubPage(_)
                | Self::Compare { .. }
                | Self::MendGroup(_)
        )
    }
}

/// A request in flight, or one that has just ended.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// What it is for.
    pub pending: Pending,
    /// A write that is to be durable when it ends.
    pub is_durable: bool,
    /// Bytes that it reads or writes.
    len_bytes: u64,
    /// The last tick before it was queued; `None` for a request that frees no space for hosts, which may take as long
    /// as it takes.
    queued_ns: Option<u64>,
}

/// The requests.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pending: Slab<InFlight>,
    commands: VecDeque<(usize, DeviceRequest)>,
    /// Writes of hosts' data in flight on the fast device, and on all others.
    host_writes: [u32; 2],
    /// Bytes in flight, of hosts and of all else, on the fast device and on all others.
    in_flight_bytes: [u64; 2],
    /// Reads of hosts in flight on the capacity tier, without read-ahead.
    capacity_reads: u32,
    /// Journal batches in flight.
    batches: u32,
    /// Writes in flight that are to be durable when they end.
    durable_writes: u32,
    /// The clock by which requests time out, at the last tick.
    ticked_ns: u64,
}

impl Outbox {
    /// Queues a device request.
    pub fn send(&mut self, device: usize, offset_bytes: u64, stream: u8, op: Op, pending: Pending) {
        if let Pending::Write { .. } = pending {
            self.host_writes[device.min(1)] += 1;
        }
        if let Pending::Batch { .. } = pending {
            self.batches += 1;
        }
        if matches!(pending, Pending::Read { .. }) && device > 0 {
            self.capacity_reads += 1;
        }
        // Flushes wait for these. Writes of hosts are not among them: they are not sent as durable where the system
        // flushes a device behind them.
        let is_durable = matches!(op, Op::Write { fua: true, .. }) && !matches!(pending, Pending::Write { .. });
        self.durable_writes += u32::from(is_durable);
        let len_bytes = match &op {
            Op::Read { .. } | Op::Write { .. } => op.len_bytes(),
            Op::Flush | Op::Discard { .. } | Op::WriteZeroes { .. } => 0,
        };
        self.in_flight_bytes[device.min(1)] += len_bytes;
        let queued_ns = pending.may_free_space().then_some(self.ticked_ns);
        let tag = self.pending.insert(InFlight { pending, is_durable, len_bytes, queued_ns }) as u64;
        self.commands.push_back((device, DeviceRequest { tag, offset_bytes, stream, op }));
    }

    /// Writes a block again of which one copy is wrong, where the device has several copies, or can restore it from
    /// other devices.
    pub fn mend(&mut self, setup: &Setup, location: u64, bytes: Buf) {
        if let Some((device, offset_bytes)) = setup.extents.place(location)
            && setup.mends_on(device)
        {
            let bufs = Vectored::One(bytes.freeze());
            self.send(device, offset_bytes, 0, Op::Write { bufs, fua: false }, Pending::Mend);
        }
    }

    /// Whether copies of pages are being compared, or something is being written again.
    pub fn is_mending(&self) -> bool {
        let mends =
            |pending: &Pending| matches!(pending, Pending::Mend | Pending::MendGroup(_) | Pending::ScrubPage(_));
        self.pending.iter().any(|(_, in_flight)| mends(&in_flight.pending))
    }

    /// The next request for a device.
    pub fn next(&mut self) -> Option<(usize, DeviceRequest)> {
        self.commands.pop_front()
    }

    /// A request to a device ended. `None` for an unknown tag.
    pub fn ended(&mut self, device: usize, tag: u64) -> Option<InFlight> {
        let ended = self.pending.try_remove(tag as usize)?;
        let InFlight { pending, is_durable, len_bytes, .. } = &ended;
        self.in_flight_bytes[device.min(1)] -= len_bytes;
        if let Pending::Write { .. } = pending {
            self.host_writes[device.min(1)] -= 1;
        }
        if let Pending::Batch { .. } = pending {
            self.batches -= 1;
        }
        self.durable_writes -= u32::from(*is_durable);
        if matches!(pending, Pending::Read { .. }) && device > 0 {
            self.capacity_reads -= 1;
        }
        Some(ended)
    }

    /// Whether no request is in flight or waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Time passes.
    pub fn tick(&mut self, now_ns: u64) {
        self.ticked_ns = now_ns;
    }

    /// Whether a device has not answered a request that may free space for so long. Looks at all that is in flight.
    pub fn is_unanswered(&self, for_ns: u64) -> bool {
        let queued_ns = self.pending.iter().filter_map(|(_, request)| request.queued_ns).min();
        queued_ns.is_some_and(|queued_ns| self.ticked_ns.saturating_sub(queued_ns) > for_ns)
    }

    /// The requests in flight.
    pub fn in_flight(&self) -> impl Iterator<Item = &Pending> {
        self.pending.iter().map(|(_, request)| &request.pending)
    }

    /// Whether no request in flight changes what devices hold of hosts' data and the map.
    pub fn is_quiet(&self) -> bool {
        self.in_flight().all(Pending::changes_nothing)
    }

    /// Journal batches in flight.
    pub fn batches_in_flight(&self) -> u32 {
        self.batches
    }

    /// Writes in flight that are to be durable when they end.
    pub fn durable_writes_in_flight(&self) -> u32 {
        self.durable_writes
    }

    /// Reads of hosts in flight on the capacity tier, without read-ahead.
    pub fn capacity_reads(&self) -> u32 {
        self.capacity_reads
    }

    /// Bytes in flight on the fast device and on all others.
    pub fn in_flight_bytes(&self) -> [u64; 2] {
        self.in_flight_bytes
    }

    /// Whether the fast device is the slower one now: at least `queues` times as many of the hosts' writes wait there as it takes at once, and more than on the
    /// capacity tier.
    pub fn fast_is_behind(&self, queues: u32) -> bool {
        let [fast, capacity] = self.host_writes;
        fast >= FAST_QUEUE * queues && capacity < fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_has_not_answered_for_long_is_seen_whatever_came_later_where_that_may_free_space() {
        let mut outbox = Outbox::default();
        let is_unanswered_at = |outbox: &mut Outbox, now_ns: u64| {
            outbox.tick(now_ns);
            outbox.is_unanswered(10)
        };
        assert!(!is_unanswered_at(&mut outbox, 50), "nothing was asked");
        outbox.send(1, 0, 0, Op::Discard { len_bytes: 4096 }, Pending::Trim { band: 0 });
        outbox.send(0, 0, 0, Op::Flush, Pending::Flush { device: 0 });
        assert!(!is_unanswered_at(&mut outbox, 60));
        outbox.send(0, 0, 0, Op::Flush, Pending::Flush { device: 0 });
        assert!(is_unanswered_at(&mut outbox, 61));
        outbox.ended(0, 1);
        assert!(!is_unanswered_at(&mut outbox, 70), "the other was sent at 60");
        assert!(is_unanswered_at(&mut outbox, 71));
        outbox.ended(0, 2);
        let op = Op::read(Vectored::One(Buf::new(4096)));
        outbox.send(2, 0, 0, op, Pending::Read { piece: 0, part: 0 });
        assert!(!is_unanswered_at(&mut outbox, 1000), "a trim, and a read, of a base for one, which free nothing");
    }
}
