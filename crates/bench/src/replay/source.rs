//! Requests as a trace provides them, and the I/Os made from them.

use forebay_block::OpKind;

/// The reason why a trace cannot be read any further.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// When it was issued, in nanoseconds since the trace's own zero.
    pub at_ns: u64,
    /// The kind of I/O.
    pub kind: OpKind,
    /// Byte offset.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u64,
    /// Whether a flush comes before it.
    pub flush_before: bool,
    /// Whether the recorded kind does not exist here, and `kind` replaces it.
    pub is_stand_in: bool,
    /// Other information about the request, as in [`forebay_block::Io::hint`].
    pub hint: u32,
}

/// A trace that is being read.
pub trait TraceSource: Send {
    /// Appends the next requests, some thousand; `false` at the end. Times may go back slightly.
    ///
    /// # Errors
    /// The reason why the rest cannot be read.
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError>;
}

impl<S: TraceSource + ?Sized> TraceSource for &mut S {
    fn read(&mut self, into: &mut Vec<Recorded>) -> Result<bool, SourceError> {
        (**self).read(into)
    }
}

/// An I/O of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayIo {
    /// When it is due, in nanoseconds since the replay began; I/Os come in this order.
    pub at_ns: u64,
    /// Byte offset on the target; 0 for flushes.
    pub offset_bytes: u64,
    /// Length in bytes; 0 for flushes.
    pub len_bytes: u32,
    /// The kind of I/O.
    pub kind: OpKind,
    /// Other information about the request, as in [`forebay_block::Io::hint`].
    pub hint: u32,
}
