//! Knows, for each block, what must, may and must not be read.
//!
//! Every write carries tags of its own in each sector, so that content names the write it came from. A block's versions
//! stand in the order in which requests were submitted, which is the order in which the volume promises them to take
//! effect. Time is counted in events: a version that was acknowledged before a flush was submitted is durable when that
//! flush has completed.

use crate::stamp::Content;
use std::collections::BTreeMap;

/// A disk's number and a block's on it.
pub type Place = (u16, u64);

/// Versions that an objection names, newest first.
const NAMED_VERSIONS: usize = 6;

#[derive(Clone, Copy, Debug)]
struct Version {
    content: Content,
    /// Event at which it was acknowledged; `u64::MAX` while it is not.
    acknowledged: u64,
    /// Durable when it was acknowledged (FUA).
    is_durable: bool,
    /// Sectors that the request changed, a bit each; the others are as they were before it.
    changed: u8,
    /// The request failed, or was never heard of again: each of its sectors may be there or not.
    has_failed: bool,
    /// What it wrote was damaged where it lay: reads that would see it may fail.
    is_damaged: bool,
}

impl Version {
    /// What everything begins with.
    fn first(content: Content) -> Self {
        Self { content, acknowledged: 0, is_durable: true, changed: 0xff, has_failed: false, is_damaged: false }
    }
}

/// Versions that a request made: place, and the version's number in the block's history.
pub type Made = Vec<(Place, usize)>;

#[derive(Clone, Debug)]
struct History {
    list: Vec<Version>,
    /// Damage came before the pool had noted as durable what was: until the block is read or written again it may also be
    /// something older.
    may_be_older: bool,
}

impl Default for History {
    fn default() -> Self {
        Self { list: vec![Version::first([0; 8])], may_be_older: false }
    }
}

impl History {
    /// The oldest version that may still be seen after a power cut.
    fn durable(&self, flushed: u64) -> usize {
        let is_durable = |version: &Version| {
            version.acknowledged <= flushed || version.is_durable && version.acknowledged != u64::MAX
        };
        self.list.iter().rposition(is_durable).unwrap_or(0)
    }

    /// The oldest version that a read may see which begins now.
    fn current(&self) -> usize {
        self.list.iter().rposition(|version| version.acknowledged != u64::MAX).unwrap_or(0)
    }

    /// Whether a sector may hold `tag` where version `from` is the oldest that may be seen. Below a version that failed,
    /// what was there before it may still be seen in its sectors.
    fn may_hold(&self, within: usize, tag: u32, from: usize) -> bool {
        if self.list[from..].iter().any(|version| version.content[within] == tag) {
            return true;
        }
        let changed = |version: &Version| version.changed >> within & 1 == 1;
        let mut upto = from;
        while let Some(at) = self.list[..=upto].iter().rposition(changed).filter(|&at| at > 0) {
            if !self.list[at].has_failed {
                break;
            }
            upto = at - 1;
            if self.list[upto].content[within] == tag {
                return true;
            }
        }
        false
    }

    /// The oldest version of which parts may still be there where version `at` is the oldest that may be seen: of one that
    /// was written over a part of a version that failed, what was there before that.
    fn bottom(&self, at: usize) -> usize {
        if self.list[at].changed == 0xff && !self.list[at].has_failed {
            return at;
        }
        let failed = self.list[..=at].iter().position(|version| version.has_failed);
        failed.map_or(at, |at| at.saturating_sub(1))
    }

    /// Whether sectors have to be looked at one by one: some of a failed request may be there and others not, under what
    /// was written over a part of it.
    fn is_patchy(&self) -> bool {
        let failed = self.list.iter().position(|version| version.has_failed);
        failed.is_some_and(|at| self.list[at..].iter().any(|version| version.changed != 0xff))
    }

    /// Whether this may be the content where version `from` is the oldest that may be seen, and which one it is.
    fn find(&self, content: &Content, from: usize) -> Option<Found> {
        let whole = self.list[from..].iter().rposition(|version| version.content == *content);
        let newest = self.list.len() - 1;
        match whole {
            Some(_) if from == newest => Some(Found::Certain),
            Some(0) => Some(Found::Old),
            Some(at) if from + at == newest => Some(Found::New),
            Some(_) => Some(Found::Between),
            None => {
                let may_hold = |(within, &tag): (usize, &u32)| self.may_hold(within, tag, from);
                (self.is_patchy() && content.iter().enumerate().all(may_hold)).then_some(Found::Between)
            }
        }
    }

