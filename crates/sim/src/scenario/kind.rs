//! What kinds of lives there are.

/// Where in a seed the kind of life stands.
const KIND_SHIFT: u32 = 40;

/// What a life is rich in. Most lives have a little of everything; some corners are not reached that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything.
    Mixed,
    /// Hundreds of map pages with few blocks in each: checkpoints of more pages than are written at once.
    Wide,
    /// Large writes in which every other block is zeros: records that fill journal batches.
    Patchwork,
    /// A tiny fast tier from which everything is destaged, and whose slots are used again at once.
    Cramped,
    /// One lie of a device, or one bit that rots at rest, after which everything flushed is read as it was or not at
    /// all.
    Lying,
    /// Devices that fail while the pool is opened, and while sectors are written.
    Failing,
    /// A small capacity tier that is overwritten many times: collection without end.
    Tight,
    /// Discards over many map pages, of which few fit into memory.
    Sweeping,
    /// Files whose names come with their writes, or become known afterwards, and change.
    Naming,
    /// A fast tier without a volatile cache before capacity devices with one, bands of a few blocks, and batches and data
    /// that end in any order.
    Overtaking,
    /// Slots that come back at once: few of them, the same few blocks written again and again while a destage job waits
    /// for map pages.
    Reusing,
    /// Sectors of bands that rot, or cannot be read any more, met by collections while their blocks are overwritten.
    Rotting,
    /// Reads that return wrong bytes once.
    Misreading,
    /// Disks that are made and grown, written and flushed at once, while roots are slow or fail to be written.
    Growing,
    /// Map pages that cannot be read while moves wait for them, and bands of one or a few blocks.
    Unmapping,
    /// As many devices as a pool can have.
    Many,
    /// Several connections that flush for each other and die, and questions for the state of long ranges.
    Talking,
    /// Flushes that fail, of devices that then forget what they covered, and go on.
    Forgetting,
    /// Power that fails every few requests, in a life that is like one of another kind.
    Flickering,
    /// A mirrored fast tier, of which one member at a time does whatever devices can do wrong.
    Mirrored,
    /// A capacity tier with parity, of which as many members as there is parity for do whatever devices can do wrong.
    Parity,
    /// Redundancy of any kind, with what rots, scrubs, bases, and hosts that change what a scrub reads.
    Redundant,
    /// The same over parity alone, with bands of whole groups full of blocks so small that their names take several pages.
    Packed,
    /// Disks that are added, made smaller and larger, and removed, step by step as a server does it, with power cuts between the steps.
    Changing,
}

impl Kind {
    /// Kinds that aim at one window each, and take turns.
    pub const WINDOWS: [Self; 8] = [
        Self::Overtaking,
        Self::Reusing,
        Self::Rotting,
        Self::Misreading,
        Self::Growing,
        Self::Unmapping,
        Self::Many,
        Self::Talking,
    ];

    /// Whether it aims at one window: [`Kind::WINDOWS`], and [`Kind::Forgetting`], which came after them.
    #[must_use]
    pub fn is_window(self) -> bool {
        Self::WINDOWS.contains(&self) || self == Self::Forgetting
    }

    /// Whether redundancy puts right what rots in it while scrubs go on: [`Kind::Redundant`] and [`Kind::Packed`].
    #[must_use]
    pub fn is_scrubbed(self) -> bool {
        matches!(self, Self::Redundant | Self::Packed)
    }

    /// All kinds, in the order of their numbers in seeds.
    pub const ALL: [Self; 24] = [
        Self::Mixed,
        Self::Wide,
        Self::Patchwork,
        Self::Cramped,
        Self::Lying,
        Self::Failing,
        Self::Tight,
        Self::Sweeping,
        Self::Naming,
        Self::Overtaking,
        Self::Reusing,
        Self::Rotting,
        Self::Misreading,
        Self::Growing,
        Self::Unmapping,
        Self::Many,
        Self::Talking,
        Self::Forgetting,
        Self::Flickering,
        Self::Mirrored,
        Self::Parity,
        Self::Redundant,
        Self::Packed,
        Self::Changing,
    ];

    /// Of the life with this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let at = (seed >> KIND_SHIFT) as usize % Self::ALL.len();
        Self::ALL[at]
    }

    /// A seed of a life of this kind.
    #[must_use]
    pub fn seed(self, number: u64) -> u64 {
        number | (self as u64) << KIND_SHIFT
    }
}
