//! Knows, for each block, which contents a read must, may and must not return.
//!
//! Every write has unique tags in each sector, so that content identifies the write it came from. The versions of a
//! block are in the order in which the requests were submitted, which is the order in which the volume promises to
//! apply them. Time is counted in events: a version that was acknowledged before a flush was submitted is durable
//! once this flush has completed.

use crate::stamp::Content;
use std::collections::BTreeMap;

/// A disk's number, and a block's number on it.
pub type Place = (u16, u64);

/// Most versions that an objection names, newest first.
const NAMED_VERSIONS: usize = 6;

#[derive(Clone, Copy, Debug)]
struct Version {
    content: Content,
    /// Event at which it was acknowledged; `u64::MAX` before.
    acknowledged: u64,
    /// Whether it was durable when it was acknowledged (FUA).
    is_durable: bool,
    /// Sectors that the request changed, one bit for each; the others are unchanged.
    changed: u8,
    /// Whether the request failed, or was never answered: each of its sectors may have been written or not.
    has_failed: bool,
    /// Whether its content was damaged on the medium: reads that would see it may fail.
    is_damaged: bool,
}

impl Version {
    /// The first version of a block.
    fn first(content: Content) -> Self {
        Self { content, acknowledged: 0, is_durable: true, changed: 0xff, has_failed: false, is_damaged: false }
    }
}

/// The versions that a request created: the block, and the version's index in the block's history.
pub type Made = Vec<(Place, usize)>;

#[derive(Clone, Debug)]
struct History {
    list: Vec<Version>,
    /// Whether damage came before the pool had recorded what was durable: until the block is read or written again,
    /// it may also have an older content.
    may_be_older: bool,
}

impl Default for History {
    fn default() -> Self {
        Self { list: vec![Version::first([0; 8])], may_be_older: false }
    }
}

impl History {
    /// Index of the oldest version that may be seen after a power cut.
    fn durable(&self, flushed: u64) -> usize {
        let is_durable = |version: &Version| {
            version.acknowledged <= flushed || version.is_durable && version.acknowledged != u64::MAX
        };
        self.list.iter().rposition(is_durable).unwrap_or(0)
    }

    /// Index of the oldest version that a read beginning now may see.
    fn current(&self) -> usize {
        self.list.iter().rposition(|version| version.acknowledged != u64::MAX).unwrap_or(0)
    }

    /// Whether a sector may have `tag` if version `from` is the oldest that may be seen. In the sectors of a failed
    /// version, the content before it may still be seen.
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

    /// The oldest version of which parts may still exist if version `at` is the oldest that may be seen: if that was
    /// written over a part of a failed version, the one before the failed version.
    fn bottom(&self, at: usize) -> usize {
        if self.list[at].changed == 0xff && !self.list[at].has_failed {
            return at;
        }
        let failed = self.list[..=at].iter().position(|version| version.has_failed);
        failed.map_or(at, |at| at.saturating_sub(1))
    }

    /// Whether a version is damaged of which parts may still exist if version `at` is the oldest that may be seen.
    fn is_damaged_from(&self, at: usize) -> bool {
        self.list[self.bottom(at)..].iter().any(|version| version.is_damaged)
    }

    /// Whether sectors must be judged one by one: some sectors of a failed request may have been written and others
    /// not, and a later version replaced only a part of them.
    fn is_patchy(&self) -> bool {
        let failed = self.list.iter().position(|version| version.has_failed);
        failed.is_some_and(|at| self.list[at..].iter().any(|version| version.changed != 0xff))
    }

    /// Whether a block may have this content if version `from` is the oldest that may be seen, and which version it
    /// is.
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

    /// Judges a block that was read whole, if version `from` is the oldest that may be seen.
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

/// The version that a block was found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The only version that is possible.
    Certain,
    /// The durable version; newer ones are lost.
    Old,
    /// The newest version, which was not durable.
    New,
    /// A version between these two, or a mixture that a failed request may leave.
    Between,
}

/// The oracle: the permitted contents of all blocks.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<Place, History>,
    /// Last tag assigned to a write.
    tags: u32,
    event: u64,
    /// All versions acknowledged up to this event are durable.
    flushed: u64,
    /// Whether old content is permitted, because devices silently lost writes.
    is_lenient: bool,
}

