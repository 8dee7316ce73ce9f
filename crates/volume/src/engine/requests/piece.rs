//! The pieces that host requests are cut into: one piece lies within one map leaf.

use super::client::Sweep;
use super::wants::Wants;
use crate::engine::copies::Named;
use crate::engine::staying::{Decision, Kind};
use crate::layout::packed::stored_checksum;
use crate::layout::page::{LEAF_ENTRIES, Span};
use crate::layout::stored::Stored;
use crate::layout::stream::Lifetime;
use crate::request::RequestError;
use forebay_block::checksum::block_checksum;
use forebay_block::{Buf, ClassId, DiskId, SharedBuf};
use forebay_prism::Run;
use smallvec::SmallVec;

const BLOCK: usize = 4096;
/// In `spans`: not on any device, as no pool is that long.
pub(super) const NOWHERE: Span = Span::whole(1 << 62);
/// In `spans`: in memory, which is no place of a device either.
pub(crate) const IN_MEMORY: Span = Span::whole(1 << 63);

/// What a piece does.
#[derive(Debug)]
pub(crate) enum PieceKind {
    /// Read into the parts.
    Read,
    /// Read to see whether it can be.
    Scrub,
    /// Read what the map does not name of the base, to write it.
    Adopt,
    /// Write whole blocks.
    Write { data: SharedBuf },
    /// Merge bytes into one block: read, then write.
    Merge { data: SharedBuf, at: usize },
    /// Zeros into part of one block: read, then write.
    MergeZeros { at: usize, len: usize },
    /// Zero, unmap or reclass whole blocks.
    Sweep(Sweep),
    /// Report.
    Status,
}

/// One run of a piece that got one kind of new entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// First block within the piece.
    pub first: u16,
    pub blocks: u16,
    pub fill: Fill,
    /// Blocks of the device that it takes: fewer where it is compressed.
    pub device_blocks: u16,
    /// How long data on the fast tier stays there, and why.
    pub stay: Decision,
    /// The group and the age of what it replaces, where that lies in a band.
    pub replaced: Option<(u8, u64)>,
    /// Where it goes to a band: what is known of how long it will live.
    pub lifetime: Lifetime,
    /// The record's sequence, once there is one.
    pub sequence: u64,
}

impl Segment {
    /// Whether its blocks are compressed: only where that saves some.
    pub fn is_packed(&self) -> bool {
        matches!(self.fill, Fill::Data { .. }) && self.device_blocks < self.blocks
    }

    /// One that stores nothing.
    pub fn without_data(first: u16, blocks: u16, fill: Fill) -> Self {
        Self {
            first,
            blocks,
            fill,
            device_blocks: 0,
            stay: Decision::NONE,
            replaced: None,
            lifetime: Lifetime::default(),
            sequence: 0,
        }
    }
}

/// What a segment becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Data {
        location: u64,
        class: ClassId,
    },
    Zero,
    Unmapped,
    /// The data stays, its class changes.
    Reclass {
        class: ClassId,
    },
}

/// The first of these blocks of a disk, from `block` on, whose checksum is not the one that the map named; a block for which it
/// named none is bad too.
pub(super) fn first_bad(disk: DiskId, block: u64, bytes: &[u8], named: &[u32]) -> Option<u64> {
    let is_bad =
        |(at, bytes): &(usize, &[u8])| named.get(*at) != Some(&block_checksum(disk, block + *at as u64, bytes));
    bytes.chunks_exact(BLOCK).enumerate().find(is_bad).map(|(at, _)| block + at as u64)
}

/// Makes these blocks of a disk, from `block` on, other than the map named them, as they could not be read. Those that are other already stay as they are:
/// where a read fails once more, a second change would undo the first.
pub(super) fn spoil(disk: DiskId, block: u64, bytes: &mut [u8], named: &[u32]) {
    for ((address, bytes), named) in (block..).zip(bytes.chunks_exact_mut(BLOCK)).zip(named) {
        if block_checksum(disk, address, bytes) == *named {
            bytes[0] ^= 0xff;
        }
    }
}

