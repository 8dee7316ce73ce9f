//! The share of the fast tier to which copies are entitled: by what one more slot would save, as a read of the capacity tier if it had a copy, or as a write to
//! it if it had data that dies there.

use forebay_placement::cache::Counts;

/// The share is looked at whenever hosts have read and written the tier's size divided by this, and moves by as much.
const STEPS_PER_TIER: u64 = 64;
/// Least number of blocks read and written between two looks.
const ROUND_MIN_BLOCKS: u64 = 256;
/// Most of the tier that copies are entitled to, in percent.
const PERCENT_MAX: u64 = 75;
/// The factor by which one gain must exceed the other.
const MARGIN: f64 = 1.1;
/// Copies fill what they have where so many percent of their places are taken.
const FULL_PERCENT: u64 = 90;

/// What the share depends on.
pub(crate) struct Look {
    /// Blocks that hosts have written.
    pub written_blocks: u64,
    /// Writes that one more slot for data would save for each block written; `None`: too little is known, and a slot is taken to save one write while as much
    /// as the tier holds is written.
    pub gain_of_staging: Option<f64>,
}

/// The state of copies, to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheStatus {
    /// Blocks that have a copy.
    pub held_blocks: u64,
    /// Slots that are kept for copies; more are used as long as nobody else wants them.
    pub entitled_blocks: u64,
    /// Blocks of the capacity tier that were read and had a copy, since the start.
    pub hit_blocks: u64,
    /// Blocks that were read and had no copy.
    pub missed_blocks: u64,
    /// Of these, blocks that are not worth a copy: they were part of a run.
    pub passed_blocks: u64,
    /// Of these, blocks that had a copy not long ago.
    pub returned_blocks: u64,
    /// Copies written since the start.
    pub written_blocks: u64,
    /// Copies from before the start.
    pub restored_blocks: u64,
    /// Blocks that are kept in memory.
    pub in_memory_blocks: u64,
    /// Blocks read from memory since the start; these count nowhere else.
    pub memory_hit_blocks: u64,
}

/// The share.
#[derive(Debug, Default)]
pub(super) struct Share {
    slots: u64,
    /// Most copies that there may be.
    places: u64,
    entitled: u64,
    last: Counts,
    last_written_blocks: u64,
}

impl Share {
    /// For a tier of so many slots, with memory for so many copies.
    pub fn new(slots: u64, places: u64) -> Self {
        let mut share = Self { slots, places, ..Self::default() };
        share.entitled = share.step();
        share
    }

    pub fn entitled(&self) -> u64 {
        self.entitled
    }

    fn step(&self) -> u64 {
        (self.slots / STEPS_PER_TIER).max(1).min(self.most().div_ceil(STEPS_PER_TIER))
    }

    fn most(&self) -> u64 {
        (self.slots * PERCENT_MAX / 100).min(self.places)
    }

    /// Looks at the share, where it is time to. `copies`: the policy's counts, blocks that it remembers, how many copies there are, and how many there may be.
    pub fn look(&mut self, look: &Look, copies: (Counts, u32, u64, u64)) {
        let (counts, ghosts, len, places) = copies;
        let reads = (counts.hits + counts.misses).saturating_sub(self.last.hits + self.last.misses);
        let written = look.written_blocks.saturating_sub(self.last_written_blocks);
        if reads + written < (self.slots / STEPS_PER_TIER).max(ROUND_MIN_BLOCKS) {
            return;
        }
        let returned = counts.returned.saturating_sub(self.last.returned);
        (self.last, self.last_written_blocks) = (counts, look.written_blocks);
        let gain_of_copies = returned as f64 / f64::from(ghosts.max(1));
        let gain_of_staging = look.gain_of_staging.unwrap_or(1.0 / self.slots.max(1) as f64) * written as f64;
        let is_full = len * 100 >= places * FULL_PERCENT;
        if is_full && gain_of_copies > gain_of_staging * MARGIN {
            self.entitled = (self.entitled + self.step()).min(self.most());
        } else if gain_of_staging > gain_of_copies * MARGIN {
            // One step is always left: what comes back in it shows whether more is worth it.
            self.entitled = self.entitled.saturating_sub(self.step()).max(self.step());
        }
    }

    /// Whether the policy's tables are to be fitted to another number of places: each time costs as much as it moves.
    pub fn is_worth_resizing(&self, places: u64, most: u64) -> bool {
        places.abs_diff(most) >= self.step().div_ceil(4)
    }
}
