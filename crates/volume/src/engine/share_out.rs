//! Shares the fast tier out among what may stay there, and counts what the tiers are written.

mod cost_below;

pub(super) use cost_below::CostBelow;

use super::Engine;
use super::lifetimes::LifetimeGroup;
use super::staying::{TierBytes, TierWear};
use forebay_placement::grouping::Kind;
use forebay_placement::stay::{Costs, GroupLook};

/// Share of hosts' writes that the slots kept free for them may cost, as no data is in them.
const FREE_COSTS_MAX: f64 = 0.003;

impl Engine {
    /// Begins to share the fast tier out anew, where it is time to; each call of `pump` goes on with it.
    pub(super) fn share_out_fast_tier(&mut self) {
        let now = self.stats.written_blocks();
        self.space.lifetimes.mark((self.journal.next_sequence(), self.space.bands.clock()), now);
        if self.staying.stays.is_due(now) {
            if let Some(endurance_bytes) = self.setup.options.endurance_bytes {
                let written = self.cost_bytes();
                self.staying.look_at_wear(written, endurance_bytes);
            }
            let gain = self.staying.stays.gain_of_more().filter(|gain| *gain > 0.0);
            self.migrate.free_slots_max = gain.map(|gain| (FREE_COSTS_MAX / gain) as u64);
            let room = self.room_to_stay();
            self.staying.stays.begin_plan(now, room, std::mem::take(&mut self.migrate.early_blocks));
        }
    }

    /// Bytes written to the tiers over the pool's life, as they were stored, as far as the engine knows: data of all that time, journal and map since the
    /// start.
    pub(super) fn tier_bytes(&self) -> TierBytes {
        let copied = self.copies.written_blocks() * 4096;
        let (mut fast, mut capacity) =
            (self.stats.counters.journal_bytes + self.checkpoint.pages.written_bytes() + copied, 0);
        for class in &self.stats.classes {
            fast += class.host_written_bytes.saturating_sub(class.bypassed_bytes);
            capacity += class.bypassed_bytes + class.destaged_bytes + class.collected_bytes;
        }
        let capacity = capacity.saturating_sub(self.stats.saved_bytes) + self.checkpoint.capacity.written_bytes();
        [fast, capacity]
    }

    /// Bytes that the tiers cost their drives. Parity of partial rows costs more than that of whole ones, which is left out.
    fn cost_bytes(&self) -> TierBytes {
        let [fast, capacity] = self.tier_bytes();
        [fast, self.staying.cost_below.of(capacity)]
    }

    /// Since they were put together, members with parity below the capacity tier were written as much as so many bytes of data in whole rows would have cost.
    pub(crate) fn note_written_below(&mut self, bytes: u64) {
        let mut below = std::mem::take(&mut self.staying.cost_below);
        below.note(bytes, || self.tier_bytes()[1]);
        self.staying.cost_below = below;
    }

    /// What is written to the tiers from now on counts for this run.
    pub(crate) fn begin_wear(&mut self) {
        self.staying.begin(self.tier_bytes());
    }

    /// Slots for data that may be destaged: those that it has, and those that it may take of the free ones.
    fn room_to_stay(&self) -> u64 {
        let held = self.blocks_that_may_leave();
        let passing = self.copies.slots_held() + self.space.freed.slots();
        let free = self.space.data_slots_free() + passing;
        let used_most = self.space.slots.total() * self.setup.options.destage_above_percent / 100;
        let unused = (used_most + passing).saturating_sub(self.space.slots_used());
        let over = self.space.slots_used().saturating_sub(used_most + passing);
        let room = held + free.saturating_sub(self.free_slots_wanted()).min(unused);
        room.saturating_sub(over).saturating_sub(self.copies.entitled())
    }

    /// What the fast tier and the capacity tier were written.
    #[must_use]
    pub fn wear(&self) -> [TierWear; 2] {
        let written = self.cost_bytes();
        std::array::from_fn(|tier| TierWear {
            written_bytes: written[tier],
            since_start_bytes: written[tier].saturating_sub(self.staying.at_start[tier]),
            endurance_bytes: self.setup.options.endurance_bytes.map(|endurance| endurance[tier]),
        })
    }

    /// Takes over what the policies had learned before a restart; false where that cannot be.
    pub(crate) fn restore_policies(&mut self, state: &[u8]) -> bool {
        self.staying.stays.restore(state, self.stats.written_blocks())
    }

    /// What staging a block costs, as a share of a saved write to the capacity tier: above 0 where the fast tier would be worn first.
    #[must_use]
    pub fn price_of_staging(&self) -> f64 {
        self.staying.stays.price()
    }

    /// The policy of lifetime groups, and what each group of it holds.
    #[must_use]
    pub fn lifetime_groups(&self) -> (Kind, Vec<LifetimeGroup>) {
        (self.space.lifetimes.kind, self.space.lifetimes.look(&self.space.bands))
    }

    /// What is known of how long data lives and stays, by groups of writes; groups that are written and collected most come first.
    #[must_use]
    pub fn stays(&self) -> Vec<GroupLook> {
        self.staying.stays.look()
    }

    /// What blocks that belong to no group of writes cost the bands since the start.
    #[must_use]
    pub fn costs_of_others(&self) -> Costs {
        self.staying.stays.costs_of_others()
    }
}
