//! Which blocks of a disk belong to which file, and which of them have a class that was given without knowing that.
//!
//! Two sources, either of which may be wrong for a moment: a look at a file says where all of it lies, some time ago; a hint of
//! the kernel says whose a few blocks are, as they are written. What is newer holds. So a table that was deleted while its look
//! was on its way does not take the blocks back from the log that has them now.

use forebay_block::ClassId;
use forebay_prism::FileTold;
use forebay_trace::files::{Change, Extent};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;
/// Most blocks of one correction: a few leaves of the map, so that hosts are served in between.
const CORRECTION_BLOCKS: u64 = 1600;

/// A file: inode and generation.
pub type Key = (u64, u32);
/// What is known of the file that a block belongs to, and where in it the block lies.
pub type InFile<'a> = (&'a Arc<FileTold>, Option<u64>);

/// A run of blocks that belongs to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    key: Key,
    /// Where in the file it begins, where that is known.
    file_offset_bytes: Option<u64>,
    /// Since when at least it is the file's, by the monotonic clock.
    since_ns: u64,
    /// The blocks had their class from what is known of the file.
    is_checked: bool,
    /// What lies there is not the file's yet: the place is reserved, and holds what was there before.
    is_reserved: bool,
}

#[derive(Default)]
struct File {
    /// What is known of it; `None` where only its number is.
    told: Option<Arc<FileTold>>,
    /// First blocks of its runs.
    runs: BTreeSet<u64>,
    /// Class that the file's blocks would get if nothing else claimed them: where that stays, so do theirs.
    class: Option<ClassId>,
    /// Where to go on looking for runs to check; `None` where it waits for none.
    next: Option<u64>,
}

/// A run of blocks that is to get the class of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// First block.
    pub first: u64,
    /// How many.
    pub blocks: u64,
    /// What is known of the file.
    pub file: Arc<FileTold>,
    /// Where in the file the first block lies.
    pub file_offset_bytes: Option<u64>,
}

/// The files of one disk.
pub struct Files {
    files: HashMap<Key, File>,
    runs: BTreeMap<u64, Run>,
    /// Files with runs to check.
    queue: VecDeque<Key>,
    /// Most runs by hints beside those that looks tell.
    runs_max: usize,
}

impl Files {
    /// Without files; by hints it remembers at most so many runs.
    pub fn new(runs_max: usize) -> Self {
        Self { files: HashMap::new(), runs: BTreeMap::new(), queue: VecDeque::new(), runs_max }
    }

    /// A file is there, has changed, or has gone. `class` gives the class of a block that nothing else claims.
    pub fn take(&mut self, change: Change, class: impl Fn(&Arc<FileTold>) -> ClassId) {
        let (facts, extents, seen_ns) = match change {
            Change::Gone { inode, generation } => return self.forget((inode, generation)),
            Change::File { facts, extents, seen_ns } => (facts, extents, seen_ns),
        };
        let key = (facts.inode, facts.generation);
        let told = Arc::new(FileTold {
            path: facts.path,
            size_bytes: facts.size_bytes,
            lifetime: facts.lifetime,
            sst_level: facts.level,
        });
        let class = Some(class(&told));
        let file = self.files.entry(key).or_default();
        let is_other = file.class != class
            || file.told.as_ref().is_none_or(|before| {
                (&before.path, before.lifetime, before.sst_level) != (&told.path, told.lifetime, told.sst_level)
            });
        file.told = Some(told);
        file.class = class;
        if is_other {
            self.uncheck(key);
        }
        if let Some(extents) = extents {
            self.looked(key, &extents, seen_ns);
        }
        self.enqueue(key);
    }

    /// The kernel has issued a write of blocks of a file; it has not arrived yet.
    pub fn issued(&mut self, first: u64, end: u64, key: Key, time_ns: u64) {
        let mut at = first;
        while at < end {
            let (until, owner) = self.run_at(at, end);
            // What is the file's already stays as it is: mostly files are written where they lie.
            if owner.is_none_or(|run| run.key != key && run.since_ns <= time_ns) {
                self.cut(at, until);
                if self.runs.len() < self.runs_max {
                    let (is_checked, is_reserved) = (true, true);
                    let (file_offset_bytes, since_ns) = (None, time_ns);
                    self.put(at, Run { end: until, key, file_offset_bytes, since_ns, is_checked, is_reserved });
                }
            }
            at = until;
        }
    }

