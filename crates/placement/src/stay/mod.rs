//! How long data stays on the fast tier, by measured benefit.
//!
//! Writes are put into groups by what is known when they come: their class, the host's hint, how old what they overwrite is or
//! how long the last data lived that was discarded there, and how old was what the host has just read in large requests (what a
//! compaction or a copy writes lives about as long as what it reads). Nothing is assumed of a group: a sample of its blocks is followed
//! wherever they lie, and says which share dies by which age ([`Lives`]). The tier is then shared out so that most writes die there ([`share`]); a write hears
//! how long it is to stay, or to pass by.

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
/// Memory of a group, in bytes, with its entry in the list of groups.
const BYTES_PER_GROUP: u64 = (size_of::<Group>() + size_of::<Lives>() + 64) as u64;
/// Blocks of a request from which on it counts as a large one: what copies and compactions use.
pub const LARGE_BLOCKS: u64 = 16;
/// Large writes after a large read from which on that says nothing of them any more.
const WRITES_AFTER_READ: u32 = 2;
/// The tier is shared out anew whenever so many tiers' worth were written.
const PLANS_PER_TIER: u64 = 4;
/// Part of the room that is shared out: at first, at least, at most. It moves so that hardly anything leaves before its time.
const ROOM_PARTS: (f64, f64, f64) = (0.95, 0.75, 1.0);

/// Blocks written between two plans at least.
const PLAN_MIN_BLOCKS: u64 = 256;
/// Share of what is written that may leave before its time.
const EARLY_MAX: f64 = 0.002;

/// Version of what is kept over a restart.
const SAVED_VERSION: u8 = 1;
/// Most blocks that are counted in it: more were never written to any pool.
const SAVED_BLOCKS_MAX: f64 = 1e18;
/// Part of it that groups may take; the rest is for regions.
const SAVED_GROUPS_PART: (usize, usize) = (3, 4);

/// The policy. See the module.
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
    /// Numbers of groups that were given up.
    free_numbers: Vec<u16>,
    /// Octaves of the ages of what was read in the last two large requests, from 1, the younger first; 0: nothing was. Two, for
    /// several merges may be at work at once.
    read_ages: [u8; 2],
    /// The last of them.
    last_read_age: u8,
    writes_since_read: u32,
    /// Written since the last plan, and when the next is due.
    plan_at: u64,
    planned_at: u64,
    /// When the first plan was asked for: a tier's worth of writes later the first one counts.
    began_at: Option<u64>,
    /// There was room for all that saves anything.
    has_room: bool,
    /// None until the tier was shared out since the start.
    gain_of_more: Option<f64>,
    is_planned: bool,
    room_part: f64,
    price: f64,
    /// The tier is being shared out.
    pass: Option<Box<Pass>>,
    owners: Owners,
}

/// The middle of a range: at its ends a region may be a neighbour's as well.
fn middle(blocks: &Range<u64>) -> u64 {
    blocks.start + (blocks.end - blocks.start) / 2
}

/// Memory that is used of a budget: samples, regions, groups, an equal part each as far as each can use it.
fn counts(memory_bytes: u64) -> (usize, usize, usize) {
    let third = memory_bytes / 3;
    let groups = (third / BYTES_PER_GROUP).clamp(16, GROUPS_MAX as u64);
    ((third / BYTES_PER_BLOCK) as usize, (third / BYTES_PER_REGION) as usize, groups as usize)
}

/// Memory beside the budget, in bytes: what sharing the tier out takes while it goes on, the segments of all hulls, and whose blocks are.
#[must_use]
pub fn memory_beside_bytes(budget_bytes: u64) -> u64 {
    (counts(budget_bytes).2 * ages::BINS * size_of::<share::Segment>()) as u64 + owners::memory_bytes(budget_bytes)
}

impl Stays {
    /// For a fast tier of so many blocks, disks of so many, and so much memory.
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

    /// A host reads. `now` counts the blocks that hosts have written, here and below.
    pub fn read(&mut self, disk: u16, blocks: &Range<u64>, now: u64) {
        if blocks.end - blocks.start >= LARGE_BLOCKS {
            let age = self.regions.age(disk, middle(blocks), now).map_or(0, |age| self.ages.octave(age) + 1);
            self.read_ages = [age.min(self.last_read_age), age.max(self.last_read_age)];
            self.last_read_age = age;
            self.writes_since_read = 0;
        }
    }

