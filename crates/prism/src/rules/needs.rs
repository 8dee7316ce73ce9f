//! The facts that predicates need to be true or false rather than unknown.

use super::expression::{EvidenceTest, HostBit, HostName, Number, Predicate};
use super::facts::Facts;

/// A fact that not every source of requests provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The export through which the request came.
    Export,
    /// The length of the sequential run.
    Sequence,
    /// The contents of the block.
    Contents,
    /// The write-lifetime hint.
    Lifetime,
    /// Whether the kernel marked it as metadata.
    Meta,
    /// Whether it is metadata or a journal, by contents or by the kernel's mark.
    Metadata,
    /// Whether the kernel marked it as swap.
    Swap,
    /// Whether the request bypassed the page cache.
    Direct,
    /// Path of the file.
    Path,
    /// Size of the file.
    FileSize,
    /// Offset in the file.
    FileOffset,
    /// Level of the sorted table in RocksDB's tree.
    SstLevel,
    /// Name of the process.
    Process,
    /// Id of the process.
    Pid,
    /// Control group.
    Cgroup,
    /// Class assigned by another system.
    IoClass,
    /// A fact that no source provides.
    Never,
}

/// The fact that a predicate needs besides address, size, direction and disk, which all requests have; `None` if it
/// needs no other.
pub(super) fn need(predicate: &Predicate) -> Option<Need> {
    Some(match predicate {
        Predicate::Compare { number, .. } | Predicate::Range { number, .. } => match number {
            Number::Lba | Number::Offset | Number::RequestSize => return None,
            Number::Sequential => Need::Sequence,
            Number::FileSize => Need::FileSize,
            Number::FileOffset => Need::FileOffset,
            Number::SstLevel => Need::SstLevel,
            Number::Pid => Need::Pid,
            Number::Lifetime => Need::Lifetime,
            Number::IoClass => Need::IoClass,
        },
        Predicate::Disk(_) | Predicate::Direction(_) | Predicate::Done => return None,
        Predicate::ExportIndex(_) | Predicate::ExportName(_) => Need::Export,
        Predicate::Evidence(EvidenceTest::Any) => Need::Metadata,
        Predicate::Evidence(_) => Need::Contents,
        Predicate::HostBit(HostBit::Meta) => Need::Meta,
        Predicate::HostBit(HostBit::Swap) => Need::Swap,
        Predicate::HostBit(HostBit::Direct) => Need::Direct,
        Predicate::Lifetime(_) => Need::Lifetime,
        Predicate::HostName { name, .. } => match name {
            HostName::Path | HostName::Directory | HostName::Extension | HostName::FilePrefix => Need::Path,
            HostName::Process => Need::Process,
            HostName::Cgroup => Need::Cgroup,
        },
        Predicate::Pending { .. } => Need::Never,
    })
}

impl Facts<'_> {
    /// Whether these facts include the needed one.
    #[must_use]
    pub fn tell(&self, need: Need) -> bool {
        let host = &self.host;
        match need {
            Need::Export => self.export.is_some(),
            Need::Sequence => self.sequential_bytes.is_some(),
            Need::Contents => self.contents_known,
            Need::Lifetime => host.lifetime.is_some(),
            Need::Meta => host.meta.is_some(),
            Need::Metadata => host.meta.is_some() || self.contents_known,
            Need::Swap => host.swap.is_some(),
            Need::Direct => host.direct.is_some(),
            Need::Path => host.path.is_some(),
            Need::FileSize => host.file_size_bytes.is_some(),
            Need::FileOffset => host.file_offset_bytes.is_some(),
            Need::SstLevel => host.sst_level.is_some(),
            Need::Process => host.process.is_some(),
            Need::Pid => host.pid.is_some(),
            Need::Cgroup => host.cgroup.is_some(),
            Need::IoClass => host.io_class.is_some(),
            Need::Never => false,
        }
    }
}