    /// A write of blocks has arrived, of this file where that is known; `is_told`: and is classified by the file's facts.
    pub fn arrived(&mut self, first: u64, end: u64, key: Option<Key>, is_told: bool) {
        let mut at = first;
        while at < end {
            let (until, owner) = self.run_at(at, end);
            if let Some(run) = owner.filter(|run| key.is_none_or(|key| key == run.key))
                && (run.is_checked, run.is_reserved) != (is_told, false)
            {
                let (_, file_offset_bytes) = self.place_at(at, end);
                self.cut(at, until);
                let (is_checked, is_reserved) = (is_told, false);
                self.put(at, Run { end: until, file_offset_bytes, is_checked, is_reserved, ..run });
                if !is_told && self.file(run.key).is_some() {
                    self.enqueue(run.key);
                }
            }
            at = until;
        }
    }

    /// Blocks that belong to no file are written: metadata, or what the kernel does not tell.
    pub fn taken(&mut self, first: u64, end: u64) {
        if self.runs.range(..end).next_back().is_some_and(|(_, run)| run.end > first) {
            self.cut(first, end);
        }
    }

    /// A look has told where all of a file lies.
    fn looked(&mut self, key: Key, extents: &[Extent], seen_ns: u64) {
        // What it had, and has no longer; runs by newer hints stay.
        let before: Vec<(u64, Run)> = self.own(key).filter(|(_, run)| run.since_ns <= seen_ns).collect();
        for &(first, run) in &before {
            self.cut(first, run.end);
        }
        let had = |at: u64| {
            let (_, run) = before[..before.partition_point(|(first, _)| *first <= at)].last()?;
            (run.end > at).then_some(*run)
        };
        for extent in extents {
            // Whole blocks only: part of a block may be another file's.
            let first = extent.disk_offset_bytes.div_ceil(BLOCK_BYTES);
            let end = extent.disk_offset_bytes.saturating_add(extent.len_bytes) / BLOCK_BYTES;
            let begin_bytes = extent.file_offset_bytes.saturating_add(first * BLOCK_BYTES - extent.disk_offset_bytes);
            let mut at = first;
            while at < end {
                let (mut until, owner) = self.run_at(at, end);
                if owner.is_none_or(|run| run.since_ns <= seen_ns) {
                    let next_before = before.get(before.partition_point(|(first, _)| *first <= at));
                    let (to, is_checked, is_reserved) = match had(at) {
                        // What was issued and has not arrived yet is no less written.
                        Some(run) => (run.end, run.is_checked, run.is_reserved && !extent.is_written),
                        None => (next_before.map_or(end, |(first, _)| *first), !extent.is_written, !extent.is_written),
                    };
                    until = until.min(to);
                    self.cut(at, until);
                    let file_offset_bytes = Some(begin_bytes.saturating_add((at - first) * BLOCK_BYTES));
                    let since_ns = seen_ns;
                    self.put(at, Run { end: until, key, file_offset_bytes, since_ns, is_checked, is_reserved });
                }
                at = until;
            }
        }
    }

    /// The run that block `at` lies in, and how far that goes, at most to `end`.
    fn run_at(&self, at: u64, end: u64) -> (u64, Option<Run>) {
        match self.runs.range(..=at).next_back() {
            Some((_, run)) if run.end > at => (run.end.min(end), Some(*run)),
            _ => (self.runs.range(at..end).next().map_or(end, |(&first, _)| first), None),
        }
    }