    /// The group of what is written to these blocks, by its class and hint.
    pub fn group(&mut self, (class, hint): (u8, u8), disk: u16, blocks: &Range<u64>, now: u64) -> u16 {
        let read_ages = if self.writes_since_read <= WRITES_AFTER_READ { self.read_ages } else { [0; 2] };
        let history = self.regions.history(disk, middle(blocks), now, self.ages);
        let traits = Traits { class, hint, history, read_ages };
        if let Some(&number) = self.numbers.get(&traits) {
            return number;
        }
        // Where there are as many groups as may be, what is new is what is known least of: one of its class, else of any.
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

    /// How long a write of a group is to stay.
    pub fn stay(&mut self, group: u16) -> Stay {
        let Some(group) = self.groups.get_mut(usize::from(group)).filter(|_| self.is_planned) else {
            // In order, and not before what has been there since before a restart.
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

    /// Whether what is written to a group dies on the fast tier, mostly, as far as it stays.
    #[must_use]
    pub fn mostly_dies(&self, group: u16) -> bool {
        self.is_planned && self.groups.get(usize::from(group)).is_some_and(|group| group.share.saved_long >= 0.5)
    }

    /// A host wrote these blocks, of a group.
    pub fn written(&mut self, disk: u16, blocks: Range<u64>, group: u16, now: u64) {
        let count = blocks.end - blocks.start;
        self.sample.died(disk, blocks.clone(), now, self.ages, &mut self.lives);
        self.regions.written(disk, blocks.clone(), now, self.ages);
        // A write that took its time may be of a group that was given up meanwhile.
        if let Some(of) = self.groups.get_mut(usize::from(group)).filter(|group| group.state == State::Known) {
            of.written += count as f64;
            self.owners.written(disk, blocks.clone(), Some(group));
            self.sample.written(disk, blocks, now, group);
        } else {
            self.owners.written(disk, blocks, None);
        }
    }

    /// A block came to a band, from a host or from the fast tier, or collection moved it: its group is that of the last write to it.
    pub fn came_to_band(&mut self, disk: u16, block: u64, is_collection: bool) {
        self.owners.count(disk, block, is_collection, &mut self.groups);
    }

    /// What blocks cost the bands that are of no group: of classes that are not staged, from before the start, or of groups given up.
    #[must_use]
    pub fn costs_of_others(&self) -> Costs {
        self.owners.costs_of_others
    }

    /// A host wrote these blocks, of a class that is not staged: what was there is gone, and that is all that is followed.
    pub fn written_elsewhere(&mut self, disk: u16, blocks: Range<u64>, now: u64) {
        self.sample.died(disk, blocks.clone(), now, self.ages, &mut self.lives);
        self.regions.written(disk, blocks.clone(), now, self.ages);
        self.owners.written(disk, blocks, None);
    }

    /// What a write to these blocks would replace, as far as their region tells: the group of a band that it lies in, or what it
    /// replaced did, and its age.
    #[must_use]
    pub fn replaces(&self, disk: u16, blocks: &Range<u64>, now: u64) -> Option<(u8, u64)> {
        let block = middle(blocks);
        self.regions.age_alive(disk, block, now).map(|age| (self.regions.group(disk, block), age))
    }

    /// The same of what the last write to a block replaced; its age is to the octave.
    #[must_use]
    pub fn replaced(&self, disk: u16, block: u64) -> Option<(u8, u64)> {
        self.regions.age_replaced(disk, block, self.ages).map(|age| (self.regions.group(disk, block), age))
    }

    /// What the last write to these blocks replaced lay in a band: its group and its age.
    pub fn replaced_in_band(&mut self, disk: u16, blocks: &Range<u64>, lifetime: (u8, u64)) {
        self.regions.replaced_in_band(disk, blocks.clone(), lifetime, self.ages);
    }

    /// A request of so many blocks is written, whatever groups its parts are of.
    pub fn requested(&mut self, blocks: u64) {
        self.writes_since_read = self.writes_since_read.saturating_add(u32::from(blocks >= LARGE_BLOCKS));
    }

    /// A host discarded these blocks, or wrote zeros there.
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

    /// Sets what staging a block costs, as a share of a write to the capacity tier saved, from 0 to below 1: where the fast
    /// tier would be worn first.
    pub fn set_price(&mut self, price: f64) {
        self.price = price.clamp(0.0, 0.99);
    }

    /// What staging a block costs.
    #[must_use]
    pub fn price(&self) -> f64 {
        self.price
    }

    /// Writes that one more block of the tier would save for each block that hosts write; `None` as long as too little is known.
    #[must_use]
    pub fn gain_of_more(&self) -> Option<f64> {
        self.gain_of_more.filter(|_| self.is_planned)
    }

    /// Begins to share `room_blocks` of the tier out. `early_blocks`: what has left it since the last time before it should.
    pub fn begin_plan(&mut self, now: u64, room_blocks: u64, early_blocks: u64) {
        let passed = now.saturating_sub(self.planned_at);
        self.planned_at = now;
        // Sooner while all is new.
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

    /// Goes on with that; true where it came to its end.
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

    /// Where there are as many groups as may be, those that hardly anything is written to make room for others: they are not
    /// written to any more, and gone once no block is followed that is theirs.
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

    /// The lives of all groups of a class together.
    fn of_classes(&self) -> BTreeMap<u8, Lives> {
        let mut of_classes: BTreeMap<u8, Lives> = BTreeMap::new();
        for (group, lives) in self.groups.iter().zip(&self.lives) {
            of_classes.entry(group.traits.class).or_default().add(lives);
        }
        of_classes
    }

    /// Whether anything was written that could be learned from.
    #[must_use]
    pub fn knows_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// What was learned, to be kept over a restart: plan, groups with their lives, and regions, in at most so many bytes, of which some
    /// hundreds are needed. Blocks that are followed are not in it: what is known of the lives up to now is counted, and others are followed
    /// soon. Allocates what it returns.
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

    /// Goes on with what [`Self::save`] wrote. Nothing changes where that is of another version or tier, or cannot be: false.
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
            // With less memory than before there may be fewer groups: those with the most writes come first.
            if self.groups.len() < self.groups_max && !self.numbers.contains_key(&traits) {
                self.numbers.insert(traits, self.groups.len() as u16);
                self.groups.push(Group { written, share, ..Group::new(traits) });
                self.lives.push(lives);
            }
        }
        self.regions.restore(r, then, self.ages)
    }

    /// All groups that were written to lately or whose blocks came to bands, those first that are written and collected most.
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
