//! Small identifiers that several crates share.

/// A thin disk of the pool. The identifier of a removed disk is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u16);

/// A data class: an index into the pool's class table (0..=119, the range of a map entry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// Most classes in a pool.
    pub const LIMIT: usize = 120;
}
