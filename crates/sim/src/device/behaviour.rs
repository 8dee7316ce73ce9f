//! Behaviour of a device where the interface promises nothing.

/// Answer to reads of discarded data, which is unspecified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDiscard {
    /// Zeros.
    #[default]
    Zeros,
    /// The old data.
    Old,
    /// Other data.
    Other,
}

/// Behaviour of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What a discarded range reads as.
    pub after_discard: AfterDiscard,
    /// Chance in 256 that a sector in the cache survives a power cut.
    pub keep: u64,
    /// Whether a failed flush drops the data that it covers instead of leaving it to the next flush; so does a failed durable write, where
    /// the system flushes after it.
    pub gives_up: bool,
    /// Whether the server crashes instead of the power failing: caches keep their contents.
    pub stays_on: bool,
}
