//! The facts on which rules are evaluated.

use crate::direction::Direction;
use crate::evidence::Evidence;
use crate::host::HostFacts;

/// The known facts about a block when rules are evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the disk; empty if the engine has set none.
    pub disk_name: &'a str,
    /// Index of the export; `None` if there are none, as in a trace.
    pub export: Option<u16>,
    /// Name of the export; empty if the engine has set none.
    pub export_name: &'a str,
    /// Read or write.
    pub direction: Direction,
    /// Length of the request in bytes; `None` if there is no request.
    pub request_size_bytes: Option<u64>,
    /// Bytes of the sequential run up to the end of the request; `None` if the caller does not follow runs.
    pub sequential_bytes: Option<u64>,
    /// Address of the block in bytes.
    pub offset_bytes: u64,
    /// Result of examining its contents; `None` if they prove nothing.
    pub evidence: Option<Evidence>,
    /// Whether its contents were examined. If not, a test of contents without evidence is unknown rather than false.
    pub contents_known: bool,
    /// The host's facts about it.
    pub host: HostFacts<'a>,
}