/// A part of a host request within one leaf.
#[derive(Debug)]
pub(crate) struct Piece {
    pub client: u32,
    pub kind: PieceKind,
    pub disk: DiskId,
    pub leaf: u64,
    /// First block within the leaf.
    pub first: u16,
    pub blocks: u16,
    /// Which part of the client's read this is.
    pub index: u16,
    /// Device requests and batches in progress.
    pub outstanding: u32,
    pub error: Option<RequestError>,
    pub frame: Option<u32>,
    pub locked: bool,
    /// Data and records go past volatile caches: it is durable when they have arrived.
    pub fua: bool,
    /// Part of a long sequential stream.
    pub streams: bool,
    pub segments: SmallVec<[Segment; 2]>,
    pub checksums: SmallVec<[u32; 4]>,
    /// The stored forms of its blocks that are compressed where they go to a band; empty where nothing is.
    pub packed: Vec<Option<SharedBuf>>,
    /// The grains that they take, which are known longer.
    pub sizes: Vec<u8>,
    /// Where a read was sent to, one per block, to tell a move from damage.
    pub spans: SmallVec<[Span; 4]>,
    pub buf: Option<Buf>,
    /// Which of its blocks are to have copies on the fast tier once they were read.
    pub fills: SmallVec<[u16; 4]>,
    /// Which are to be kept in memory, as the map named them.
    pub keeps: SmallVec<[(u16, Named); 1]>,
    /// Which are in memory, and in which place there.
    pub remembered: SmallVec<[(u16, u32); 1]>,
    /// Those of which copies are read that were there before a restart.
    pub unproven: SmallVec<[u16; 4]>,
    pub parts: SmallVec<[(u16, Option<Buf>); 1]>,
    pub attempts: u8,
    /// How often in a row the same data at the same place could not be read.
    pub failures_in_place: u8,
    /// Blocks of it that were not what they should be where they lie, when they were read otherwise.
    pub wrong: SmallVec<[u16; 4]>,
    /// And compressed ones.
    pub wrong_groups: SmallVec<[u16; 4]>,
    /// Compressed blocks of it that were not what they should be at the last reading, or could not be read. No other reading need be right for
    /// all: each lies on other members.
    pub wrong_packed: SmallVec<[u16; 4]>,
    /// Copies of it that a scrub has read.
    pub copy: u8,
    /// How often a scrub has read one of them once more, as its leaf had left memory.
    pub put_off: u8,
    /// Its read took more along than was asked for, or had what was read ahead: where it fails, that may be why.
    pub is_no_attempt: bool,
    /// Batches that hold its records.
    pub batches: SmallVec<[u64; 2]>,
    /// Where recovery would have to start to see them.
    pub journal_at: Option<(u64, u64)>,
    /// Batches that cancel its records.
    pub cancels: SmallVec<[u64; 1]>,
    /// Data writes in flight (its batches count it as a part until then).
    pub data_outstanding: u32,
    /// A batch of its records could not be written: whether they are on the device is unknown.
    pub journal_lost: bool,
    /// Why it is parked.
    pub wants: Wants,
    /// Classes of its blocks: a parked write is not classified again, it was seen once.
    pub runs: SmallVec<[Run; 1]>,
    /// What was decided of each kind of data in it.
    pub decided: SmallVec<[(Kind, Decision); 1]>,
}

