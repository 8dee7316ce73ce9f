//! How long what hosts write stays on the fast tier: the policy (`forebay-placement`) in the engine's terms.

use super::migrate::{STAY_MAX_EPOCHS, epoch_blocks};
use super::setup::Setup;
use super::share_out::CostBelow;
use super::space::Space;
use crate::layout::policy_state::PAYLOAD_BYTES_MAX;
use forebay_block::{ClassId, DiskId};
use forebay_placement::stay::{Stay, Stays, memory_beside_bytes};
use forebay_prism::{Lifetime, Prism};
use std::ops::Range;

/// Memory of the policy: this part of what is shared out, and at most so many bytes.
const MEMORY_PART: u64 = 256;
const MEMORY_MAX_BYTES: u64 = 4 << 20;

/// Memory of the policy, with so much to be shared out, and with what it takes beside its budget.
pub(super) fn memory_bytes(shared_bytes: u64) -> u64 {
    let budget_bytes = budget_bytes(shared_bytes);
    budget_bytes + memory_beside_bytes(budget_bytes)
}

/// Memory for what the policy knows.
fn budget_bytes(shared_bytes: u64) -> u64 {
    (shared_bytes / MEMORY_PART).min(MEMORY_MAX_BYTES)
}

/// What was decided of a write's stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The group that it belongs to.
    group: u16,
    /// How long it stays, in epochs.
    pub epochs: u16,
    /// Its data would save nothing on the fast tier.
    pub passes_by: bool,
    /// Data like it mostly dies while it stays.
    pub keeps: bool,
}

impl Decision {
    /// For data that is not staged.
    pub const NONE: Self = Self { group: u16::MAX, epochs: 0, passes_by: false, keeps: false };
}

/// What the host and the classifier say of a write: class and hint, by their numbers. Classes between which behaviour alone decides are one here: how long data
/// lives is measured, which is better than a guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind((u8, u8));

/// Stands for the classes between which behaviour decides.
const BY_BEHAVIOUR: u8 = u8::MAX;

impl Kind {
    /// The kind of data of a class, with a hint of its lifetime.
    pub fn new(prism: &Prism, class: ClassId, lifetime: Lifetime) -> Self {
        let (built_in, default) = (prism.table().built_in(), prism.table().default_class());
        let is_guess = [default, built_in.temp, built_in.hot].contains(&class);
        Self((if is_guess { BY_BEHAVIOUR } else { class.0 }, lifetime as u8))
    }
}

/// How far the price of staging moves from one plan to the next, and the highest price.
const PRICE_STEP: f64 = 0.02;
const PRICE_MAX: f64 = 0.15;
/// How much sooner the fast tier may be worn than the capacity tier before staging gets dearer.
const WEAR_SLACK: f64 = 1.02;

/// Bytes written to the fast tier and to the capacity tier since the start.
pub(crate) type TierBytes = [u64; 2];

/// What was written to a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierWear {
    /// Over the pool's life as far as that is kept: data, without journal and map of earlier runs.
    pub written_bytes: u64,
    /// Since the start, all of it.
    pub since_start_bytes: u64,
    /// What may be written to it over its life, where that is known.
    pub endurance_bytes: Option<u64>,
}

/// The policy, in the engine's terms.
#[derive(Debug)]
pub(crate) struct Staying {
    pub stays: Stays,
    /// Bytes written to the tiers when the engine began; `written`: when the fast tier was last shared out.
    pub at_start: TierBytes,
    /// What the capacity tier costs members with parity.
    pub cost_below: CostBelow,
    written: TierBytes,
    /// The tier was shared out since the policy's state was last taken to be saved.
    is_unsaved: bool,
}

impl Staying {
    /// For the pool of this setup.
    pub fn new(setup: &Setup, shared_bytes: u64) -> Self {
        let slots = setup.superblock.slots;
        let bands = u64::from(setup.extents.bands()) * (setup.superblock.band_bytes / 4096);
        let stays = Stays::new(slots, slots + bands, budget_bytes(shared_bytes));
        Self { stays, at_start: [0; 2], cost_below: CostBelow::default(), written: [0; 2], is_unsaved: false }
    }

