//! Knows, for each block, what must, may and must not be read.
//!
//! Every write carries tags of its own in each sector, so that content names the write it came from. A block's versions
//! stand in the order in which requests were submitted, which is the order in which the volume promises them to take
//! effect. Time is counted in events: a version that was acknowledged before a flush was submitted is durable when that
//! flush has completed.

use std::collections::BTreeMap;

/// Eight sectors of a block; each is filled with its tag, and 0 is zeros.
pub type Content = [u32; 8];
/// A disk's number and a block's on it.
pub type Place = (u16, u64);

/// Fills a sector with a tag.
pub fn fill(tag: u32, sector: &mut [u8]) {
    for word in sector.chunks_exact_mut(4) {
        word.copy_from_slice(&tag.to_le_bytes());
    }
}

/// The tag of a sector; `None` where it is not filled with one.
#[must_use]
pub fn tag_of(sector: &[u8]) -> Option<u32> {
    let (first, rest) = sector.split_first_chunk::<4>()?;
    rest.chunks_exact(4).all(|word| word == first).then_some(u32::from_le_bytes(*first))
}

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

    fn may_be(&self, content: &Content, from: usize) -> bool {
        if self.is_patchy() {
            return content.iter().enumerate().all(|(within, &tag)| self.may_hold(within, tag, from));
        }
        self.list[from..].iter().any(|version| version.content == *content)
    }
}

