//! Errors of patterns.

use forebay_block::OpKind;

/// Why the I/Os of a job cannot be made. Each error says what to change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// The region ends beyond 2^64 bytes.
    #[error("the region of {len_bytes} bytes from byte {offset_bytes} ends behind any target: make it shorter")]
    Region {
        /// First byte.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// An I/O does not fit into the region.
    #[error(
        "nothing fits: {place} has {have_bytes} bytes, a {kind} needs {need_bytes}: enlarge the region or make the I/O \
         smaller",
        kind = .kind.name()
    )]
    TooSmall {
        /// What is too small: the region, or a thread's share of it.
        place: &'static str,
        /// Its size in bytes.
        have_bytes: u64,
        /// Kind of the I/O that does not fit.
        kind: OpKind,
        /// Length of the I/O, including the skew of its offset.
        need_bytes: u64,
    },
    /// No kind of I/O has a weight.
    #[error("the job does nothing: give at least one kind of I/O a positive weight")]
    NoKind,
    /// A kind that is used has no size.
    #[error("no size for {kind}: give at least one with a positive weight", kind = .kind.name())]
    NoSize {
        /// The kind.
        kind: OpKind,
    },
    /// A size of 0 bytes.
    #[error("a {kind} of 0 bytes: sizes are 1 byte or more", kind = .kind.name())]
    ZeroSize {
        /// The kind.
        kind: OpKind,
    },
    /// A flush after 0 writes, or another kind than a flush.
    #[error(
        "one {kind} after {writes} writes: give a flush or fsync, and 1 write or more between two of them",
        kind = .kind.name()
    )]
    FlushEvery {
        /// The kind.
        kind: OpKind,
        /// Writes between two flushes.
        writes: u32,
    },
    /// A choice has too many alternatives.
    #[error("{count} {what}: at most {max} are possible")]
    TooMany {
        /// What the alternatives are.
        what: &'static str,
        /// Their number.
        count: usize,
        /// Most allowed.
        max: usize,
    },
    /// A parameter is out of its range.
    #[error("{name} is {value}: it must be {allowed}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// The given value.
        value: f64,
        /// The allowed range.
        allowed: &'static str,
    },
    /// A zone with I/Os is smaller than one block.
    #[error(
        "zone {zone} gets {access_percent} % of the I/Os and is smaller than one block of {block_bytes} bytes: enlarge \
         it or the region"
    )]
    EmptyZone {
        /// Index of the zone from 0; the rest of the region is the last zone.
        zone: usize,
        /// Its share of the I/Os.
        access_percent: f64,
        /// Size of a block.
        block_bytes: u64,
    },
    /// More blocks than a floating-point distribution can distinguish.
    #[error("{blocks} blocks: this pattern tells at most {max} apart; use larger I/Os or a smaller region")]
    TooManyBlocks {
        /// Blocks of the region.
        blocks: u64,
        /// Most allowed.
        max: u64,
    },
    /// The job's I/Os come from a trace, not from a pattern.
    #[error("its I/Os come from a trace, and there is none")]
    NoTrace,
    /// The job has no such thread.
    #[error("thread {thread} of a job of {threads}: threads count from 0")]
    Thread {
        /// The number.
        thread: u32,
        /// Threads of the job.
        threads: u32,
    },
}