/// A violation, in words.
pub type Objection = String;

impl Oracle {
    /// From now on old content is permitted, since devices lie; content that was never written still is not.
    pub fn be_lenient(&mut self) {
        self.is_lenient = true;
    }

    /// Tags for a write that begins: unique for the first 2 TiB written, in sectors.
    pub fn new_tags(&mut self, sectors: usize) -> Vec<u32> {
        let first = self.tags + 1;
        self.tags += sectors as u32;
        (first..=self.tags).collect()
    }

    /// A request changes sectors of a disk, from `sector` on. Returns the versions that it creates.
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

    /// The request was answered with success; `is_durable` if it had FUA.
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

    /// A flush is submitted; returns the event up to which it will make versions durable.
    #[must_use]
    pub fn flush_begins(&self) -> u64 {
        self.event
    }

    /// The flush that began at `event` was answered with success.
    pub fn flushed(&mut self, event: u64) {
        self.flushed = self.flushed.max(event);
    }

    /// A read of the block begins; returns the index of the oldest version that it may see.
    #[must_use]
    pub fn read_begins(&self, place: Place) -> usize {
        self.blocks.get(&place).map_or(0, History::current)
    }

    /// Index of the newest version of the block, acknowledged or not: the oldest that a read may see on a device that
    /// performs requests in the order of submission.
    #[must_use]
    pub fn newest(&self, place: Place) -> usize {
        self.blocks.get(&place).map_or(0, |history| history.list.len() - 1)
    }

    /// A read of the whole block that began at `since` returned this content; `None` if a sector was torn.
    ///
    /// # Errors
    /// The content is not permitted, such as a mixture of versions.
    pub fn saw_block(&self, place: Place, content: Option<Content>, since: usize) -> Result<(), Objection> {
        let untouched = History::default();
        let history = self.blocks.get(&place).unwrap_or(&untouched);
        let from = if self.is_lenient { 0 } else { since.min(history.list.len() - 1) };
        history.judge(place, content, from).map(drop)
    }

    /// A read that began at `since` returned this tag in sector `within` of the block; `None` if the sector was torn.
    ///
    /// # Errors
    /// The tag is not permitted.
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

