//! Why a job has no sequence of I/Os.

use forebay_block::OpKind;

/// A job whose I/Os cannot be made. Each says what to change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PatternError {
    /// The region ends behind 2^64 bytes.
    #[error("the region of {len_bytes} bytes from byte {offset_bytes} ends behind any target: make it shorter")]
    Region {
        /// First byte.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// An I/O does not fit as a whole.
    #[error(
        "nothing fits: {place} has {have_bytes} bytes, a {kind} needs {need_bytes}: enlarge the region or make the I/O \
         smaller",
        kind = .kind.name()
    )]
    TooSmall {
        /// What is too small: the region, or a thread's share of it.
        place: &'static str,
        /// What it has.
        have_bytes: u64,
        /// Kind of the I/O that does not fit.
        kind: OpKind,
        /// Its length, with the skew of its offset.
        need_bytes: u64,
    },
    /// No kind of I/O has a weight.
    #[error("the job does nothing: give at least one kind of I/O a positive weight")]
    NoKind,
    /// A kind that is wanted has no size.
    #[error("no size for {kind}: give at least one with a positive weight", kind = .kind.name())]
    NoSize {
        /// The kind.
        kind: OpKind,
    },
    /// A size of nothing.
    #[error("a {kind} of 0 bytes: sizes are 1 byte or more", kind = .kind.name())]
    ZeroSize {
        /// The kind.
        kind: OpKind,
    },
    /// A flush after no writes, or something else than a flush.
    #[error(
        "one {kind} after {writes} writes: give a flush or fsync, and 1 write or more between two of them",
        kind = .kind.name()
    )]
    FlushEvery {
        /// The kind.
        kind: OpKind,
        /// Writes between two.
        writes: u32,
    },
    /// More alternatives than a choice may have.
    #[error("{count} {what}: at most {max} are possible")]
    TooMany {
        /// Alternatives of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// Limit.
        max: usize,
    },
    /// A number outside its range.
    #[error("{name} is {value}: it must be {allowed}")]
    Parameter {
        /// Its name.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What is possible.
        allowed: &'static str,
    },
    /// A zone that gets I/Os and is less than one block.
    #[error(
        "zone {zone} gets {access_percent} % of the I/Os and is smaller than one block of {block_bytes} bytes: enlarge \
         it or the region"
    )]
    EmptyZone {
        /// Its number from 0; the rest of the region is the last.
        zone: usize,
        /// Its share of the I/Os.
        access_percent: f64,
        /// Size of a block.
        block_bytes: u64,
    },
    /// More blocks than a floating-point distribution can tell apart.
    #[error("{blocks} blocks: this pattern tells at most {max} apart; use larger I/Os or a smaller region")]
    TooManyBlocks {
        /// Blocks of the region.
        blocks: u64,
        /// Limit.
        max: u64,
    },
    /// I/Os of a trace do not come from a pattern.
    #[error("its I/Os come from a trace, and there is none")]
    NoTrace,
    /// A thread that the job does not have.
    #[error("thread {thread} of a job of {threads}: threads count from 0")]
    Thread {
        /// The number.
        thread: u32,
        /// Threads of the job.
        threads: u32,
    },
}
