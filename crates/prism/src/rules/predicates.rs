//! The names of the rule language's predicates.

use super::expression::{EvidenceTest, HostBit, HostName, Number};

/// The form of a predicate's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// No argument: a fact about the block.
    Evidence(EvidenceTest),
    /// No argument, always true.
    Done,
    /// A comparison or a range.
    Number(Number),
    /// A disk's name.
    Disk,
    /// An export's index or name.
    Export,
    /// `read` or `write`.
    Direction,
    /// No argument: a flag that the host provides.
    HostBit(HostBit),
    /// A name or a pattern of names that the host provides.
    HostName(HostName),
    /// `short`, `medium`, ... or the kernel's number.
    Lifetime,
    /// No source provides it: accepts any argument, or none, and keeps it.
    Pending,
}

/// Every predicate.
const TABLE: &[(&str, Shape)] = &[
    ("disk", Shape::Disk),
    ("export", Shape::Export),
    ("offset", Shape::Number(Number::Offset)),
    ("lba", Shape::Number(Number::Lba)),
    ("request_size", Shape::Number(Number::RequestSize)),
    ("sequential", Shape::Number(Number::Sequential)),
    ("direction", Shape::Direction),
    ("io_direction", Shape::Direction),
    ("fs.metadata", Shape::Evidence(EvidenceTest::Metadata)),
    ("fs.journal", Shape::Evidence(EvidenceTest::Journal)),
    ("fs.superblock", Shape::Evidence(EvidenceTest::Superblock)),
    ("fs.swap", Shape::Evidence(EvidenceTest::Swap)),
    ("fs.xfs", Shape::Evidence(EvidenceTest::Xfs)),
    ("fs.ext4", Shape::Evidence(EvidenceTest::Ext4)),
    ("fs.btrfs", Shape::Evidence(EvidenceTest::Btrfs)),
    ("metadata", Shape::Evidence(EvidenceTest::Any)),
    ("done", Shape::Done),
    ("hint.lifetime", Shape::Lifetime),
    ("hint.meta", Shape::HostBit(HostBit::Meta)),
    ("hint.swap", Shape::HostBit(HostBit::Swap)),
    ("direct", Shape::HostBit(HostBit::Direct)),
    ("path", Shape::HostName(HostName::Path)),
    ("directory", Shape::HostName(HostName::Directory)),
    ("ext", Shape::HostName(HostName::Extension)),
    ("extension", Shape::HostName(HostName::Extension)),
    ("file_name_prefix", Shape::HostName(HostName::FilePrefix)),
    ("file.size", Shape::Number(Number::FileSize)),
    ("file_size", Shape::Number(Number::FileSize)),
    ("file_offset", Shape::Number(Number::FileOffset)),
    ("rocksdb.level", Shape::Number(Number::SstLevel)),
    ("process", Shape::HostName(HostName::Process)),
    ("process_name", Shape::HostName(HostName::Process)),
    ("pid", Shape::Number(Number::Pid)),
    ("cgroup", Shape::HostName(HostName::Cgroup)),
    ("wlth", Shape::Number(Number::Lifetime)),
    ("io_class", Shape::Number(Number::IoClass)),
    ("core_id", Shape::Pending),
];

/// The names of all predicates, for messages and documentation, in the order of the table.
pub const PREDICATES: &[&str] = &{
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < TABLE.len() {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

pub(super) fn find(name: &str) -> Option<(&'static str, Shape)> {
    TABLE.iter().find(|(known, _)| *known == name).copied()
}