    fn own(&self, key: Key) -> impl Iterator<Item = (u64, Run)> + '_ {
        let runs = self.files.get(&key).map(|file| &file.runs).into_iter().flatten();
        runs.filter_map(|first| Some((*first, *self.runs.get(first)?)))
    }

    /// Adds a run where none is; joins it to those before and behind where they are one.
    fn put(&mut self, first: u64, mut run: Run) {
        let end_of =
            |before: &Run, from: u64| before.file_offset_bytes.map(|at| at + (before.end - from) * BLOCK_BYTES);
        if let Some(next) = self.runs.get(&run.end).copied()
            && (next.key, next.is_checked, next.is_reserved) == (run.key, run.is_checked, run.is_reserved)
            && end_of(&run, first) == next.file_offset_bytes
        {
            self.runs.remove(&run.end);
            if let Some(file) = self.files.get_mut(&run.key) {
                file.runs.remove(&run.end);
            }
            (run.end, run.since_ns) = (next.end, run.since_ns.max(next.since_ns));
        }
        if let Some((&from, before)) = self.runs.range_mut(..first).next_back()
            && before.end == first
            && (before.key, before.is_checked, before.is_reserved) == (run.key, run.is_checked, run.is_reserved)
            && end_of(before, from) == run.file_offset_bytes
        {
            before.end = run.end;
            before.since_ns = before.since_ns.max(run.since_ns);
            return;
        }
        self.runs.insert(first, run);
        self.files.entry(run.key).or_default().runs.insert(first);
    }

    /// Takes a range out of the runs, whosever they are.
    fn cut(&mut self, first: u64, end: u64) {
        let from = self.runs.range(..first).next_back().filter(|(_, run)| run.end > first).map_or(first, |(&at, _)| at);
        let found: Vec<(u64, Run)> = self.runs.range(from..end).map(|(&at, &run)| (at, run)).collect();
        for (at, run) in found {
            self.runs.remove(&at);
            if let Some(file) = self.files.get_mut(&run.key) {
                file.runs.remove(&at);
            }
            if at < first {
                self.insert(at, Run { end: first, ..run });
            }
            if run.end > end {
                let file_offset_bytes = run.file_offset_bytes.map(|offset| offset + (end - at) * BLOCK_BYTES);
                self.insert(end, Run { file_offset_bytes, ..run });
            }
            self.drop_if_unknown(run.key);
        }
    }

    fn insert(&mut self, first: u64, run: Run) {
        self.runs.insert(first, run);
        self.files.entry(run.key).or_default().runs.insert(first);
    }

    /// A file of which nothing is known but blocks that it had.
    fn drop_if_unknown(&mut self, key: Key) {
        if self.files.get(&key).is_some_and(|file| file.told.is_none() && file.runs.is_empty()) {
            self.files.remove(&key);
        }
    }

    fn forget(&mut self, key: Key) {
        let own: Vec<(u64, Run)> = self.own(key).collect();
        for (first, run) in own {
            self.cut(first, run.end);
        }
        self.files.remove(&key);
    }

    fn uncheck(&mut self, key: Key) {
        let Some(file) = self.files.get(&key) else { return };
        for first in &file.runs {
            if let Some(run) = self.runs.get_mut(first) {
                run.is_checked = run.is_reserved;
            }
        }
    }

    fn enqueue(&mut self, key: Key) {
        if !self.own(key).any(|(_, run)| !run.is_checked) {
            return;
        }
        if let Some(file) = self.files.get_mut(&key)
            && file.next.replace(0).is_none()
        {
            self.queue.push_back(key);
        }
    }

    /// The run of block `at`, and where in its file the block lies.
    fn place_at(&self, at: u64, end: u64) -> (Option<Run>, Option<u64>) {
        let (_, run) = self.run_at(at, end);
        let begin = self.runs.range(..=at).next_back().map_or(at, |(&first, _)| first);
        (run, run.and_then(|run| run.file_offset_bytes).map(|offset| offset + (at - begin) * BLOCK_BYTES))
    }

    /// The file of block `at`, where in it the block lies, and how far that goes, at most to `end`.
    pub fn at(&self, at: u64, end: u64) -> (u64, Option<InFile<'_>>) {
        let (until, _) = self.run_at(at, end);
        let (run, offset) = self.place_at(at, end);
        let told = run.and_then(|run| self.files.get(&run.key)?.told.as_ref());
        (until, told.map(|told| (told, offset)))
    }

    /// What is known of a file.
    pub fn file(&self, key: Key) -> Option<&Arc<FileTold>> {
        self.files.get(&key)?.told.as_ref()
    }

    /// The next blocks to be corrected.
    pub fn next_correction(&mut self) -> Option<Correction> {
        while let Some(&key) = self.queue.front() {
            if let Some(found) = self.next_of(key) {
                return Some(found);
            }
            if let Some(file) = self.files.get_mut(&key) {
                file.next = None;
            }
            self.queue.pop_front();
        }
        None
    }

    fn next_of(&mut self, key: Key) -> Option<Correction> {
        let file = self.files.get_mut(&key)?;
        let told = file.told.clone()?;
        let runs = &self.runs;
        let is_open = |first: &&u64| runs.get(first).is_some_and(|run| !run.is_checked);
        let first = *file.runs.range(file.next?..).find(is_open)?;
        let run = *self.runs.get(&first)?;
        let end = run.end.min(first + CORRECTION_BLOCKS);
        self.cut(first, end);
        self.put(first, Run { end, is_checked: true, ..run });
        if let Some(file) = self.files.get_mut(&key) {
            file.next = Some(end);
        }
        Some(Correction { first, blocks: end - first, file: told, file_offset_bytes: run.file_offset_bytes })
    }

    /// Rules have changed: every block is looked at again.
    pub fn reconsider(&mut self, class: impl Fn(&Arc<FileTold>) -> ClassId) {
        let keys: Vec<Key> = self.files.keys().copied().collect();
        for key in keys {
            if let Some(file) = self.files.get_mut(&key)
                && let Some(told) = &file.told
            {
                file.class = Some(class(told));
            }
            self.uncheck(key);
            self.enqueue(key);
        }
    }

    /// Files known, runs of blocks known, files that wait for a correction.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.files.len(), self.runs.len(), self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use forebay_trace::files::FileFacts;
    use proptest::prelude::*;

    fn change(inode: u64, path: &str, spans: &[(u64, u64)], seen_ns: u64) -> Change {
        let mut at = 0;
        let extents = spans.iter().map(|&(first, blocks)| {
            let extent = Extent {
                disk_offset_bytes: first * 4096,
                file_offset_bytes: at * 4096,
                len_bytes: blocks * 4096,
                is_written: true,
            };
            at += blocks;
            extent
        });
        let extents = Some(extents.collect());
        Change::File { facts: facts(inode, path), extents, seen_ns }
    }

    fn facts(inode: u64, path: &str) -> FileFacts {
        FileFacts {
            inode,
            generation: 0,
            path: path.to_owned(),
            size_bytes: 0,
            lifetime: None,
            level: None,
            level_written: None,
        }
    }

    fn class(told: &Arc<FileTold>) -> ClassId {
        ClassId(u8::from(told.path.contains("log")))
    }

    fn corrections(files: &mut Files) -> Vec<(u64, u64, String)> {
        let next = || files.next_correction().map(|found| (found.first, found.blocks, found.file.path.clone()));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn blocks_are_corrected_once_until_the_class_changes() {
        let mut files = Files::new(100);
        files.take(change(1, "/a", &[(10, 5), (100, 5)], 1), class);
        assert_eq!(corrections(&mut files), [(10, 5, "/a".to_owned()), (100, 5, "/a".to_owned())]);
        files.take(change(1, "/a", &[(10, 8), (100, 5)], 2), class);
        assert_eq!(corrections(&mut files), [(15, 3, "/a".to_owned())], "it has grown");
        files.take(change(1, "/a", &[(10, 8), (100, 5)], 3), class);
        assert_eq!(corrections(&mut files), [], "nothing new");
        files.take(change(1, "/log", &[(10, 8), (100, 5)], 4), class);
        assert_eq!(corrections(&mut files).iter().map(|(_, blocks, _)| blocks).sum::<u64>(), 13);
        files.reconsider(class);
        assert_eq!(corrections(&mut files).iter().map(|(_, blocks, _)| blocks).sum::<u64>(), 13);
        assert_eq!(corrections(&mut files), []);
    }

    #[test]
    fn large_files_are_corrected_in_parts() {
        let mut files = Files::new(100);
        files.take(change(1, "/a", &[(0, 4000)], 1), class);
        let parts = std::iter::from_fn(|| files.next_correction());
        let parts: Vec<_> = parts.map(|part| (part.first, part.blocks, part.file_offset_bytes)).collect();
        let at = |block: u64| Some(block * 4096);
        assert_eq!(parts, [(0, 1600, at(0)), (1600, 1600, at(1600)), (3200, 800, at(3200))]);
        assert_eq!(files.counts().1, 1, "one run again");
    }

    #[test]
    fn parts_of_blocks_are_nobodys() {
        let mut files = Files::new(100);
        let extent =
            Extent { disk_offset_bytes: 4096 + 512, file_offset_bytes: 0, len_bytes: 3 * 4096, is_written: true };
        files.take(Change::File { facts: facts(1, "/x"), extents: Some(vec![extent]), seen_ns: 1 }, class);
        assert_eq!(files.at(0, 10), (2, None));
        let (until, found) = files.at(2, 10);
        assert_eq!((until, found.map(|(_, offset)| offset)), (4, Some(Some(4096 - 512))));
    }

    #[test]
    fn a_look_that_is_late_does_not_take_back_what_was_given_up() {
        let mut files = Files::new(100);
        // The log, whose blocks were the table's, is written before the look at the table arrives.
        files.issued(10, 20, (2, 0), 50);
        files.arrived(10, 20, Some((2, 0)), false);
        files.take(change(1, "/table", &[(0, 30)], 40), class);
        assert_eq!(corrections(&mut files), [(0, 10, "/table".to_owned()), (20, 10, "/table".to_owned())]);
        assert_eq!(files.at(12, 30), (20, None), "its owner has no name yet");
        // It gets one without a look at its blocks.
        files.take(Change::File { facts: facts(2, "/log"), extents: None, seen_ns: 60 }, class);
        assert_eq!(corrections(&mut files), [(10, 10, "/log".to_owned())]);
        files.issued(10, 15, (2, 0), 70);
        files.arrived(10, 15, Some((2, 0)), true);
        assert_eq!(corrections(&mut files), [], "it was written with its name known");
        files.take(change(1, "/table", &[(0, 30)], 80), class);
        assert_eq!(corrections(&mut files), [(10, 10, "/table".to_owned())], "a newer look");
    }

    #[test]
    fn what_is_on_its_way_is_not_there_yet() {
        let mut files = Files::new(100);
        files.issued(0, 20, (1, 0), 5);
        let named = || Change::File { facts: facts(1, "/a"), extents: None, seen_ns: 0 };
        files.take(named(), class);
        assert_eq!(corrections(&mut files), [], "the blocks hold what was there before");
        files.arrived(0, 5, Some((1, 0)), true);
        files.arrived(5, 10, Some((1, 0)), false);
        files.arrived(10, 15, None, false);
        files.arrived(15, 20, Some((9, 0)), false);
        assert_eq!(corrections(&mut files), [(5, 10, "/a".to_owned())], "classified before its name was known");
        assert_eq!(corrections(&mut files), []);
    }

    #[test]
    fn what_is_only_reserved_is_not_corrected() {
        let mut files = Files::new(100);
        let extents = [(0, false), (10, true)].map(|(first, is_written)| Extent {
            disk_offset_bytes: first * 4096,
            file_offset_bytes: first * 4096,
            len_bytes: 10 * 4096,
            is_written,
        });
        let look =
            |seen_ns, extents: Vec<Extent>| Change::File { facts: facts(1, "/a"), extents: Some(extents), seen_ns };
        files.take(look(1, extents.to_vec()), class);
        assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())]);
        assert_eq!(files.at(3, 10).1.unwrap().1, Some(3 * 4096), "but what is written there is known");
        files.take(look(1, Vec::new()), class);
        files.take(look(1, extents.to_vec()), class);
        assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())], "looked at anew");
        files.reconsider(class);
        assert_eq!(corrections(&mut files), [(10, 10, "/a".to_owned())], "also where rules change");
        files.issued(2, 4, (1, 0), 2);
        files.arrived(2, 4, Some((1, 0)), true);
        assert_eq!(files.at(3, 10).1.unwrap().1, Some(3 * 4096));
        files.reconsider(class);
        assert_eq!(corrections(&mut files), [(2, 2, "/a".to_owned()), (10, 10, "/a".to_owned())]);
        files.take(look(3, extents.to_vec()), class);
        files.reconsider(class);
        let both = [(2, 2, "/a".to_owned()), (10, 10, "/a".to_owned())];
        assert_eq!(corrections(&mut files), both, "what is on its way is not reserved again");
        let written = extents.map(|extent| Extent { is_written: true, ..extent });
        files.take(look(4, written.to_vec()), class);
        assert_eq!(corrections(&mut files), [], "it was written as that file's");
    }

    #[test]
    fn what_no_file_has_is_no_files() {
        let mut files = Files::new(100);
        files.take(change(1, "/a", &[(0, 30)], 1), class);
        files.taken(10, 20);
        assert_eq!(corrections(&mut files), [(0, 10, "/a".to_owned()), (20, 10, "/a".to_owned())]);
        assert_eq!(files.at(20, 30).1.unwrap().1, Some(20 * 4096));
    }

    #[test]
    fn hints_are_remembered_within_limits() {
        let mut files = Files::new(10);
        for at in 0..100 {
            files.issued(at * 2, at * 2 + 1, (at, 0), at);
        }
        assert_eq!(files.counts(), (10, 10, 0));
        for at in 0..100 {
            files.taken(at * 2, at * 2 + 1);
        }
        assert_eq!(files.counts(), (0, 0, 0));
    }

    proptest! {
        #[test]
        fn runs_are_as_if_each_block_had_its_own(
            steps in prop::collection::vec(
                (0u8..4, 1u64..6, prop::collection::vec((0u64..60, 1u64..12), 0..4), 0u64..3), 1..80),
            are_late in any::<bool>(),
        ) {
            let mut files = Files::new(1000);
            let mut model: [Option<(u64, u64)>; 80] = [None; 80];
            let mut now = 10;
            let mut open = [false; 80];
            let mut known = std::collections::BTreeSet::new();
            for (kind, inode, spans, late) in steps {
                now += 1;
                // Runs that are joined count from the newest on: which of them a late look still takes, the model does not know.
                let seen_ns = now - if are_late { late * 2 } else { 0 };
                let cover = |spans: &[(u64, u64)]| {
                    let blocks = spans.iter().flat_map(|&(first, blocks)| first..first + blocks);
                    blocks.map(|block| block as usize).collect::<std::collections::BTreeSet<_>>()
                };
                match kind {
                    0 => {
                        let spans: Vec<_> = spans.into_iter().take(1).collect();
                        for block in cover(&spans) {
                            if model[block].is_none_or(|(owner, _)| owner != inode) {
                                model[block] = Some((inode, now));
                            }
                            open[block] = !known.contains(&inode);
                        }
                        for (first, blocks) in spans {
                            files.issued(first, first + blocks, (inode, 0), now);
                            files.arrived(first, first + blocks, Some((inode, 0)), known.contains(&inode));
                        }
                    }
                    1 => {
                        for block in cover(&spans) {
                            model[block] = None;
                        }
                        spans.iter().for_each(|&(first, blocks)| files.taken(first, first + blocks));
                    }
                    2 => {
                        known.remove(&inode);
                        model.iter_mut().filter(|block| block.is_some_and(|(owner, _)| owner == inode))
                            .for_each(|block| *block = None);
                        files.take(Change::Gone { inode, generation: 0 }, class);
                    }
                    _ => {
                        let is_new = known.insert(inode);
                        let new = cover(&spans);
                        for (at, block) in model.iter_mut().enumerate() {
                            let is_own = block.is_some_and(|(owner, _)| owner == inode);
                            open[at] |= is_new && is_own;
                            let may_change = block.is_none_or(|(_, since)| since <= seen_ns);
                            if new.contains(&at) && may_change {
                                open[at] |= !is_own;
                                *block = Some((inode, seen_ns));
                            } else if is_own && may_change {
                                *block = None;
                            }
                        }
                        files.take(change(inode, &format!("/{inode}"), &spans, seen_ns), class);
                    }
                }
                let mut at = 0;
                while at < 80 {
                    let (until, found) = files.run_at(at, 80);
                    prop_assert!(until > at && until <= 80);
                    for block in &model[at as usize..until as usize] {
                        prop_assert!(are_late || block.map(|(owner, _)| owner) == found.map(|run| run.key.0));
                    }
                    at = until;
                }
                let listed: usize = files.files.values().map(|file| file.runs.len()).sum();
                prop_assert_eq!(listed, files.runs.len());
            }
            // Every block of a known file that was not checked is corrected, as that file's.
            let mut corrected = [false; 80];
            if are_late {
                return Ok(());
            }
            for (first, blocks, path) in corrections(&mut files) {
                for block in first..first + blocks {
                    corrected[block as usize] = true;
                    prop_assert_eq!(format!("/{}", model[block as usize].unwrap().0), path.clone());
                }
            }
            for (at, block) in model.iter().enumerate() {
                if let Some((owner, _)) = block {
                    prop_assert!(corrected[at] || !known.contains(owner) || !open[at], "block {at}");
                }
            }
        }
    }
}