    /// All blocks that were ever changed or read after a power cut.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        self.blocks.keys().copied().collect()
    }

    /// After a power cut a block has `content`: from now on that is its only version. Returns which version it is.
    ///
    /// # Errors
    /// The content is not permitted.
    pub fn survived(&mut self, place: Place, content: Option<Content>) -> Result<Found, Objection> {
        let (flushed, is_lenient) = (self.flushed, self.is_lenient);
        let history = self.blocks.entry(place).or_default();
        let durable = history.durable(flushed);
        // The durable version was written after the damage only if it does not have the damaged content.
        let may_be_older = history.may_be_older && history.list[durable..].iter().any(|version| version.is_damaged);
        let from = if is_lenient || may_be_older { 0 } else { durable };
        let found = history.judge(place, content, from)?;
        if let (Some(content), false) = (content, is_lenient) {
            *history = History { list: vec![Version::first(content)], may_be_older: false };
        }
        Ok(found)
    }

    /// After a power cut a block cannot be read: its version stays open.
    pub fn unread(&mut self, place: Place) {
        let (flushed, is_lenient) = (self.flushed, self.is_lenient);
        if let (Some(history), false) = (self.blocks.get_mut(&place), is_lenient) {
            let durable = history.durable(flushed);

            // Under a failed version that is partly overwritten, the content before it may still be seen.
            let keep = history.list[..=durable].iter().position(|version| version.has_failed);
            let is_open = history.may_be_older && history.list[durable..].iter().any(|version| version.is_damaged);
            // If the damage came before the pool had recorded anything, a later read may see any version.
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

    /// Whether a version of the block had this content, and was damaged on the medium.
    #[must_use]
    pub fn is_damaged_as(&self, place: Place, content: Content) -> bool {
        let versions = self.blocks.get(&place).map_or(&[][..], |history| &history.list);
        versions.iter().any(|version| version.is_damaged && version.content == content)
    }

    /// A block's content was read from elsewhere than its damaged place: the place is as damaged as before.
    pub fn remains_damaged(&mut self, place: Place) {
        if let Some(version) = self.blocks.get_mut(&place).and_then(|history| history.list.last_mut()) {
            version.is_damaged = true;
        }
    }

    /// A sector with this tag was damaged on the medium. `is_noted`: the pool had become idle before, so that it had
    /// recorded what was durable; otherwise it may treat unverifiable data as never written, and the block as older.
    pub fn damaged(&mut self, tag: u32, is_noted: bool) {
        for history in self.blocks.values_mut() {
            for version in history.list.iter_mut().filter(|version| version.content.contains(&tag)) {
                version.is_damaged = true;
                history.may_be_older |= !is_noted;
            }
        }
    }

    /// A failed flush has permanently lost sectors that it covered: versions that are not durable may be unreadable
    /// from now on.
    pub fn lost(&mut self) {
        let flushed = self.flushed;
        for history in self.blocks.values_mut() {
            let durable = history.durable(flushed);
            history.list.iter_mut().skip(durable + 1).for_each(|version| version.is_damaged = true);
        }
    }

    /// Whether a read of the block that begins now may fail, because a version that it may see was damaged.
    #[must_use]
    pub fn may_be_unreadable(&self, place: Place) -> bool {
        self.blocks.get(&place).is_some_and(|history| history.is_damaged_from(history.current()))
    }

    /// Whether a read of the block that began at `since` may have failed, because a version that it may have seen was damaged: what was damaged then may
    /// have been written anew before the read ended.
    #[must_use]
    pub fn may_have_been_unreadable(&self, place: Place, since: usize) -> bool {
        self.blocks.get(&place).is_some_and(|history| history.is_damaged_from(since.min(history.list.len() - 1)))
    }

    /// Whether a block may be unreadable after a power cut, because a version that may survive was damaged.
    #[must_use]
    pub fn may_survive_unreadable(&self, place: Place) -> bool {
        self.blocks.get(&place).is_some_and(|history| history.is_damaged_from(history.durable(self.flushed)))
    }

    /// Whether a request may have failed because it had to read a damaged block of which it changes a part: damaged
    /// now, or damaged when the request arrived, and written whole since.
    #[must_use]
    pub fn touches_damage(&self, made: &Made) -> bool {
        made.iter().any(|&(place, number)| {
            let version = self.blocks.get(&place).and_then(|history| history.list.get(number));
            version.is_some_and(|v| v.changed != 0xff && (v.is_damaged || self.may_be_unreadable(place)))
        })
    }

    /// The `nth` block that may be unreadable, modulo their number; `None` if there is none.
    #[must_use]
    pub fn nth_damaged(&self, nth: usize) -> Option<Place> {
        let damaged: Vec<Place> = self.blocks.keys().copied().filter(|&place| self.may_be_unreadable(place)).collect();
        (!damaged.is_empty()).then(|| damaged[nth % damaged.len()])
    }

    /// The tags of the newest known content of all blocks.
    #[must_use]
    pub fn held_tags(&self) -> std::collections::BTreeSet<u32> {
        self.blocks.values().filter_map(|history| history.list.last()).flat_map(|version| version.content).collect()
    }

    /// A disk ends at `blocks` blocks, or does not exist (0): forgets the blocks beyond.
    ///
    /// # Errors
    /// A block beyond had durable data.
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

    /// Blocks of a range that were ever changed or read after a power cut.
    pub fn touched(&self, disk: u16, blocks: std::ops::Range<u64>) -> impl Iterator<Item = Place> + '_ {
        self.blocks.range((disk, blocks.start)..(disk, blocks.end)).map(|(&place, _)| place)
    }

    /// After a restart everything that was read is durable, and no other version is known.
    pub fn restarted(&mut self) {
        if !self.is_lenient {
            (self.event, self.flushed) = (0, 0);
        }
    }

    /// A disk was removed, or does not exist yet: forgets its blocks.
    pub fn forget_disk(&mut self, disk: u16) {
        self.blocks.retain(|place, _| place.0 != disk);
    }
}

#[cfg(test)]
mod tests;
