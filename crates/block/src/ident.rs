//! Small identifiers that several rooms share.

/// A thin disk of the pool. Identifiers are never used again after a disk is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u16);

/// A data class, an index into the pool's class table (0..=119, the range a map entry can hold).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// Highest number of classes a pool may have.
    pub const LIMIT: usize = 120;
}