    /// Judges a block that was read whole, where version `from` is the oldest that may be seen.
    fn judge(&self, place: Place, content: Option<Content>, from: usize) -> Result<Found, Objection> {
        let (disk, block) = place;
        let Some(content) = content else { return Err(format!("disk {disk} block {block}: a torn sector")) };
        self.find(&content, from).ok_or_else(|| {
            let older = self.list[..from].iter().any(|version| version.content == content);
            let word = if older { "OLDER than what it must hold" } else { "never written like that" };
            let newest_first = self.list[from..].iter().rev().map(|version| version.content);
            let allowed: Vec<Content> = newest_first.take(NAMED_VERSIONS).collect();
            let count = self.list.len() - from;
            format!("disk {disk} block {block}: {content:x?} is {word}; allowed, of {count}: {allowed:x?}")
        })
    }
}

/// Which of its versions a block turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The only one that it could.
    Certain,
    /// The one that was durable, and newer ones are gone.
    Old,
    /// The newest, which was not durable.
    New,
    /// One between these two, or a mixture that a failed request may leave.
    Between,
}

/// The oracle.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<Place, History>,
    /// Tags given to writes so far.
    tags: u32,
    event: u64,
    /// What was acknowledged up to this event is durable.
    flushed: u64,
    /// Ranges lost their promise of being new enough: damage that devices did in silence.
    is_lenient: bool,
}

/// What the oracle has against something.
pub type Objection = String;

impl Oracle {
    /// From now on old content is no objection, as devices lie; content that was never written still is.
    pub fn be_lenient(&mut self) {
        self.is_lenient = true;
    }

    /// Tags for a write that begins: none of them was ever given before (the first 2 TiB written, in sectors).
    pub fn new_tags(&mut self, sectors: usize) -> Vec<u32> {
        let first = self.tags + 1;
        self.tags += sectors as u32;
        (first..=self.tags).collect()
    }

    /// A request changes sectors of a disk, from `sector` on.
    pub fn change(&mut self, disk: u16, sector: u64, tags: &[u32]) -> Made {
        let mut made = Made::new();
        let mut at = 0;
        while at < tags.len() {
            let position = sector + at as u64;
            let (block, within) = (position / 8, (position % 8) as usize);
            let count = (8 - within).min(tags.len() - at);
            let history = self.blocks.entry((disk, block)).or_default();
            let mut content = history.list[history.list.len() - 1].content;
            content[within..within + count].copy_from_slice(&tags[at..at + count]);
            let changed = (0xff_u8 >> (8 - count)) << within;
            let is_damaged = changed != 0xff && history.list.last().is_some_and(|last| last.is_damaged);
            let (acknowledged, is_durable, has_failed) = (u64::MAX, false, false);
            history.list.push(Version { content, acknowledged, is_durable, changed, has_failed, is_damaged });
            made.push(((disk, block), history.list.len() - 1));
            at += count;
        }
        made
    }

    /// The request was answered with success.
    pub fn acknowledge(&mut self, made: &Made, is_durable: bool) {
        self.event += 1;
        let event = self.event;
        for &(place, number) in made {
            let Some(history) = self.blocks.get_mut(&place) else { continue };
            if let Some(version) = history.list.get_mut(number) {
                (version.acknowledged, version.is_durable) = (event, is_durable);
            }
        }
    }

    /// The request was answered with an error.
    pub fn failed(&mut self, made: &Made) {
        for &(place, number) in made {
            if let Some(version) = self.blocks.get_mut(&place).and_then(|history| history.list.get_mut(number)) {
                version.has_failed = true;
            }
        }
    }

    /// A flush is submitted: what it will make durable.
    #[must_use]
    pub fn flush_begins(&self) -> u64 {
        self.event
    }

    /// That flush was answered with success.
    pub fn flushed(&mut self, event: u64) {
        self.flushed = self.flushed.max(event);
    }

    /// A read of the block begins: the oldest version it may see.
    #[must_use]
    pub fn read_begins(&self, place: Place) -> usize {
        self.blocks.get(&place).map_or(0, History::current)
    }

