//! What devices do wrong.

use crate::order::Region;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A read fails, and goes on failing until its first sector is written again or the power comes back.
    ReadError,
    /// A write fails; nothing, all or some of its sectors are on the medium.
    WriteError,
    /// A flush fails; nothing more is durable.
    FlushError,
    /// A discard fails.
    TrimError,
    /// A request takes a second instead of microseconds.
    Slow,
    /// A request takes half a minute.
    Hang,
    /// The device is gone from here on, until the restart.
    Vanish,
    /// A write is acknowledged and never happens.
    LostWrite,
    /// A write lands somewhere else on the device.
    MisdirectedWrite,
    /// A write happens once more later, over what was written meanwhile.
    DuplicatedWrite,
    /// A bit flips where something is read.
    Rot,
    /// A read returns wrong bytes, once: what is on the medium is good.
    Misread,
    /// A sector cannot be read any more, whatever happens, until it is written or discarded.
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

    /// What a report calls it.
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

    /// Whether the device says nothing of it: the volume may then answer with an error, but never with wrong data.
    #[must_use]
    pub fn is_silent(self) -> bool {
        matches!(self, Self::LostWrite | Self::MisdirectedWrite | Self::DuplicatedWrite | Self::Rot)
    }

    /// Whether any request may fail because of it. After a misread only those may that were in progress, and after a dead
    /// sector only those that concern the block which lay there.
    #[must_use]
    pub fn is_harmful(self) -> bool {
        !matches!(self, Self::Slow | Self::TrimError | Self::Misread | Self::DeadSector)
    }
}

/// A fault that a device is to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Device, from 0: the fast one.
    pub device: usize,
    /// Where; `None`: anywhere.
    pub region: Option<Region>,
    /// How many requests it could strike go by first.
    pub skip: u32,
    /// How many it strikes then.
    pub count: u32,
}
