//! Decides how long data stays on the fast tier, by measured benefit.
//!
//! The policy assigns each write to a group by what is known when it arrives: its class, the host's hint, the age of
//! the data that it overwrites or the lifetime of the last data that was discarded there, and the age of the data
//! that the host has just read in large requests (the data that a compaction or a copy writes lives about as long as
//! the data it reads). It assumes nothing about a group: it follows a sample of the group's blocks wherever they lie,
//! which shows what share dies by which age ([`Lives`]). Then it shares the tier out so that as many writes as
//! possible die there ([`share`]); for each write it returns how long the write should stay, or that it should go to
//! the capacity tier directly.

pub mod ages;
mod codec;
mod costs;
mod group;
pub mod lives;
mod owners;
mod pass;
mod regions;
mod sample;
pub mod share;

use ages::Ages;
use codec::Reader;
pub use costs::Costs;
use lives::Lives;
use owners::Owners;
use regions::{BYTES_PER_REGION, Regions};

use group::{Group, State};
pub use group::{GroupLook, Stay, Traits};
use pass::{Known, PIECE, Pass, Piece};
pub use regions::History;
use sample::{BYTES_PER_BLOCK, Sample};
use share::Share;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most groups.
const GROUPS_MAX: usize = 512;
/// Memory of a group, in bytes, including its entry in the list of groups.
const BYTES_PER_GROUP: u64 = (size_of::<Group>() + size_of::<Lives>() + 64) as u64;
/// From this number of blocks on, a request counts as large, as those of copies and compactions do.
pub const LARGE_BLOCKS: u64 = 16;
/// After this many large writes, the last large read no longer characterizes writes.
const WRITES_AFTER_READ: u32 = 2;
/// The tier is shared out anew this many times while as many blocks are written as the tier has.
const PLANS_PER_TIER: u64 = 4;
/// Part of the room that is shared out: initially, at least, at most. The policy adjusts it so that hardly any block
/// is destaged before its time.
const ROOM_PARTS: (f64, f64, f64) = (0.95, 0.75, 1.0);

/// Fewest blocks written between two plans.
const PLAN_MIN_BLOCKS: u64 = 256;
/// Acceptable share of the written blocks that are destaged before their time.
const EARLY_MAX: f64 = 0.002;

/// Version of the state kept over a restart.
const SAVED_VERSION: u8 = 1;
/// Greatest plausible count of blocks in the kept state: more were never written to any pool.
const SAVED_BLOCKS_MAX: f64 = 1e18;
/// Part of the kept state that groups may use; the rest is for regions.
const SAVED_GROUPS_PART: (usize, usize) = (3, 4);

/// The policy that decides how long writes stay on the fast tier. See the module.
#[derive(Clone, Debug)]
pub struct Stays {
    ages: Ages,
    tier_blocks: u64,
    regions: Regions,
    sample: Sample,
    numbers: BTreeMap<Traits, u16>,
    groups: Vec<Group>,
    lives: Vec<Lives>,
    groups_max: usize,
    /// Numbers of groups that were given up, for reuse.
    free_numbers: Vec<u16>,
    /// Octaves of the ages of the data read by the last two large requests, plus 1, the younger first; 0 where there
    /// was none. Two, since several merges may run at once.
    read_ages: [u8; 2],
    /// The octave of the last one, plus 1.
    last_read_age: u8,
    writes_since_read: u32,
    /// The time at which the next plan is due, in blocks written.
    plan_at: u64,
    planned_at: u64,
    /// The time of the first request for a plan: the first plan takes effect after as many writes as the tier has
    /// blocks.
    began_at: Option<u64>,
    /// Whether there was room for all data that saves anything.
    has_room: bool,
    /// `None` until the tier is shared out for the first time since the start.
    gain_of_more: Option<f64>,
    is_planned: bool,
    room_part: f64,
    price: f64,
    /// The pass that shares the tier out; `None` between passes.
    pass: Option<Box<Pass>>,
    owners: Owners,
}

/// The middle of a range: at its ends, a region may also belong to a neighbouring file.
fn middle(blocks: &Range<u64>) -> u64 {
    blocks.start + (blocks.end - blocks.start) / 2
}

/// Numbers of samples, regions and groups that a memory budget allows: an equal part for each, as far as each can use
/// it.
fn counts(memory_bytes: u64) -> (usize, usize, usize) {
    let third = memory_bytes / 3;
    let groups = (third / BYTES_PER_GROUP).clamp(16, GROUPS_MAX as u64);
    ((third / BYTES_PER_BLOCK) as usize, (third / BYTES_PER_REGION) as usize, groups as usize)
}

