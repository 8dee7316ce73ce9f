//! Faults of devices.

use crate::order::Region;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A read fails, and keeps failing until its first sector is rewritten or the power returns.
    ReadError,
    /// A write fails; none, all or some of its sectors are on the medium.
    WriteError,
    /// A flush fails and makes nothing durable.
    FlushError,
    /// A discard fails.
    TrimError,
    /// A request takes a second instead of microseconds.
    Slow,
    /// A request takes half a minute.
    Hang,
    /// The device vanishes until the restart.
    Vanish,
    /// A write is acknowledged but never carried out.
    LostWrite,
    /// A write goes to another place on the device.
    MisdirectedWrite,
    /// A write is repeated later, over newer data.
    DuplicatedWrite,
    /// A bit flips on the medium where it is read.
    Rot,
    /// A read returns wrong bytes once; the medium is good.
    Misread,
    /// A sector becomes unreadable until it is written or discarded, also over restarts.
    DeadSector,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::ReadError,
        Self::WriteError,
        Self::FlushError,
        Self::TrimError,
        Self::Slow,
        Self::Hang,
        Self::Vanish,
        Self::LostWrite,
        Self::MisdirectedWrite,
        Self::DuplicatedWrite,
        Self::Rot,
        Self::Misread,
        Self::DeadSector,
    ];

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadError => "read error",
            Self::WriteError => "write error",
            Self::FlushError => "flush error",
            Self::TrimError => "trim error",
            Self::Slow => "slow request",
            Self::Hang => "hanging request",
            Self::Vanish => "vanished device",
            Self::LostWrite => "lost write",
            Self::MisdirectedWrite => "misdirected write",
            Self::DuplicatedWrite => "duplicated write",
            Self::Rot => "bit rot",
            Self::Misread => "misread",
            Self::DeadSector => "dead sector",
        }
    }

    /// Whether the device does not report the fault: the volume may then answer with an error, but never with wrong data.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(self, Self::LostWrite | Self::MisdirectedWrite | Self::DuplicatedWrite | Self::Rot)
    }

    /// Whether the fault may fail any request. After a misread only requests in progress may fail, and after an unreadable sector only
    /// those that concern its block.
    #[must_use]
    pub fn is_harmful(self) -> bool {
        !matches!(self, Self::Slow | Self::TrimError | Self::Misread | Self::DeadSector)
    }
}

/// A planned fault of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Device number; 0 is the fast device.
    pub device: usize,
    /// Region that it strikes; `None`: anywhere.
    pub region: Option<Region>,
    /// Number of matching requests that pass first.
    pub skip: u32,
    /// Number of requests that it strikes.
    pub count: u32,
}