/// The oracle.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<Place, History>,
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

    /// After a power cut a block reads as `content`: from now on that is all it was ever.
    ///
    /// # Errors
    /// Where it may not.
    pub fn survived(&mut self, place: Place, content: Option<Content>) -> Result<(), Objection> {
        let Some(content) = content else { return Err(format!("disk {} block {}: a torn sector", place.0, place.1)) };
        let (flushed, is_lenient) = (self.flushed, self.is_lenient);
        let history = self.blocks.entry(place).or_default();
        let durable = history.durable(flushed);
        // What is durable was written after the damage only where it does not hold what was damaged.
        let may_be_older = history.may_be_older && history.list[durable..].iter().any(|version| version.is_damaged);
        let from = if is_lenient || may_be_older { 0 } else { durable };
        if !history.may_be(&content, from) {
            let older = history.list[..from].iter().any(|version| version.content == content);
            let word = if older { "OLDER than what was flushed" } else { "never written like that" };
            let allowed: Vec<Content> = history.list[from..].iter().map(|version| version.content).collect();
            return Err(format!("disk {} block {}: {content:x?} is {word}; allowed: {allowed:x?}", place.0, place.1));
        }
        if !is_lenient {
            *history = History { list: vec![Version::first(content)], may_be_older: false };
        }
        Ok(())
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

    /// Whether a request failed because it had to read a damaged block of which it changes a part.
    #[must_use]
    pub fn touches_damage(&self, made: &Made) -> bool {
        let is_partial = |&(place, number): &(Place, usize)| {
            self.blocks.get(&place).and_then(|history| history.list.get(number)).is_some_and(|v| v.changed != 0xff)
        };
        made.iter().filter(|made| is_partial(made)).any(|&(place, _)| self.may_be_unreadable(place))
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
mod tests {
    use super::*;

    const AT: Place = (1, 7);

    fn write(oracle: &mut Oracle, tag: u32) -> Made {
        oracle.change(1, 56, &[tag; 8])
    }

    #[test]
    fn what_was_flushed_must_survive_and_what_came_later_may() {
        let mut oracle = Oracle::default();
        let old = write(&mut oracle, 1);
        oracle.acknowledge(&old, false);
        let flush = oracle.flush_begins();
        let between = write(&mut oracle, 2);
        oracle.acknowledge(&between, false);
        oracle.flushed(flush);
        for (tag, allowed) in [(0, false), (1, true), (2, true), (3, false)] {
            assert_eq!(oracle.clone().survived(AT, Some([tag; 8])).is_ok(), allowed, "{tag}");
        }
        assert!(oracle.survived(AT, None).is_err());
    }

    #[test]
    fn a_fua_write_survives_without_a_flush_and_covers_what_was_before() {
        let mut oracle = Oracle::default();
        let old = write(&mut oracle, 1);
        oracle.acknowledge(&old, false);
        let fua = write(&mut oracle, 2);
        oracle.acknowledge(&fua, true);
        assert!(oracle.clone().survived(AT, Some([1; 8])).is_err());
        assert!(oracle.survived(AT, Some([2; 8])).is_ok());
    }

    #[test]
    fn a_fua_write_that_was_not_acknowledged_promises_nothing() {
        let mut oracle = Oracle::default();
        write(&mut oracle, 2);
        assert!(oracle.clone().survived(AT, Some([0; 8])).is_ok());
        assert!(oracle.survived(AT, Some([2; 8])).is_ok());
    }

    #[test]
    fn a_read_sees_what_was_acknowledged_before_it_or_something_newer() {
        let mut oracle = Oracle::default();
        let first = write(&mut oracle, 1);
        oracle.acknowledge(&first, false);
        let since = oracle.read_begins(AT);
        write(&mut oracle, 2);
        assert!(oracle.saw(AT, 3, Some(0), since).is_err());
        assert!(oracle.saw(AT, 3, Some(1), since).is_ok());
        assert!(oracle.saw(AT, 3, Some(2), since).is_ok());
        assert!(oracle.saw(AT, 3, None, since).is_err());
        assert!(oracle.saw((1, 8), 0, Some(0), 0).is_ok());
        assert!(oracle.saw((1, 8), 0, Some(2), 0).is_err());
    }

    #[test]
    fn a_failed_write_may_be_there_in_part_and_what_covers_it_must() {
        let mut oracle = Oracle::default();
        let failed = oracle.change(1, 56, &[1, 1, 1, 1]);
        oracle.failed(&failed);
        let good = oracle.change(1, 59, &[2, 2]);
        oracle.acknowledge(&good, true);
        for (content, allowed) in [
            ([1, 1, 1, 2, 2, 0, 0, 0], true),
            ([0, 0, 0, 2, 2, 0, 0, 0], true),
            ([0, 0, 1, 2, 2, 0, 0, 0], true),
            ([1, 1, 1, 1, 2, 0, 0, 0], false),
            ([0, 0, 0, 0, 2, 0, 0, 0], false),
            ([1, 1, 1, 2, 2, 1, 0, 0], false),
        ] {
            assert_eq!(oracle.clone().survived(AT, Some(content)).is_ok(), allowed, "{content:?}");
        }
        let since = oracle.read_begins(AT);
        assert!(oracle.saw(AT, 0, Some(0), since).is_ok());
        assert!(oracle.saw(AT, 3, Some(1), since).is_err());
    }

    #[test]
    fn a_failed_write_of_whole_blocks_is_there_or_not() {
        let mut oracle = Oracle::default();
        let failed = write(&mut oracle, 1);
        oracle.failed(&failed);
        assert!(oracle.clone().survived(AT, Some([1; 8])).is_ok());
        assert!(oracle.clone().survived(AT, Some([0; 8])).is_ok());
        assert!(oracle.survived(AT, Some([1, 1, 1, 1, 0, 0, 0, 0])).is_err());
    }

    #[test]
    fn what_could_not_be_read_stays_open_and_what_was_flushed_does_not_become_older() {
        let mut oracle = Oracle::default();
        for tag in [1, 2, 3] {
            let made = write(&mut oracle, tag);
            oracle.acknowledge(&made, tag == 2);
        }
        oracle.unread(AT);
        oracle.restarted();
        for (tag, allowed) in [(1, false), (2, true), (3, true)] {
            assert_eq!(oracle.clone().survived(AT, Some([tag; 8])).is_ok(), allowed, "{tag}");
        }
    }

    #[test]
    fn damage_excuses_what_it_hit_and_nothing_that_was_written_after_it() {
        let mut oracle = Oracle::default();
        let old = write(&mut oracle, 1);
        oracle.acknowledge(&old, true);
        oracle.damaged(1, true);
        assert!(oracle.may_be_unreadable(AT) && oracle.may_survive_unreadable(AT));
        oracle.unread(AT);
        oracle.restarted();
        let part = oracle.change(1, 56, &[2]);
        assert!(oracle.touches_damage(&part), "a part of it has to be read");
        oracle.failed(&part);
        let new = write(&mut oracle, 3);
        assert!(!oracle.touches_damage(&new), "all of it is written");
        oracle.acknowledge(&new, false);
        assert!(!oracle.may_be_unreadable(AT), "what is read now was written after the damage");
        assert!(oracle.may_survive_unreadable(AT), "that is not durable yet");
        let flush = oracle.flush_begins();
        oracle.flushed(flush);
        assert!(!oracle.may_survive_unreadable(AT), "a flushed overwrite mends a block");
    }

    #[test]
    fn damage_before_the_pool_noted_what_was_durable_may_show_something_older() {
        for is_noted in [true, false] {
            let mut oracle = Oracle::default();
            for tag in [1, 2] {
                let made = write(&mut oracle, tag);
                oracle.acknowledge(&made, true);
            }
            oracle.damaged(2, is_noted);
            assert_eq!(oracle.clone().survived(AT, Some([1; 8])).is_ok(), !is_noted);
            // A survey that cannot read it leaves that open; what is acknowledged and not flushed meanwhile is no promise.
            let late = write(&mut oracle, 3);
            oracle.acknowledge(&late, false);
            oracle.unread(AT);
            oracle.restarted();
            let flush = oracle.flush_begins();
            oracle.flushed(flush);
            assert!(oracle.may_survive_unreadable(AT));
            assert!(oracle.survived(AT, Some([3; 8])).is_ok());
        }
    }

    #[test]
    fn a_disk_that_ends_early_may_not_end_before_what_was_flushed() {
        let mut oracle = Oracle::default();
        let kept = write(&mut oracle, 1);
        oracle.acknowledge(&kept, true);
        assert!(oracle.clone().cut_off(1, 7).is_err());
        assert!(oracle.clone().cut_off(1, 8).is_ok());
        assert!(oracle.cut_off(2, 0).is_ok());
    }

    #[test]
    fn regression_what_lies_below_a_failed_write_is_not_forgotten_by_a_survey_that_cannot_read() {
        let mut oracle = Oracle::default();
        let failed = oracle.change(1, 56, &[1, 1, 1, 1]);
        oracle.failed(&failed);
        let good = oracle.change(1, 59, &[2, 2]);
        oracle.acknowledge(&good, true);
        oracle.unread(AT);
        oracle.restarted();
        assert!(oracle.clone().survived(AT, Some([0, 0, 0, 2, 2, 0, 0, 0])).is_ok());
        assert!(oracle.clone().survived(AT, Some([1, 1, 1, 2, 2, 0, 0, 0])).is_ok());
        assert!(oracle.survived(AT, Some([0, 0, 0, 1, 2, 0, 0, 0])).is_err());
    }

    #[test]
    fn what_survived_is_all_there_was() {
        let mut oracle = Oracle::default();
        let first = write(&mut oracle, 1);
        oracle.acknowledge(&first, false);
        oracle.survived(AT, Some([0; 8])).unwrap();
        oracle.restarted();
        assert!(oracle.survived(AT, Some([1; 8])).is_err(), "what was gone came back");
    }
}
