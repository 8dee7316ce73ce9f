//! The PRISM: works out which data is temporary, metadata, log or hot, and keeps the books per class.

pub mod accounting;
pub mod class;

use forebay_block::{ClassId, DiskId};

pub use accounting::ClassStats;
pub use class::{ClassSpec, ClassTable, Place};

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Host reads.
    Read,
    /// Host writes.
    Write,
}

/// What is known of a host request when it is classified.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The disk addressed.
    pub disk: DiskId,
    /// Size of that disk in bytes.
    pub disk_size_bytes: u64,
    /// Byte offset on the disk; a multiple of 4096.
    pub offset_bytes: u64,
    /// Read or write.
    pub direction: Direction,
    /// Data written, or read and verified; a whole number of 4 KiB blocks.
    pub data: &'a [u8],
    /// Index of the export that the request came through.
    pub export: u16,
    /// Class with which the export tags its writes.
    pub tag: Option<ClassId>,
}

/// A run of blocks of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in 4 KiB blocks, at least 1.
    pub blocks: u32,
    /// Their class.
    pub class: ClassId,
}

/// The classifier: deterministic, no clock, bounded memory.
pub struct Prism {
    table: ClassTable,
}

impl Prism {
    /// A classifier over `table`.
    #[must_use]
    pub fn new(table: ClassTable) -> Self {
        Self { table }
    }

    /// The class table.
    #[must_use]
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    /// The class table, to change a policy live.
    pub fn table_mut(&mut self) -> &mut ClassTable {
        &mut self.table
    }

    /// Splits a write into runs of one class each, appended to `runs` (which the caller has cleared). The runs cover
    /// the data exactly.
    pub fn classify(&mut self, intent: &Intent<'_>, runs: &mut Vec<Run>) {
        let blocks = u32::try_from(intent.data.len() / 4096).unwrap_or(u32::MAX);
        runs.push(Run { blocks, class: intent.tag.unwrap_or(self.table.default_class()) });
    }

    /// Learns from a verified read (file-system geometry, re-read heat).
    pub fn observe_read(&mut self, _intent: &Intent<'_>) {}

    /// Forgets what was learned of a discarded range (a file system that was wiped).
    pub fn observe_discard(&mut self, _disk: DiskId, _offset_bytes: u64, _len_bytes: u64) {}

    /// What was learned, for the checkpoint: at most 64 KiB, versioned.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes back what [`Prism::save`] gave. Unknown or damaged bytes are ignored: evidence can be learned again.
    pub fn restore(&mut self, _bytes: &[u8]) {}
}