/// Memory besides the budget, in bytes: the segments of all hulls while the tier is being shared out, and the table
/// of block owners.
#[must_use]
pub fn memory_beside_bytes(budget_bytes: u64) -> u64 {
    (counts(budget_bytes).2 * ages::BINS * size_of::<share::Segment>()) as u64 + owners::memory_bytes(budget_bytes)
}

impl Stays {
    /// A policy for a fast tier of `tier_blocks`, disks of `disks_blocks` in total, and a memory budget of
    /// `memory_bytes`.
    #[must_use]
    pub fn new(tier_blocks: u64, disks_blocks: u64, memory_bytes: u64) -> Self {
        let (samples, regions, groups_max) = counts(memory_bytes);
        let tier_blocks = tier_blocks.max(1);
        Self {
            ages: Ages::of_tier(tier_blocks),
            tier_blocks,
            regions: Regions::new(regions, disks_blocks, tier_blocks),
            sample: Sample::new(samples),
            numbers: BTreeMap::new(),
            groups: Vec::new(),
            lives: Vec::new(),
            groups_max,
            free_numbers: Vec::new(),
            read_ages: [0; 2],
            last_read_age: 0,
            writes_since_read: 0,
            plan_at: 0,
            planned_at: 0,
            began_at: None,
            has_room: true,
            gain_of_more: None,
            is_planned: false,
            room_part: ROOM_PARTS.0,
            price: 0.0,
            pass: None,
            owners: Owners::new(memory_bytes),
        }
    }

    /// A host reads `blocks`. `now` counts the blocks that hosts have written, here and below.
    pub fn read(&mut self, disk: u16, blocks: &Range<u64>, now: u64) {
        if blocks.end - blocks.start >= LARGE_BLOCKS {
            let age = self.regions.age(disk, middle(blocks), now).map_or(0, |age| self.ages.octave(age) + 1);
            self.read_ages = [age.min(self.last_read_age), age.max(self.last_read_age)];
            self.last_read_age = age;
            self.writes_since_read = 0;
        }
    }

    /// Returns the group of a write to these blocks, by its class and hint.
    pub fn group(&mut self, (class, hint): (u8, u8), disk: u16, blocks: &Range<u64>, now: u64) -> u16 {
        let read_ages = if self.writes_since_read <= WRITES_AFTER_READ { self.read_ages } else { [0; 2] };
        let history = self.regions.history(disk, middle(blocks), now, self.ages);
        let traits = Traits { class, hint, history, read_ages };
        if let Some(&number) = self.numbers.get(&traits) {
            return number;
        }
        // If the limit of groups is reached, writes with new traits count for the first known group of their class, or
        // for group 0 if there is none.
        let number = if let Some(number) = self.free_numbers.pop() {
            self.groups[usize::from(number)] = Group::new(traits);
            number
        } else if self.groups.len() < self.groups_max {
            self.groups.push(Group::new(traits));
            self.lives.push(Lives::default());
            (self.groups.len() - 1) as u16
        } else {
            let is_like = |group: &Group| group.state == State::Known && group.traits.class == class;
            return self.groups.iter().position(is_like).unwrap_or(0) as u16;
        };
        self.numbers.insert(traits, number);
        number
    }

    /// How long a write of this group should stay.
    pub fn stay(&mut self, group: u16) -> Stay {
        let Some(group) = self.groups.get_mut(usize::from(group)).filter(|_| self.is_planned) else {
            // Too early to know: these writes are destaged in order of age, and not before data that was on the tier
            // before the restart.
            return Stay::Unknown(self.tier_blocks / 2);
        };
        let share = group.share;
        if share.long_blocks == 0 {
            let passes = !self.has_room || self.price > 0.0;
            return if passes { Stay::PassBy } else { Stay::Blocks(0) };
        }
        group.owed += share.part_long;
        let stays_long = group.owed >= 1.0;
        group.owed -= f64::from(u8::from(stays_long));
        match if stays_long { share.long_blocks } else { share.short_blocks } {
            0 => Stay::PassBy,
            blocks => Stay::Blocks(blocks),
        }
    }

    /// Whether at least half of the group's blocks with the longest stay die on the fast tier; `false` before the first
    /// plan.
    #[must_use]
    pub fn mostly_dies(&self, group: u16) -> bool {
        self.is_planned && self.groups.get(usize::from(group)).is_some_and(|group| group.share.saved_long >= 0.5)
    }

