//! What a block can be found to be.

/// 4 KiB as the data path counts.
pub(super) const BLOCK: u64 = forebay_block::BLOCK_BYTES as u64;

/// Whose structure a block is, or in whose space it lies.
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

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A superblock or a copy of one.
    Superblock,
    /// Other metadata.
    Metadata,
    /// Journal or log, btrfs's log trees included.
    Journal,
    /// Swapped pages.
    Swap,
    /// Nothing but a block within the system's space.
    Data,
}

/// What is known of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Whose.
    pub system: System,
    /// What.
    pub role: Role,
}

/// What one file system says of a block: its role, and how many bytes from here on share it.
pub(super) type Found = (Role, u64);
