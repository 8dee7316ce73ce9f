//! The possible verdicts about a block.

/// The block size of the data path: 4 KiB.
pub(super) const BLOCK: u64 = forebay_block::BLOCK_BYTES_U64;

/// The system to which a structure belongs, or in whose space a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// XFS version 5.
    Xfs,
    /// ext2, ext3 or ext4, or their external journal.
    Ext4,
    /// btrfs.
    Btrfs,
    /// Linux swap space.
    Swap,
    /// MBR or GPT.
    PartitionTable,
}

/// The role of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A superblock or a copy of one.
    Superblock,
    /// Other metadata.
    Metadata,
    /// Journal or log, including btrfs's log trees.
    Journal,
    /// Swapped pages.
    Swap,
    /// Any other block within the system's space.
    Data,
}

/// The verdict about one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The system.
    pub system: System,
    /// The block's role in it.
    pub role: Role,
}

/// The verdict of one file system about a block: its role, and how many bytes from here on share it.
pub(super) type Found = (Role, u64);
