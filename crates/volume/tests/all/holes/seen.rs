//! Requests of devices as the rules of a test see them.

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Discard,
}

/// Where a request goes, as far as the superblock tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Superblocks, watermarks, and all that is nothing else.
    Head,
    Root,
    Journal,
    /// Map pages and data on the fast tier.
    Slots,
    /// Data on the capacity tier.
    Bands,
}

/// A request as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub kind: Kind,
    pub region: Region,
    pub offset_bytes: u64,
    /// A write that is to be durable when it ends.
    pub is_durable: bool,
    /// What would be read, written or discarded.
    pub bytes: &'a [u8],
}

impl Seen<'_> {
    pub fn is(&self, kind: Kind, region: Region) -> bool {
        self.kind == kind && self.region == region
    }
    /// Whether it touches the byte at an offset of the device.
    pub fn covers(&self, offset_bytes: u64) -> bool {
        (self.offset_bytes..self.offset_bytes + self.bytes.len() as u64).contains(&offset_bytes)
    }
}

/// What a rule makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Good,
    /// It stays in progress: the rule is asked again at the next poll.
    Held,
    /// It fails. A write changes nothing; a flush loses what it should have made durable, and the device tells so once.
    Failed,
    /// It fails, as what is kept for its place is not there.
    Missing,
    /// It fails, and the device gives up what its cache holds, as where the system flushes behind a durable write.
    Lost,
    /// A read succeeds with a flipped bit at this offset of the device.
    Misread(u64),
}