impl Piece {
    pub fn new(client: u32, kind: PieceKind, disk: DiskId, block: u64, blocks: u64, index: usize) -> Self {
        Self {
            client,
            kind,
            disk,
            leaf: block / LEAF_ENTRIES as u64,
            first: (block % LEAF_ENTRIES as u64) as u16,
            blocks: blocks as u16,
            index: index as u16,
            outstanding: 0,
            error: None,
            frame: None,
            locked: false,
            fua: false,
            streams: false,
            segments: SmallVec::new(),
            checksums: SmallVec::new(),
            packed: Vec::new(),
            sizes: Vec::new(),
            spans: SmallVec::new(),
            buf: None,
            fills: SmallVec::new(),
            keeps: SmallVec::new(),
            remembered: SmallVec::new(),
            unproven: SmallVec::new(),
            parts: SmallVec::new(),
            attempts: 0,
            failures_in_place: 0,
            wrong: SmallVec::new(),
            wrong_groups: SmallVec::new(),
            wrong_packed: SmallVec::new(),
            copy: 0,
            put_off: 0,
            is_no_attempt: false,
            batches: SmallVec::new(),
            journal_at: None,
            cancels: SmallVec::new(),
            data_outstanding: 0,
            journal_lost: false,
            wants: Wants::Turn,
            runs: SmallVec::new(),
            decided: SmallVec::new(),
        }
    }

    /// Blocks of it that lie somewhere, as they were looked up.
    pub fn stored_blocks(&self) -> u64 {
        self.spans.iter().filter(|&&span| span != NOWHERE).count() as u64
    }

    /// How the blocks of a segment are stored, in their order.
    pub fn stored(&self, segment: &Segment) -> impl ExactSizeIterator<Item = Stored> + Clone {
        let (first, blocks, is_packed) = (usize::from(segment.first), usize::from(segment.blocks), segment.is_packed());
        (first..first + blocks).map(move |at| {
            let checksum = self.checksums.get(at).copied().unwrap_or_default();
            let size = self.sizes.get(at).filter(|_| is_packed);
            size.map_or(Stored::whole(checksum), |&grains| Stored { grains, checksum })
        })
    }

    /// The checksums of its blocks as they are stored.
    pub fn checksums_of(&self, segments: &[Segment], data: &[u8]) -> SmallVec<[u32; 4]> {
        let block = self.block();
        let whole = data.chunks_exact(BLOCK).enumerate();
        let mut checksums: SmallVec<[u32; 4]> = SmallVec::with_capacity(usize::from(self.blocks));
        let mut packed = segments.iter().filter(|segment| segment.is_packed()).peekable();
        for (at, bytes) in whole {
            while packed.next_if(|segment| usize::from(segment.first + segment.blocks) <= at).is_some() {}
            let is_packed = packed.peek().is_some_and(|segment| usize::from(segment.first) <= at);
            let form = self.packed.get(at).and_then(Option::as_deref).filter(|_| is_packed);
            // What was compressed has the check that it was given.
            let checksum = stored_checksum(self.disk, block + at as u64, form.unwrap_or(bytes));
            checksums.push(checksum.unwrap_or_default());
        }
        checksums
    }

    /// The bytes of a segment as they go to the device.
    pub fn bytes_of(&self, segment: &Segment, data: &SharedBuf) -> SharedBuf {
        let (first, blocks) = (usize::from(segment.first), usize::from(segment.blocks));
        if !segment.is_packed() {
            return data.slice(first * BLOCK, blocks * BLOCK);
        }
        // Copied: what is compressed lies in buffers of its own, and one behind the other on the device.
        let mut bytes = Buf::zeroed(usize::from(segment.device_blocks) * BLOCK);
        let mut from = 0;
        for form in self.packed.iter().skip(first).take(blocks).flatten() {
            if let Some(place) = bytes.get_mut(from..from + form.len()) {
                place.copy_from_slice(form);
            }
            from += form.len();
        }
        bytes.freeze()
    }

    /// Address of its first block on the disk.
    pub fn block(&self) -> u64 {
        self.leaf * LEAF_ENTRIES as u64 + u64::from(self.first)
    }
}

/// Blocks from `block` to the end of its leaf, at most `left`.
pub(super) fn within_leaf(block: u64, left: u64) -> u64 {
    left.min(LEAF_ENTRIES as u64 - block % LEAF_ENTRIES as u64)
}
