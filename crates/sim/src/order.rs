//! The order in which devices end requests, where a life forces one: requests of a kind to a region are held for long while all others
//! continue. Random durations from a single range hardly ever delay a request by a whole job of the engine, and that is where the engine's
//! faults were.

use crate::stamp::tag_of;
use forebay_block::Op;
use forebay_volume::layout::superblock::Superblock;
use std::ops::Range;

/// Purpose of a request, as far as its place and content show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// Superblocks and the watermark.
    Head,
    /// A root's blob.
    Root,
    /// A root's header, either copy.
    Header,
    /// Journal batches.
    Journal,
    /// Pages of the map.
    Page,
    /// Summaries of bands.
    Summary,
    /// Blocks of hosts, on either tier.
    Data,
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
}

impl What {
    /// From an operation.
    #[must_use]
    pub fn of(op: &Op) -> Self {
        match op {
            Op::Read { .. } => Self::Read,
            Op::Write { .. } | Op::WriteZeroes { .. } => Self::Write,
            Op::Flush => Self::Flush,
            Op::Discard { .. } => Self::Discard,
        }
    }
}

/// Requests to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Device number; 0 is the fast device.
    pub device: usize,
    /// Their operation.
    pub what: What,
    /// Their purpose; `None`: any.
    pub region: Option<Region>,
    /// Number of such requests that pass first.
    pub skip: u32,
    /// Number of requests that are then held.
    pub count: u32,
    /// How long, in nanoseconds.
    pub hold_ns: u64,
    /// Whether their effect happens at submission and only their end is held; otherwise both are held.
    pub is_early: bool,
}

/// Layout of a device.
#[derive(Clone, Debug, Default)]
pub struct Places {
    is_fast: bool,
    roots: [Range<u64>; 2],
    journal: Range<u64>,
    data: Range<u64>,
}

/// Whether a block is a host's: filled with a tag.
fn is_hosts(block: &[u8]) -> bool {
    block.get(..512).is_none_or(|sector| tag_of(sector).is_some())
}

impl Places {
    /// For device `at` of a pool.
    #[must_use]
    pub fn of(superblock: &Superblock, at: usize) -> Self {
        let Some(member) = superblock.members.get(at) else { return Self::default() };
        let root = |offset_bytes: u64| offset_bytes..offset_bytes + superblock.root_len_bytes;
        let journal_end = superblock.journal_offset_bytes + superblock.journal_len_bytes;
        let data_end = if at == 0 { member.size_bytes } else { member.data_offset_bytes + member.sectors * 512 };
        Self {
            is_fast: at == 0,
            roots: superblock.root_offsets_bytes.map(root),
            journal: superblock.journal_offset_bytes..journal_end,
            data: member.data_offset_bytes..data_end,
        }
    }

    /// Purpose of the data at an offset that begins with `content`.
    #[must_use]
    pub fn region(&self, offset_bytes: u64, content: &[u8]) -> Region {
        if self.data.contains(&offset_bytes) {
            return match (is_hosts(content), self.is_fast) {
                (true, _) => Region::Data,
                (false, true) => Region::Page,
                // Host blocks may be compressed there.
                (false, false) if content.starts_with(b"FBBS") => Region::Summary,
                (false, false) => Region::Data,
            };
        }
        if self.is_fast && self.journal.contains(&offset_bytes) {
            return Region::Journal;
        }
        match self.roots.iter().find(|area| self.is_fast && area.contains(&offset_bytes)) {
            Some(area) if offset_bytes == area.start || offset_bytes + 4096 == area.end => Region::Header,
            Some(_) => Region::Root,
            None => Region::Head,
        }
    }

    /// Name of a request in flight in reports.
    #[must_use]
    pub fn name(&self, what: What, region: Region) -> &'static str {
        match (what, region) {
            (What::Flush, _) if self.is_fast => "fast flush",
            (What::Flush, _) => "capacity flush",
            (What::Discard, _) => "trim",
            (What::Read, Region::Page) => "page read",
            (What::Write, Region::Page) => "page write",
            (What::Read, Region::Summary) => "summary read",
            (What::Write, Region::Summary) => "summary write",
            (What::Read, Region::Data) if self.is_fast => "slot read",
            (What::Write, Region::Data) if self.is_fast => "slot write",
            (What::Read, Region::Data) => "band read",
            (What::Write, Region::Data) => "band write",
            (What::Write, Region::Journal) => "journal write",
            (What::Write, Region::Root) => "root write",
            (What::Write, Region::Header) => "header write",
            (What::Write, Region::Head) => "watermark write",
            (What::Read, Region::Journal | Region::Root | Region::Header | Region::Head) => "recovery read",
        }
    }
}
