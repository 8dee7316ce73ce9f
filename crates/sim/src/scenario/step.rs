//! What can happen in a round.

use crate::base::Condition;
use crate::fault::Fault;
use crate::order::Hold;

/// Blocks of a leaf of the map: working sets are spread over leaves, so that paging and checkpoints have work.
pub const LEAF_BLOCKS: u64 = 400;
/// Blocks of the second disk that are written.
pub(super) const SECOND_BLOCKS: u64 = 24;
/// Blocks of the administered disk that are written, where it is so large; several disks that had its name may be there at once.
pub const ADMINISTERED_RANGES: [std::ops::Range<u64>; 3] = [0..24, 40..48, 400..408];
/// How many these are, of two disks.
pub(super) const ADMINISTERED_BLOCKS: u64 = 80;
/// Names of the classes whose policy changes.
pub const CLASSES: [&str; 4] = ["hot", "bulk", "cold", "log"];

/// Names of files; the first two are claimed by rules of classes.
pub const NAMES: [&str; 3] = ["/kept/a", "/passing/b", "/other/c"];

/// A change of what a scrub reads: a host waits for its next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Chase {
    /// How often devices are asked after the step has begun.
    pub turns: u8,
    /// First block, from the first of the step.
    pub block: u8,
    /// How many, within what is used.
    pub blocks: u64,
    /// Blocks of each leaf that requests go to.
    pub used: u64,
    /// Durable when acknowledged.
    pub fua: bool,
    /// Class that the export gives.
    pub class: Option<u8>,
    /// Discarded, not written.
    pub is_discard: bool,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Sectors are written.
    Write {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Class that the export gives.
        class: Option<u8>,
        /// Zeros instead of tags.
        zeros: bool,
    },
    /// Whole blocks are written, every other of them zeros.
    Patchwork {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Class that the export gives.
        class: Option<u8>,
    },
    /// Sectors are discarded or zeroed.
    Clear {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Discard, not write-zeroes.
        is_discard: bool,
    },
    /// Sectors are read.
    Read {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
    },
    /// Blocks become known to belong to a file.
    Reclass {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Which of [`NAMES`].
        file: u8,
    },
    /// A flush.
    Flush,
    /// The engine is asked for a checkpoint.
    Checkpoint,
    /// The policy of a class changes.
    Place {
        /// Which of [`CLASSES`].
        class: u8,
        /// Which policy, 0 to 3.
        place: u8,
    },
    /// The second disk is made, grown, shrunk or removed, whatever is possible.
    Disk {
        /// Size in blocks; 0 removes it.
        blocks: u64,
    },
    /// A block of the second disk is written, where there is one.
    WriteSecond {
        /// Block.
        block: u64,
    },
    /// The second disk is made or grown, and used before that is durable.
    DiskNow {
        /// Size in blocks.
        blocks: u64,
    },
    /// Blocks of the second disk are written, also where it is not durably there yet.
    WriteNow {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// Asks where sectors lie.
    Status {
        /// First sector.
        sector: u64,
        /// How many.
        sectors: u64,
    },
    /// A connection dies, with requests in flight.
    HangUp {
        /// Which.
        connection: u8,
    },
    /// A block that may be damaged is overwritten whole, durably.
    Mend {
        /// Which of them, counted round and round.
        nth: u32,
    },
    /// From now on a device holds these requests back, too.
    Hold(Hold),
    /// From now on a device shows this fault, too.
    Fail(Fault),
    /// Waits until nothing is in progress.
    Settle,
    /// A blank device takes the place of a member that was left behind, while the pool is used.
    Exchange {
        /// Which of those that may do wrong.
        slot: u8,
    },
    /// A scrub begins, or goes on.
    Scrub,
    /// A scrub is paused.
    PauseScrub,
    /// Waits until no scrub goes on.
    EndScrub,
    /// A host changes what a scrub reads, as it reads it.
    Chase(Chase),
    /// Sectors rot while the pool is used, of those that a scrub looks at, on a member that may do wrong.
    Rot {
        /// Which of those that may do wrong.
        slot: u8,
        /// How many; `u8::MAX`: all.
        count: u8,
        /// Which.
        seed: u64,
    },
    /// The administered disk is made.
    Add {
        /// Size in blocks.
        blocks: u64,
        /// Blocks of the base that it is laid over; 0: none.
        over: u64,
    },
    /// The base of the administered disk is to be detached.
    Detach,
    /// From now on a base is in this condition.
    BaseIs {
        /// That of the administered disk, not of the first.
        is_administered: bool,
        /// Which.
        condition: Condition,
    },
    /// The configuration is read again, in which a class is another.
    Reload {
        /// Which of [`CLASSES`].
        class: u8,
        /// Its place, how it compresses, and whether what is read of it is cached, in one number.
        policy: u8,
    },
    /// From now on what goes past the fast tier is durable when it is answered, or no more.
    WriteThrough(bool),
    /// Bases are well, and somebody waits until they are copied.
    CopyAll,
    /// The administered disk is made larger or smaller. What lies beyond a smaller end is discarded first.
    Resize {
        /// Size in blocks.
        blocks: u64,
        /// Whether that discard is durable when acknowledged.
        fua: bool,
        /// Blocks that it has again as soon as a checkpoint is in progress that holds the smaller size, and that are written at once; 0: it stays so.
        back: u64,
    },
    /// The removal of the administered disk begins, or is asked for again where a crash ended it. Its name is free from then on.
    Remove,
    /// Blocks of the administered disk are written, where it has them.
    Put {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Durable when acknowledged.
        fua: bool,
        /// Class that the export gives.
        class: Option<u8>,
    },
    /// Blocks of the administered disk are discarded.
    Drop {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
        /// Durable when acknowledged.
        fua: bool,
    },
    /// Blocks of the administered disk are read.
    Get {
        /// First block.
        block: u64,
        /// How many.
        blocks: u64,
    },
    /// Nobody asks for anything for so many nanoseconds.
    Idle(u64),
    /// The clock that the engine is given jumps by so many nanoseconds.
    ClockStep(i64),
}
