//! What the host's side of the block layer says of a request: hints, file, process. Whoever asks for a class gives what is
//! known: a trace its fields, a served pool what its sources of evidence have learned.

use crate::Lifetime;

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
