//! What rules are tried on.

use crate::direction::Direction;
use crate::evidence::Evidence;
use crate::host::HostFacts;

/// What is known of a block when rules are tried.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the disk, empty where the engine gave none.
    pub disk_name: &'a str,
    /// Index of the export; `None` where there are none, as in a trace.
    pub export: Option<u16>,
    /// Name of the export, empty where the engine gave none.
    pub export_name: &'a str,
    /// Read or write.
    pub direction: Direction,
    /// Length of the request in bytes; `None` where no request is looked at.
    pub request_size_bytes: Option<u64>,
    /// Bytes of the sequential run up to the end of the request; `None` where nobody follows runs.
    pub sequential_bytes: Option<u64>,
    /// Address of the block in bytes.
    pub offset_bytes: u64,
    /// What its contents prove; `None` for nothing.
    pub evidence: Option<Evidence>,
    /// Whether its contents were looked at. What they were not is unknown else.
    pub contents_known: bool,
    /// What the host says of it.
    pub host: HostFacts<'a>,
}
