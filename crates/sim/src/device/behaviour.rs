//! What a device promises nothing about, and how it goes about that.

/// What a device answers to a read of what was discarded: nothing is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterDiscard {
    /// Zeros.
    #[default]
    Zeros,
    /// What was there.
    Old,
    /// Something else.
    Other,
}

/// How a device behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// What a discarded range reads as.
    pub after_discard: AfterDiscard,
    /// Chance in 256 that a sector which was only in the cache survives a power cut.
    pub keep: u64,
    /// A failed flush gives up what it covered, instead of leaving it to the next one; so does a failed durable write, where
    /// the system flushes behind it.
    pub gives_up: bool,
    /// The server crashes where otherwise the power fails: caches keep what they hold.
    pub stays_on: bool,
}