    /// A host wrote these blocks, which belong to `group`.
    pub fn written(&mut self, disk: u16, blocks: Range<u64>, group: u16, now: u64) {
        let count = blocks.end - blocks.start;
        self.sample.died(disk, blocks.clone(), now, self.ages, &mut self.lives);
        self.regions.written(disk, blocks.clone(), now, self.ages);
        // The group may have been given up while the write was in progress.
        if let Some(of) = self.groups.get_mut(usize::from(group)).filter(|group| group.state == State::Known) {
            of.written += count as f64;
            self.owners.written(disk, blocks.clone(), Some(group));
            self.sample.written(disk, blocks, now, group);
        } else {
            self.owners.written(disk, blocks, None);
        }
    }

    /// A block reached a band, from a host or from the fast tier, or collection moved it: it counts for the group of
    /// the last write to it.
    pub fn came_to_band(&mut self, disk: u16, block: u64, is_collection: bool) {
        self.owners.count(disk, block, is_collection, &mut self.groups);
    }

    /// What blocks without a group cost the bands: blocks of classes that are not staged, from before the start, or
    /// of groups that were given up.
    #[must_use]
    pub fn costs_of_others(&self) -> Costs {
        self.owners.costs_of_others
    }

    /// A host wrote these blocks with a class that is not staged: the old blocks died, and the new ones are not
    /// followed.
    pub fn written_elsewhere(&mut self, disk: u16, blocks: Range<u64>, now: u64) {
        self.sample.died(disk, blocks.clone(), now, self.ages, &mut self.lives);
        self.regions.written(disk, blocks.clone(), now, self.ages);
        self.owners.written(disk, blocks, None);
    }

    /// The data that a write to these blocks would replace, as estimated from its region: the group of the band that
    /// contains this data, or contained what this data replaced, and its age. `None` if nothing is known to live
    /// there.
    #[must_use]
    pub fn replaces(&self, disk: u16, blocks: &Range<u64>, now: u64) -> Option<(u8, u64)> {
        let block = middle(blocks);
        self.regions.age_alive(disk, block, now).map(|age| (self.regions.group(disk, block), age))
    }

    /// The same for the data that the last write to a block replaced; its age is exact to the octave. `None` if it
    /// replaced nothing.
    #[must_use]
    pub fn replaced(&self, disk: u16, block: u64) -> Option<(u8, u64)> {
        self.regions.age_replaced(disk, block, self.ages).map(|age| (self.regions.group(disk, block), age))
    }

    /// The last write to these blocks replaced data in a band, of this group and age.
    pub fn replaced_in_band(&mut self, disk: u16, blocks: &Range<u64>, lifetime: (u8, u64)) {
        self.regions.replaced_in_band(disk, blocks.clone(), lifetime, self.ages);
    }

    /// A request of `blocks` blocks is written, whichever groups its parts belong to.
    pub fn requested(&mut self, blocks: u64) {
        self.writes_since_read = self.writes_since_read.saturating_add(u32::from(blocks >= LARGE_BLOCKS));
    }

    /// A host discarded these blocks, or wrote zeros to them.
    pub fn died(&mut self, disk: u16, blocks: Range<u64>, now: u64) {
        self.sample.died(disk, blocks.clone(), now, self.ages, &mut self.lives);
        self.regions.discarded(disk, blocks.clone(), now, self.ages);
        self.owners.written(disk, blocks, None);
    }