    /// The newest version of the block, acknowledged or not: the oldest that a read may see of a device which carries out
    /// requests as they are submitted.
    #[must_use]
    pub fn newest(&self, place: Place) -> usize {
        self.blocks.get(&place).map_or(0, |history| history.list.len() - 1)
    }

    /// A read of the whole block that began at `since` saw this content.
    ///
    /// # Errors
    /// Where it may not: mixtures of versions included.
    pub fn saw_block(&self, place: Place, content: Option<Content>, since: usize) -> Result<(), Objection> {
        let untouched = History::default();
        let history = self.blocks.get(&place).unwrap_or(&untouched);
        let from = if self.is_lenient { 0 } else { since.min(history.list.len() - 1) };
        history.judge(place, content, from).map(drop)
    }

    /// A read that began at `since` saw this tag in sector `within` of the block.
    ///
    /// # Errors
    /// Where it may not.
    pub fn saw(&self, place: Place, within: usize, tag: Option<u32>, since: usize) -> Result<(), Objection> {
        let Some(tag) = tag else { return Err(format!("disk {} block {}: a torn sector", place.0, place.1)) };
        let Some(history) = self.blocks.get(&place) else {
            return if tag == 0 {
                Ok(())
            } else {
                Err(format!("disk {} block {}: {tag:#x}, never written", place.0, place.1))
            };
        };
        let from = if self.is_lenient { 0 } else { since };
        if history.may_hold(within, tag, from.min(history.list.len() - 1)) {
            return Ok(());
        }
        let older = history.list.iter().any(|version| version.content[within] == tag);
        let word = if older { "an older version" } else { "not of this block" };
        Err(format!("disk {} block {} sector {within}: {tag:#x} is {word}", place.0, place.1))
    }

