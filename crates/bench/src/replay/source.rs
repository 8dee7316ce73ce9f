//! Requests as a trace gives them, and what becomes of them.

use forebay_block::OpKind;

/// Why a trace cannot be read any further.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A request as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it was issued, in nanoseconds since the trace's own zero.
    pub at_ns: u64,
    /// What it does.
    pub kind: OpKind,
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u64,
    /// A flush goes before it.
    pub flush_before: bool,
    /// What was recorded has no kind of its own here, and this one stands for it.
    pub is_stand_in: bool,
    /// What else is known of it, as [`forebay_block::Io::hint`].
    pub hint: u32,
}

/// A trace being read.
pub trait TraceSource: Send {
    /// Appends the next requests, some thousand; `false` at the end. Times may go back a little.
    ///
    /// # Errors
    /// What makes the rest unreadable.
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError>;
}

impl<S: TraceSource + ?Sized> TraceSource for &mut S {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        (**self).read(into)
    }
}

/// An I/O to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    /// When, in nanoseconds since the replay's begin, in the order of which I/Os come.
    pub at_ns: u64,
    /// Byte on the target; 0 for flushes.
    pub offset_bytes: u64,
    /// Bytes; 0 for flushes.
    pub len_bytes: u32,
    /// What it does.
    pub kind: OpKind,
    /// What else is known of it, as [`forebay_block::Io::hint`].
    pub hint: u32,
}