    /// Whether it is time to share the tier out anew.
    #[must_use]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.plan_at && !self.is_planning()
    }

    /// Sets the cost of staging a block, as a share of the write to the capacity tier that it may save, from 0 to
    /// below 1: more than 0 if the fast tier would wear out first.
    pub fn set_price(&mut self, price: f64) {
        self.price = price.clamp(0.0, 0.99);
    }

    /// The cost of staging a block, from 0 to 0.99.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.price
    }

    /// Writes that one more block of the tier would save for each block that hosts write; `None` while too little is
    /// known.
    #[must_use]
    pub fn gain_of_more(&self) -> Option<f64> {
        self.gain_of_more.filter(|_| self.is_planned)
    }

    /// Begins to share `room_blocks` of the tier out. `early_blocks` is the number of blocks that were destaged
    /// before their time since the last plan.
    pub fn begin_plan(&mut self, now: u64, room_blocks: u64, early_blocks: u64) {
        let passed = now.saturating_sub(self.planned_at);
        self.planned_at = now;
        // More often while the policy is new.
        self.plan_at =
            now + (self.tier_blocks / PLANS_PER_TIER).min(now / 2).max(self.tier_blocks / 64).max(PLAN_MIN_BLOCKS);
        if now > 2 * self.tier_blocks && passed > 0 {
            let is_early = early_blocks as f64 > EARLY_MAX * passed as f64;
            let factor = if is_early { 0.985 } else { 1.004 };
            self.room_part = (self.room_part * factor).clamp(ROOM_PARTS.1, ROOM_PARTS.2);
        }
        self.give_up_groups();
        let room_blocks = room_blocks as f64 * self.room_part;
        self.pass = Some(Box::new(Pass::begin(now, room_blocks)));
    }

    /// Whether the tier is being shared out.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        self.pass.is_some()
    }

    /// Continues to share the tier out; returns true once that is complete.
    pub fn plan_on(&mut self) -> bool {
        self.plan_piece(PIECE)
    }

    fn plan_piece(&mut self, piece: Piece) -> bool {
        let Some(pass) = &mut self.pass else { return false };
        let mut known = Known {
            groups: &mut self.groups,
            lives: &mut self.lives,
            sample: &mut self.sample,
            free_numbers: &mut self.free_numbers,
            ages: self.ages,
            price: self.price,
        };
        if !pass.go_on(&mut known, piece) {
            return false;
        }
        let shares = pass.shares().iter().copied().chain(std::iter::repeat(Share::default()));
        self.groups.iter_mut().zip(shares).for_each(|(group, share)| group.share = share);
        (self.has_room, self.gain_of_more) = (pass.has_room(), Some(pass.gain_of_more()));
        let began_at = *self.began_at.get_or_insert(pass.now());
        self.is_planned = pass.now() >= began_at.saturating_add(self.tier_blocks);
        self.pass = None;
        true
    }

    /// If the limit of groups is reached, gives up the groups with hardly any writes, to make room for others: they
    /// receive no more writes, and disappear once none of their blocks is followed.
    fn give_up_groups(&mut self) {
        if self.groups.len() < self.groups_max || !self.free_numbers.is_empty() {
            return;
        }
        for group in self.groups.iter_mut().filter(|group| group.state == State::Known && group.written < 1.0) {
            group.state = State::Leaving;
        }
        self.owners.give_up(&mut self.groups);
        self.numbers.retain(|_, number| self.groups[usize::from(*number)].state == State::Known);
    }

    /// For each class, the sum of the lifetimes of its groups.
    fn of_classes(&self) -> BTreeMap<u8, Lives> {
        let mut of_classes: BTreeMap<u8, Lives> = BTreeMap::new();
        for (group, lives) in self.groups.iter().zip(&self.lives) {
            of_classes.entry(group.traits.class).or_default().add(lives);
        }
        of_classes
    }

    /// Whether any group is known, so that there is something to save.
    #[must_use]
    pub fn knows_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Encodes the learned state, to be kept over a restart: plan, groups with their lifetimes, and regions, in at
    /// most `bytes_max` bytes, of which some hundreds are needed. The blocks being followed are not part of it: their
    /// lifetimes so far are counted, and others are soon followed. Allocates the result.
    #[must_use]
    pub fn save(&self, now: u64, bytes_max: usize) -> Vec<u8> {
        let mut out = vec![SAVED_VERSION];
        out.extend(self.tier_blocks.to_le_bytes());
        out.extend(now.to_le_bytes());
        out.extend((self.price as f32).to_le_bytes());
        out.extend((self.room_part as f32).to_le_bytes());
        out.push(u8::from(self.is_planned) | u8::from(self.has_room) << 1);
        let began_ago = self.began_at.map_or(u64::MAX, |began_at| now.saturating_sub(began_at));
        out.extend(began_ago.to_le_bytes());
        out.extend(self.plan_at.saturating_sub(now).to_le_bytes());
        let is_known = |number: &usize| self.groups[*number].state == State::Known;
        let mut order: Vec<usize> = (0..self.groups.len()).filter(is_known).collect();
        order.sort_by(|&a, &b| self.groups[b].written.total_cmp(&self.groups[a].written).then(a.cmp(&b)));
        let count_at = out.len();
        out.extend([0; 2]);
        let mut count = 0u16;
        for number in order {
            let (before, group) = (out.len(), &self.groups[number]);
            let Traits { class, hint, history, read_ages } = group.traits;
            out.extend([class, hint, history.number(), read_ages[0], read_ages[1]]);
            out.extend((group.written as f32).to_le_bytes());
            out.extend(group.share.short_blocks.to_le_bytes());
            out.extend(group.share.long_blocks.to_le_bytes());
            out.extend((group.share.part_long as f32).to_le_bytes());
            out.extend((group.share.saved_long as f32).to_le_bytes());
            self.lives[number].save(&mut out);
            if out.len() > bytes_max / SAVED_GROUPS_PART.1 * SAVED_GROUPS_PART.0 {
                out.truncate(before);
                break;
            }
            count += 1;
        }
        out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
        let left = bytes_max.saturating_sub(out.len() + 10);
        self.regions.save((now, self.ages), left, &mut out);
        out
    }

    /// Continues with the state that [`Self::save`] encoded. Returns false, and changes nothing, if the state has
    /// another version or is for another tier, or is invalid.
    pub fn restore(&mut self, saved: &[u8], now: u64) -> bool {
        let mut restored = self.clone();
        (restored.groups, restored.lives, restored.numbers) = Default::default();
        (restored.free_numbers, restored.pass) = Default::default();
        let is_good = restored.take(&mut Reader::new(saved), now).is_some();
        if is_good {
            *self = restored;
        }
        is_good
    }

    fn take(&mut self, r: &mut Reader<'_>, now: u64) -> Option<()> {
        let (version, tier_blocks) = (r.u8()?, r.u64()?);
        if version != SAVED_VERSION || tier_blocks != self.tier_blocks {
            return None;
        }
        let then = r.u64()?;
        self.set_price(r.fraction(1.0)?);
        self.room_part = r.fraction(ROOM_PARTS.2 * 1.01)?.clamp(ROOM_PARTS.1, ROOM_PARTS.2);
        let flags = r.u8()?;
        (self.is_planned, self.has_room) = (flags & 1 != 0, flags & 2 != 0);
        self.began_at = Some(r.u64()?).filter(|&ago| ago != u64::MAX).map(|ago| now.saturating_sub(ago));
        self.plan_at = now.saturating_add(r.u64()?.min(self.tier_blocks / PLANS_PER_TIER));
        self.planned_at = now;
        for _ in 0..r.u16()? {
            let (class, hint, history) = (r.u8()?, r.u8()?, History::of_number(r.u8()?)?);
            let traits = Traits { class, hint, history, read_ages: r.bytes()? };
            let written = r.fraction(SAVED_BLOCKS_MAX)?;
            let stay = |blocks: u64| (blocks as f64 <= SAVED_BLOCKS_MAX / 4096.0).then_some(blocks);
            let (short_blocks, long_blocks) = (stay(r.u64()?)?, stay(r.u64()?)?);
            let share = Share { short_blocks, long_blocks, part_long: r.fraction(1.0)?, saved_long: r.fraction(1.0)? };
            let lives = Lives::restore(r)?;
            // With less memory than before there may be fewer groups: the groups with the most writes come first.
            if self.groups.len() < self.groups_max && !self.numbers.contains_key(&traits) {
                self.numbers.insert(traits, self.groups.len() as u16);
                self.groups.push(Group { written, share, ..Group::new(traits) });
                self.lives.push(lives);
            }
        }
        self.regions.restore(r, then, self.ages)
    }

    /// All groups with recent writes or blocks that reached bands, those with the most writes and collected blocks
    /// first.
    #[must_use]
    pub fn look(&self) -> Vec<GroupLook> {
        let of_classes = self.of_classes();
        let all = self.groups.iter().map(|group| group.written).sum::<f64>().max(1.0);
        let collected = self.groups.iter().map(|group| group.costs.collected_blocks).sum::<u64>().max(1) as f64;
        let mut living = vec![0u64; self.groups.len()];
        self.sample.count_groups(|group| {
            if let Some(count) = living.get_mut(usize::from(group)) {
                *count += self.sample.one_of();
            }
        });
        let none = Lives::default();
        let mut looks: Vec<GroupLook> = self
            .groups
            .iter()
            .zip(&self.lives)
            .zip(living)
            .filter(|((group, _), _)| group.written >= 1.0 || group.costs != Costs::default())
            .map(|((group, lives), living_blocks)| {
                let prior = of_classes.get(&group.traits.class).unwrap_or(&none);
                let dead_by = |age| {
                    let mut dead = 0.0;
                    lives.curve(prior, self.ages, |point| {
                        dead = if point.age_blocks <= age { point.dead } else { dead }
                    });
                    dead
                };
                let (short, long) = (dead_by(group.share.short_blocks), dead_by(group.share.long_blocks));
                GroupLook {
                    traits: group.traits,
                    written_part: group.written / all,
                    living_blocks,
                    median_life_blocks: lives.median_blocks(prior, self.ages),
                    saved_part: short + (long - short) * group.share.part_long,
                    share: group.share,
                    costs: group.costs,
                    write_amplification: group.costs.write_amplification(self.owners.one_of()),
                }
            })
            .collect();
        let weight = |look: &GroupLook| look.written_part + look.costs.collected_blocks as f64 / collected;
        looks.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        looks
    }
}

#[cfg(test)]
mod tests;
