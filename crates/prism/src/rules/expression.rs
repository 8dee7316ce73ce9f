//! The parts of a parsed rule.

use crate::Lifetime;
use crate::direction::Direction;

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
}

impl Comparison {
    pub(super) fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Eq => left == right,
            Self::Ne => left != right,
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Gt => left > right,
            Self::Ge => left >= right,
        }
    }
}

/// A numeric property of a block or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Address in 512-byte sectors, as in Open CAS.
    Lba,
    /// Address in bytes.
    Offset,
    /// Length of the whole request in bytes.
    RequestSize,
    /// Bytes of the sequential run that the request continues, including the request.
    Sequential,
    /// Size of the file in bytes; provided by the host.
    FileSize,
    /// Offset within the file in bytes; provided by the host.
    FileOffset,
    /// Level of the sorted table in RocksDB's tree; provided by the host.
    SstLevel,
    /// Id of the process; provided by the host.
    Pid,
    /// The write-lifetime hint by the kernel's number; provided by the host.
    Lifetime,
    /// Class according to another system's rules; provided by the host.
    IoClass,
}

impl Number {
    /// Whether the host must provide it.
    pub(super) fn is_hosts(self) -> bool {
        !matches!(self, Self::Lba | Self::Offset | Self::RequestSize | Self::Sequential)
    }
}

/// A flag that the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBit {
    /// `hint.meta`: the file system marks the data as metadata.
    Meta,
    /// `hint.swap`: the data is swap.
    Swap,
    /// `direct`: the request bypasses the page cache.
    Direct,
}

/// A name that the host provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// `path`: matched against the whole path.
    Path,
    /// `directory`: a directory, itself or any below it.
    Directory,
    /// `ext`, `extension`: the part after the last dot of the file's name, with or without the dot.
    Extension,
    /// `file_name_prefix`: the beginning of the file's name.
    FilePrefix,
    /// `process`, `process_name`: matched against the process's name.
    Process,
    /// `cgroup`: matched against the control group's path.
    Cgroup,
}

/// A test of what the contents of a block prove; see [`crate::evidence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceTest {
    /// `fs.metadata`: metadata of a file system or a partition table, without journals.
    Metadata,
    /// `fs.journal`: a file system's journal or log.
    Journal,
    /// `fs.superblock`: a superblock or one of its copies.
    Superblock,
    /// `fs.swap`: swap space.
    Swap,
    /// `fs.xfs`: any block, including data, inside a known XFS.
    Xfs,
    /// `fs.ext4`: the same for ext2, ext3, ext4.
    Ext4,
    /// `fs.btrfs`: the same for btrfs.
    Btrfs,
    /// `metadata`: metadata or journal, like the Open CAS predicate of this name.
    Any,
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Predicate {
    Compare {
        number: Number,
        comparison: Comparison,
        value: u64,
    },
    Range {
        number: Number,
        start: u64,
        end: u64,
    },
    Disk(String),
    ExportIndex(u16),
    ExportName(String),
    Direction(Direction),
    Evidence(EvidenceTest),
    /// Always true; Open CAS stops the search here. In this language the first match stops anyway.
    Done,
    HostBit(HostBit),
    HostName {
        name: HostName,
        pattern: String,
    },
    Lifetime(Lifetime),
    /// No source provides this fact: the predicate is kept as written.
    Pending {
        name: &'static str,
        argument: String,
    },
}

impl Predicate {
    pub(super) fn is_hosts(&self) -> bool {
        match self {
            Self::Compare { number, .. } | Self::Range { number, .. } => number.is_hosts(),
            Self::HostBit(_) | Self::HostName { .. } | Self::Lifetime(_) | Self::Pending { .. } => true,
            _ => false,
        }
    }
}

/// An expression tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    Test(Predicate),
}

/// Calls `see` for every test of an expression.
pub(super) fn visit(expression: &Expression, see: &mut impl FnMut(&Predicate)) {
    match expression {
        Expression::Or(parts) | Expression::And(parts) => parts.iter().for_each(|part| visit(part, see)),
        Expression::Not(inner) => visit(inner, see),
        Expression::Test(test) => see(test),
    }
}
