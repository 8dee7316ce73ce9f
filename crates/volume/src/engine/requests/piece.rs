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
use forebay_block::{BLOCK_BYTES as BLOCK, Buf, ClassId, DiskId, SharedBuf};
use forebay_prism::Run;
use smallvec::SmallVec;

/// In `spans`: on no device. No pool is long enough to have this location.
pub(super) const NOWHERE: Span = Span::whole(1 << 62);
/// In `spans`: in memory. No device has this location either.
pub(crate) const IN_MEMORY: Span = Span::whole(1 << 63);

/// What a piece does.
#[derive(Debug)]
pub(crate) enum PieceKind {
    /// Read into the parts.
    Read,
    /// Read to see whether the data can be read.
    Scrub,
    /// Read from the base the blocks that the map does not name, to write them into the pool.
    Adopt,
    /// Write whole blocks.
    Write { data: SharedBuf },
    /// Merge bytes into one block: read, then write.
    Merge { data: SharedBuf, at: usize },
    /// Zeros into part of one block: read, then write.
    MergeZeros { at: usize, len: usize },
    /// Zero, unmap or reclass whole blocks.
    Sweep(Sweep),
    /// Report block status.
    Status,
}

/// A run of a piece's blocks that get the same kind of new entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// First block within the piece.
    pub first: u16,
    pub blocks: u16,
    pub fill: Fill,
    /// Blocks of the device that it takes: fewer than `blocks` where it is compressed.
    pub device_blocks: u16,
    /// How long data on the fast tier stays there, and why.
    pub stay: Decision,
    /// The group and the age of what it replaces, where that lies in a band.
    pub replaced: Option<(u8, u64)>,
    /// What is known of how long it will live, where it goes to a band.
    pub lifetime: Lifetime,
    /// The record's sequence, once there is one.
    pub sequence: u64,
}

impl Segment {
    /// Whether its blocks are stored compressed, which they are only where that saves blocks of the device.
    pub fn is_packed(&self) -> bool {
        matches!(self.fill, Fill::Data { .. }) && self.device_blocks < self.blocks
    }

    /// Where its data goes, if it has some.
    pub fn location(&self) -> Option<u64> {
        match self.fill {
            Fill::Data { location, .. } => Some(location),
            Fill::Zero | Fill::Unmapped | Fill::Reclass { .. } => None,
        }
    }

    /// A segment that stores no data.
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

/// The first block in `bytes`, which begin with `block`, whose checksum is not the one that the map named. A block for which the map named none is bad too.
pub(super) fn first_bad(disk: DiskId, block: u64, bytes: &[u8], named: &[u32]) -> Option<u64> {
    let is_bad =
        |(at, bytes): &(usize, &[u8])| named.get(*at) != Some(&block_checksum(disk, block + *at as u64, bytes));
    bytes.chunks_exact(BLOCK).enumerate().find(is_bad).map(|(at, _)| block + at as u64)
}

/// Makes blocks of a disk, from `block` on, that could not be read differ from what the map named, so that their checksums
/// fail. Blocks that differ already stay as they are: after a second failed read, a second change would undo the first.
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
    /// Data and records are written past volatile caches: the change is durable when both have arrived.
    pub fua: bool,
    /// Part of a long sequential stream.
    pub streams: bool,
    pub segments: SmallVec<[Segment; 2]>,
    pub checksums: SmallVec<[u32; 4]>,
    /// The compressed forms of its blocks, where they go to a band; empty where no block is compressed.
    pub packed: Vec<Option<SharedBuf>>,
    /// The grains that each block takes. Unlike `packed`, these are kept until the map has changed.
    pub sizes: Vec<u8>,
    /// The span from which each block is read, to tell a move from damage.
    pub spans: SmallVec<[Span; 4]>,
    pub buf: Option<Buf>,
    /// Blocks of which copies are to be made on the fast tier after the read.
    pub fills: SmallVec<[u16; 4]>,
    /// Blocks that are to be kept in memory after the read, each as the map named it.
    pub keeps: SmallVec<[(u16, Named); 1]>,
    /// Blocks that are in memory, each with its place there.
    pub remembered: SmallVec<[(u16, u32); 1]>,
    /// Blocks that are read from copies made before a restart, which are not proved yet.
    pub unproven: SmallVec<[u16; 4]>,
    pub parts: SmallVec<[(u16, Option<Buf>); 1]>,
    pub attempts: u8,
    /// How often in a row the same data at the same place could not be read.
    pub failures_in_place: u8,
    /// Blocks that were wrong where they lie, at the first reading. They are mended once another reading is good.
    pub wrong: SmallVec<[u16; 4]>,
    /// The same for compressed blocks.
    pub wrong_groups: SmallVec<[u16; 4]>,
    /// Compressed blocks that were wrong or unreadable at the last reading. No single reading need be right for all of them: each may lie on other members.
    pub wrong_packed: SmallVec<[u16; 4]>,
    /// How many copies of it a scrub has read.
    pub copy: u8,
    /// How often a scrub has read a copy again because the leaf had left memory.
    pub put_off: u8,
    /// Its read included a summary, or used data that was read ahead. Where it fails that may be the cause, so it does
    /// not count as an attempt.
    pub is_no_attempt: bool,
    /// Batches that hold its records.
    pub batches: SmallVec<[u64; 2]>,
    /// The position in the journal at which recovery would have to start to see its records.
    pub journal_at: Option<(u64, u64)>,
    /// Batches that cancel its records.
    pub cancels: SmallVec<[u64; 1]>,
    /// Data writes in flight (its batches count it as a part until then).
    pub data_outstanding: u32,
    /// A batch of its records could not be written: whether they are on the device is unknown.
    pub journal_lost: bool,
    /// Why it is parked.
    pub wants: Wants,
    /// The classes of its blocks. A parked write is not classified again: the classifier has seen it.
    pub runs: SmallVec<[Run; 1]>,
    /// The decision for each kind of data in it.
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

    /// How many of its blocks lie somewhere, according to the last lookup.
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
            // Of a compressed block this is the check that its form carries.
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
        // The compressed forms lie in buffers of their own, but one behind the other on the device.
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
