//! What the host's side of the block layer says of a request: hints, file, process. Whoever asks for a class gives what is
//! known: a trace its fields, a served pool what its sources of evidence have learned.

use crate::Lifetime;
use std::sync::Arc;

/// Facts that blocks alone cannot tell. `None` is not known, and a rule that needs it claims nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFacts<'a> {
    /// How long the data will live, by its writer.
    pub lifetime: Option<Lifetime>,
    /// Whether it is file-system metadata (`REQ_META`).
    pub meta: Option<bool>,
    /// Whether it is swap (`REQ_SWAP`).
    pub swap: Option<bool>,
    /// Whether it went past the page cache.
    pub direct: Option<bool>,
    /// Path of the file within its file system.
    pub path: Option<&'a str>,
    /// Size of the file in bytes.
    pub file_size_bytes: Option<u64>,
    /// Where in the file it begins, in bytes.
    pub file_offset_bytes: Option<u64>,
    /// Only a map of files says which file it is.
    pub is_by_map: bool,
    /// Level of the sorted table in RocksDB's tree.
    pub sst_level: Option<u8>,
    /// Name of the process.
    pub process: Option<&'a str>,
    /// Id of the process.
    pub pid: Option<u32>,
    /// Control group.
    pub cgroup: Option<&'a str>,
    /// Class by the rules of another system (Open CAS).
    pub io_class: Option<u16>,
}

/// What a map of files tells of one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileHints {
    /// Its path.
    pub path: String,
    /// Its size in bytes, where that is known.
    pub size_bytes: Option<u64>,
    /// The write-lifetime hint it carries (`F_GET_RW_HINT`).
    pub lifetime: Option<Lifetime>,
    /// Level of a sorted table in RocksDB's tree.
    pub sst_level: Option<u8>,
}

/// Facts that a request carries to where it is classified: [`HostFacts`] that own what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostHints {
    /// How long the data will live, by its writer.
    pub lifetime: Option<Lifetime>,
    /// Whether it is file-system metadata.
    pub meta: Option<bool>,
    /// Whether it is swap.
    pub swap: Option<bool>,
    /// Whether it went past the page cache.
    pub direct: Option<bool>,
    /// Its file. Shared: many requests are of one file.
    pub file: Option<Arc<FileHints>>,
    /// Where in the file it begins, in bytes.
    pub file_offset_bytes: Option<u64>,
    /// Only a map of files says which file it is: such a map lags behind, so contents that identify themselves know better.
    pub is_by_map: bool,
    /// Name of the process.
    pub process: Option<Arc<str>>,
    /// Id of the process.
    pub pid: Option<u32>,
    /// Control group.
    pub cgroup: Option<Arc<str>>,
    /// Class by the rules of another system (Open CAS).
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
    /// As the classifier takes them. The hint that came with the request counts before the file's.
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