    /// All blocks that were ever touched.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.blocks.keys().copied().collect()
    }

    /// After a power cut a block reads as `content`: from now on that is all it was ever. Tells which version it is.
    ///
    /// # Errors
    /// Where it may not.
    pub fn survived(&mut self, place: Place, content: Option<Content>) -> Result<Found, Objection> {
        let (flushed, is_lenient) = (self.flushed, self.is_lenient);
        let history = self.blocks.entry(place).or_default();
        let durable = history.durable(flushed);
        // What is durable was written after the damage only where it does not hold what was damaged.
        let may_be_older = history.may_be_older && history.list[durable..].iter().any(|version| version.is_damaged);
        let from = if is_lenient || may_be_older { 0 } else { durable };
        let found = history.judge(place, content, from)?;
        if let (Some(content), false) = (content, is_lenient) {
            *history = History { list: vec![Version::first(content)], may_be_older: false };
        }
        Ok(found)
    }

    /// After a power cut a block cannot be read: what it is stays open.
    pub fn unread(&mut self, place: Place) {
        let (flushed, is_lenient) = (self.flushed, self.is_lenient);
        if let (Some(history), false) = (self.blocks.get_mut(&place), is_lenient) {
            let durable = history.durable(flushed);

            // Below a failed version that is covered in part, what was there before may still be seen.
            let keep = history.list[..=durable].iter().position(|version| version.has_failed);
            let is_open = history.may_be_older && history.list[durable..].iter().any(|version| version.is_damaged);
            // Where the damage came before anything was noted, a later read may see any of them.
            let from = if is_open { 0 } else { keep.map_or(durable, |at| at.saturating_sub(1)) };
            history.list.drain(..from);
            for (at, version) in history.list.iter_mut().enumerate() {
                let was_durable = at + from <= durable && !version.has_failed;
                version.is_durable = was_durable;
                version.acknowledged = if was_durable { 0 } else { u64::MAX };
                version.has_failed = !was_durable;
            }
        }
    }

    /// Whether a block is known to have held just this, and that was damaged where it lay.
    #[must_use]
    pub fn is_damaged_as(&self, place: Place, content: Content) -> bool {
        let versions = self.blocks.get(&place).map_or(&[][..], |history| &history.list);
        versions.iter().any(|version| version.is_damaged && version.content == content)
    }

    /// What a block holds was read of something else than where it lies: it is as damaged there as it was.
    pub fn remains_damaged(&mut self, place: Place) {
        if let Some(version) = self.blocks.get_mut(&place).and_then(|history| history.list.last_mut()) {
            version.is_damaged = true;
        }
    }

    /// A sector that held this tag was damaged at rest. `is_noted`: the pool had come to rest before, so that it knows what
    /// was durable; else it may take what it cannot verify for something that never was, and the block for older.
    pub fn damaged(&mut self, tag: u32, is_noted: bool) {
        for history in self.blocks.values_mut() {
            for version in history.list.iter_mut().filter(|version| version.content.contains(&tag)) {
                version.is_damaged = true;
                history.may_be_older |= !is_noted;
            }
        }
    }

    /// A failed flush has lost something of what it covered for good: what is not durable may be unreadable from now on.
    pub fn lost(&mut self) {
        let flushed = self.flushed;
        for history in self.blocks.values_mut() {
            let durable = history.durable(flushed);
            history.list.iter_mut().skip(durable + 1).for_each(|version| version.is_damaged = true);
        }
    }

    /// Whether a read of the block that begins now may fail, as what it would see was damaged.
    #[must_use]
    pub fn may_be_unreadable(&self, place: Place) -> bool {
        self.blocks.get(&place).is_some_and(|history| {
            history.list[history.bottom(history.current())..].iter().any(|version| version.is_damaged)
        })
    }

    /// Whether a block may be unreadable after a power cut, as what survived may be what was damaged.
    #[must_use]
    pub fn may_survive_unreadable(&self, place: Place) -> bool {
        self.blocks.get(&place).is_some_and(|history| {
            history.list[history.bottom(history.durable(self.flushed))..].iter().any(|version| version.is_damaged)
        })
    }

    /// Whether a request failed because it had to read a damaged block of which it changes a part: damaged now, or when the
    /// request came, and written whole since.
    #[must_use]
    pub fn touches_damage(&self, made: &Made) -> bool {
        made.iter().any(|&(place, number)| {
            let version = self.blocks.get(&place).and_then(|history| history.list.get(number));
            version.is_some_and(|v| v.changed != 0xff && (v.is_damaged || self.may_be_unreadable(place)))
        })
    }

    /// A block that may be unreadable, counted round and round.
    #[must_use]
    pub fn nth_damaged(&self, nth: usize) -> Option<Place> {
        let damaged: Vec<Place> = self.blocks.keys().copied().filter(|&place| self.may_be_unreadable(place)).collect();
        (!damaged.is_empty()).then(|| damaged[nth % damaged.len()])
    }

    /// Tags that blocks hold now, as far as is known.
    #[must_use]
    pub fn held_tags(&self) -> std::collections::BTreeSet<u32> {
        self.blocks.values().filter_map(|history| history.list.last()).flat_map(|version| version.content).collect()
    }

    /// A disk ends at `blocks` blocks, or is not there at all (0): what lay beyond is forgotten.
    ///
    /// # Errors
    /// Where something there was durable.
    pub fn cut_off(&mut self, disk: u16, blocks: u64) -> Result<(), Objection> {
        let flushed = self.flushed;
        let beyond = self.blocks.range((disk, blocks)..=(disk, u64::MAX));
        let kept = beyond.filter(|(_, history)| history.list[history.durable(flushed)].content != [0; 8]);
        if let (Some((place, _)), false) = (kept.into_iter().next(), self.is_lenient) {
            return Err(format!("disk {disk} ends at block {blocks}, and block {} was flushed", place.1));
        }
        self.blocks.retain(|place, _| place.0 != disk || place.1 < blocks);
        Ok(())
    }

    /// Blocks of a range that were ever touched.
    pub fn touched(&self, disk: u16, blocks: std::ops::Range<u64>) -> impl Iterator<Item = Place> + '_ {
        self.blocks.range((disk, blocks.start)..(disk, blocks.end)).map(|(&place, _)| place)
    }

    /// After a restart everything read is durable, and nothing else is known.
    pub fn restarted(&mut self) {
        if !self.is_lenient {
            (self.event, self.flushed) = (0, 0);
        }
    }

    /// A disk is gone, or does not exist yet.
    pub fn forget_disk(&mut self, disk: u16) {
        self.blocks.retain(|place, _| place.0 != disk);
    }
}

#[cfg(test)]
mod tests;