    /// Goes on with sharing out the tier, where that is in progress. See [`Stays::plan_on`].
    pub fn plan_on(&mut self) {
        self.is_unsaved |= self.stays.plan_on();
    }

    /// The policy's state, to be saved with a checkpoint; `None` where hardly anything is new since the last time, unless the pool `ends`. Allocates it.
    pub fn take_unsaved(&mut self, now: u64, ends: bool) -> Option<Vec<u8>> {
        (std::mem::take(&mut self.is_unsaved) || ends && self.stays.knows_groups())
            .then(|| self.stays.save(now, PAYLOAD_BYTES_MAX))
    }

    /// The engine begins; so much was written to the tiers before.
    pub fn begin(&mut self, written: TierBytes) {
        (self.at_start, self.written) = (written, written);
    }

    /// Makes staging dearer where, at the rate since the last time, the fast tier will be worn before the capacity tier, and cheaper where not.
    pub fn look_at_wear(&mut self, written: TierBytes, endurance_bytes: [u64; 2]) {
        let wear =
            |tier: usize| written[tier].saturating_sub(self.written[tier]) as f64 / endurance_bytes[tier].max(1) as f64;
        let fast_is_first = wear(0) > WEAR_SLACK * wear(1);
        let step = if fast_is_first { PRICE_STEP } else { -PRICE_STEP };
        self.stays.set_price((self.stays.price() + step).clamp(0.0, PRICE_MAX));
        self.written = written;
    }

    /// A host reads. `now`, here and below, is the pool's time: blocks that hosts have written.
    pub fn read(&mut self, disk: DiskId, blocks: Range<u64>, now: u64) {
        self.stays.read(disk.0, &blocks, now);
    }

    /// Decides how long data that is written to these blocks stays.
    pub fn stay(&mut self, kind: Kind, disk: DiskId, blocks: &Range<u64>, (now, space): (u64, &Space)) -> Decision {
        let group = self.stays.group(kind.0, disk.0, blocks, now);
        match self.stays.stay(group) {
            stay @ (Stay::Blocks(blocks) | Stay::Unknown(blocks)) => {
                let keeps = matches!(stay, Stay::Blocks(1..)) && self.stays.mostly_dies(group);
                let epochs = (blocks / epoch_blocks(space)).min(STAY_MAX_EPOCHS);
                Decision { group, epochs: epochs as u16, passes_by: false, keeps }
            }
            Stay::PassBy => Decision { group, epochs: 0, passes_by: true, keeps: false },
        }
    }

    /// What a write to these blocks would replace in bands, as far as is known: its group and its age.
    pub fn replaces(&self, disk: DiskId, blocks: Range<u64>, now: u64) -> Option<(u8, u64)> {
        self.stays.replaces(disk.0, &blocks, now)
    }

    /// The same for what the last write to a block replaced.
    pub fn replaced(&self, disk: DiskId, block: u64) -> Option<(u8, u64)> {
        self.stays.replaced(disk.0, block)
    }

    /// A host writes these blocks, for which `stay` was decided. `replaced`: the group and the age of what they replace in a band.
    pub fn written(
        &mut self,
        stay: Decision,
        disk: DiskId,
        blocks: Range<u64>,
        (now, replaced): (u64, Option<(u8, u64)>),
    ) {
        if stay == Decision::NONE {
            self.stays.written_elsewhere(disk.0, blocks.clone(), now);
        } else {
            self.stays.written(disk.0, blocks.clone(), stay.group, now);
        }
        if let Some(replaced) = replaced {
            self.stays.replaced_in_band(disk.0, &blocks, replaced);
        }
    }

    /// A block came to a band, or collection moved it.
    pub fn came_to_band(&mut self, disk: DiskId, block: u64, is_collection: bool) {
        self.stays.came_to_band(disk.0, block, is_collection);
    }

    /// A write request of so many blocks has come.
    pub fn requested(&mut self, blocks: u64) {
        self.stays.requested(blocks);
    }

    /// A host discards these blocks, or writes zeros there.
    pub fn died(&mut self, disk: DiskId, blocks: Range<u64>, now: u64) {
        self.stays.died(disk.0, blocks, now);
    }
}
