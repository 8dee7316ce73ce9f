//! What a rule is made of.

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

/// A number of a block or its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Address in 512-byte sectors, as in Open CAS.
    Lba,
    /// Address in bytes.
    Offset,
    /// Length of the whole request in bytes.
    RequestSize,
    /// Bytes of the sequential run that the request continues, itself included.
    Sequential,
    /// Size of the file in bytes; the host tells.
    FileSize,
    /// Address within the file in bytes; the host tells.
    FileOffset,
    /// Level of the sorted table in RocksDB's tree; the host tells.
    SstLevel,
    /// Id of the process; the host tells.
    Pid,
    /// The write-lifetime hint by the kernel's number; the host tells.
    Lifetime,
    /// Class by another system's rules; the host tells.
    IoClass,
}

impl Number {
    /// Whether it takes a host's help.
    pub(super) fn is_hosts(self) -> bool {
        !matches!(self, Self::Lba | Self::Offset | Self::RequestSize | Self::Sequential)
    }
}

/// A bit that the host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBit {
    /// `hint.meta`: the file system says it is metadata.
    Meta,
    /// `hint.swap`: swap.
    Swap,
    /// `direct`: past the page cache.
    Direct,
}

/// A name that the host tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostName {
    /// `path`: a pattern of the whole path.
    Path,
    /// `directory`: a directory, itself or any below it.
    Directory,
    /// `ext`, `extension`: what follows the last dot of the file's name, with or without the dot.
    Extension,
    /// `file_name_prefix`: how the file's name begins.
    FilePrefix,
    /// `process`, `process_name`: a pattern of the process's name.
    Process,
    /// `cgroup`: a pattern of the control group's path.
    Cgroup,
}

/// What the contents of a block prove; see [`crate::evidence`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceTest {
    /// `fs.metadata`: metadata of a file system or a partition table, journals excluded.
    Metadata,
    /// `fs.journal`: a file system's journal or log.
    Journal,
    /// `fs.superblock`: a superblock or one of its copies.
    Superblock,
    /// `fs.swap`: swap space.
    Swap,
    /// `fs.xfs`: anything, data included, inside a known XFS.
    Xfs,
    /// `fs.ext4`: the same for ext2, ext3, ext4.
    Ext4,
    /// `fs.btrfs`: the same for btrfs.
    Btrfs,
    /// `metadata`: metadata or journal, as the Open CAS predicate of that name.
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
    /// Always true; Open CAS stops at it, here the first match stops anyway.
    Done,
    HostBit(HostBit),
    HostName {
        name: HostName,
        pattern: String,
    },
    Lifetime(Lifetime),
    /// Nothing tells it: kept as it was written.
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

/// Shows every test of an expression.
pub(super) fn visit(expression: &Expression, see: &mut impl FnMut(&Predicate)) {
    match expression {
        Expression::Or(parts) | Expression::And(parts) => parts.iter().for_each(|part| visit(part, see)),
        Expression::Not(inner) => visit(inner, see),
        Expression::Test(test) => see(test),
    }
}
