//! The host's facts about a request: hints, file, process. The caller of the classifier provides the facts that it
//! has: a trace its fields, a served pool the facts from its sources of evidence.

use crate::Lifetime;
use std::sync::Arc;

/// Facts that blocks alone do not show. `None` means unknown; a rule that depends on an unknown fact claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts<'a> {
    /// How long the data will live, according to its writer.
    pub lifetime: Option<Lifetime>,
    /// Whether the data is file-system metadata (`REQ_META`).
    pub meta: Option<bool>,
    /// Whether the data is swap (`REQ_SWAP`).
    pub swap: Option<bool>,
    /// Whether the request bypassed the page cache.
    pub direct: Option<bool>,
    /// Path of the file within its file system.
    pub path: Option<&'a str>,
    /// Size of the file in bytes.
    pub file_size_bytes: Option<u64>,
    /// Byte offset in the file at which the request begins.
    pub file_offset_bytes: Option<u64>,
    /// Whether only a map of files identifies the file.
    pub is_by_map: bool,
    /// Level of the sorted table in RocksDB's tree.
    pub sst_level: Option<u8>,
    /// Name of the process.
    pub process: Option<&'a str>,
    /// Id of the process.
    pub pid: Option<u32>,
    /// Path of the control group.
    pub cgroup: Option<&'a str>,
    /// Class according to the rules of another system (Open CAS).
    pub io_class: Option<u16>,
}

/// The facts about one file in a map of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHints {
    /// Its path.
    pub path: String,
    /// Its size in bytes; `None` if not known.
    pub size_bytes: Option<u64>,
    /// Its write-lifetime hint (`F_GET_RW_HINT`).
    pub lifetime: Option<Lifetime>,
    /// Level of a sorted table in RocksDB's tree.
    pub sst_level: Option<u8>,
}

/// The facts that accompany a request to its classification: [`HostFacts`] with owned values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostHints {
    /// How long the data will live, according to its writer.
    pub lifetime: Option<Lifetime>,
    /// Whether the data is file-system metadata.
    pub meta: Option<bool>,
    /// Whether the data is swap.
    pub swap: Option<bool>,
    /// Whether the request bypassed the page cache.
    pub direct: Option<bool>,
    /// The file. Shared, since many requests belong to one file.
    pub file: Option<Arc<FileHints>>,
    /// Byte offset in the file at which the request begins.
    pub file_offset_bytes: Option<u64>,
    /// Whether only a map of files identifies the file: such a map lags behind, so that contents that identify
    /// themselves take precedence.
    pub is_by_map: bool,
    /// Name of the process.
    pub process: Option<Arc<str>>,
    /// Id of the process.
    pub pid: Option<u32>,
    /// Path of the control group.
    pub cgroup: Option<Arc<str>>,
    /// Class according to the rules of another system (Open CAS).
    pub io_class: Option<u16>,
}

impl From<HostFacts<'_>> for HostHints {
    fn from(facts: HostFacts<'_>) -> Self {
        let file = facts.path.map(|path| {
            Arc::new(FileHints {
                path: path.to_owned(),
                size_bytes: facts.file_size_bytes,
                lifetime: None,
                sst_level: facts.sst_level,
            })
        });
        Self {
            lifetime: facts.lifetime,
            meta: facts.meta,
            swap: facts.swap,
            direct: facts.direct,
            file,
            file_offset_bytes: facts.file_offset_bytes,
            is_by_map: facts.is_by_map,
            process: facts.process.map(Arc::from),
            pid: facts.pid,
            cgroup: facts.cgroup.map(Arc::from),
            io_class: facts.io_class,
        }
    }
}

impl HostHints {
    /// The facts in the form that the classifier uses. The hint of the request takes precedence over the file's.
    #[must_use]
    pub fn facts(&self) -> HostFacts<'_> {
        let file = self.file.as_deref();
        HostFacts {
            lifetime: self.lifetime.or(file.and_then(|file| file.lifetime)),
            meta: self.meta,
            swap: self.swap,
            direct: self.direct,
            path: file.map(|file| file.path.as_str()),
            file_size_bytes: file.and_then(|file| file.size_bytes),
            file_offset_bytes: self.file_offset_bytes,
            is_by_map: self.is_by_map,
            sst_level: file.and_then(|file| file.sst_level),
            process: self.process.as_deref(),
            pid: self.pid,
            cgroup: self.cgroup.as_deref(),
            io_class: self.io_class,
        }
    }
}
