//! Device requests as the rules of a test see them.

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Discard,
}

/// Region of a request, as known from the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Superblocks, watermarks, and everything else.
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
    /// A write with FUA.
    pub is_durable: bool,
    /// The bytes to be read, written or discarded.
    pub bytes: &'a [u8],
}

impl Seen<'_> {
    pub fn is(&self, kind: Kind, region: Region) -> bool {
        self.kind == kind && self.region == region
    }
    /// Whether the request covers the byte at an offset of the device.
    pub fn covers(&self, offset_bytes: u64) -> bool {
        (self.offset_bytes..self.offset_bytes + self.bytes.len() as u64).contains(&offset_bytes)
    }
}

/// Fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Good,
    /// It stays in progress; the rule decides again at the next poll.
    Held,
    /// It fails. A failed write changes nothing; a failed flush loses the data that it covers, and is reported once.
    Failed,
    /// It fails because the object for its place does not exist.
    Missing,
    /// It fails, and the device drops its cache, as where the system flushes after a durable write.
    Lost,
    /// A read succeeds with a flipped bit at this offset of the device.
    Misread(u64),
}
