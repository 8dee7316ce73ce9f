//! Maps the blocks of a disk to files, and finds blocks that were classified before their file was known.
//!
//! There are two sources, and each may be wrong for a moment. A look at a file shows where all of it lay, some time
//! ago. A hint of the kernel names the file of a few blocks as they are written. The newer source wins, so a look at
//! a deleted table that arrives late does not take blocks away from the log that has them now.

use forebay_block::{BLOCK_BYTES_U64 as BLOCK_BYTES, ClassId};
use forebay_prism::FileHints;
use forebay_trace::files::{Change, Extent};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Most blocks in one correction: a few leaves of the map, so that hosts' requests are served between corrections.
const CORRECTION_BLOCKS: u64 = 1600;

/// Identity of a file: inode and generation.
pub type Key = (u64, u32);
/// Facts known of the file that a block belongs to, and the block's offset in the file in bytes, where known.
pub type InFile<'a> = (&'a Arc<FileHints>, Option<u64>);

/// A run of consecutive blocks that belong to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    end: u64,
    key: Key,
    /// Offset of the run in the file; `None` where it is not known.
    file_offset_bytes: Option<u64>,
    /// The run has belonged to the file since this time or longer (monotonic clock).
    since_ns: u64,
    /// The class of these blocks already takes the facts of the file into account.
    is_checked: bool,
    /// The blocks are allocated to the file but not written yet: they still hold their former contents.
    is_reserved: bool,
}

#[derive(Default)]
struct File {
    /// Facts of the file; `None` where only inode and generation are known.
    hints: Option<Arc<FileHints>>,
    /// First block of each of its runs.
    runs: BTreeSet<u64>,
    /// Class that the file's blocks get where nothing else claims them. While it is unchanged, its blocks need no new
    /// check.
    class: Option<ClassId>,
    /// First block from which the search for unchecked runs continues; `None` where the file is not in the queue.
    next: Option<u64>,
}

/// A run of blocks that must be reclassified by the facts of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    /// First block of the run.
    pub first: u64,
    /// Count of blocks, at most `CORRECTION_BLOCKS`.
    pub blocks: u64,
    /// Facts of the file.
    pub file: Arc<FileHints>,
    /// Offset of the first block in the file, in bytes; `None` where it is not known.
    pub file_offset_bytes: Option<u64>,
}

/// The map of files of one disk.
pub struct Files {
    files: HashMap<Key, File>,
    runs: BTreeMap<u64, Run>,
    /// Files with unchecked runs.
    queue: VecDeque<Key>,
    /// Limit of all runs, above which hints add no more of them.
    runs_max: usize,
}

impl Files {
    /// An empty map. Hints add runs only while there are fewer than `runs_max`.
    pub fn new(runs_max: usize) -> Self {
        Self { files: HashMap::new(), runs: BTreeMap::new(), queue: VecDeque::new(), runs_max }
    }

    /// Applies a change: a file appeared, changed or was deleted. `class` returns the class of a block that nothing
    /// else claims.
    pub fn take(&mut self, change: Change, class: impl Fn(&Arc<FileHints>) -> ClassId) {
        let (facts, extents, seen_ns) = match change {
            Change::Gone { inode, generation } => return self.forget((inode, generation)),
            Change::File { facts, extents, seen_ns } => (facts, extents, seen_ns),
        };
        let key = (facts.inode, facts.generation);
        let hints = Arc::new(FileHints {
            path: facts.path,
            size_bytes: Some(facts.size_bytes),
            lifetime: facts.lifetime,
            sst_level: facts.level,
        });
        let class = Some(class(&hints));
        let file = self.files.entry(key).or_default();
        let is_other = file.class != class
            || file.hints.as_ref().is_none_or(|before| {
                (&before.path, before.lifetime, before.sst_level) != (&hints.path, hints.lifetime, hints.sst_level)
            });
        file.hints = Some(hints);
        file.class = class;
        if is_other {
            self.uncheck(key);
        }
        if let Some(extents) = extents {
            self.looked(key, &extents, seen_ns);
        }
        self.enqueue(key);
    }

    /// The kernel has issued a write to blocks of a file; the server has not received it yet.
    pub fn issued(&mut self, first: u64, end: u64, key: Key, time_ns: u64) {
        let mut at = first;
        while at < end {
            let (until, owner) = self.run_at(at, end);
            // Blocks that already belong to the file stay as they are: most writes overwrite a file in place.
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

    /// The server has received a write to these blocks, of file `key` where that is known. `is_known`: the write was
    /// classified by the facts of its file.
    pub fn arrived(&mut self, first: u64, end: u64, key: Option<Key>, is_known: bool) {
        let mut at = first;
        while at < end {
            let (until, owner) = self.run_at(at, end);
            if let Some(run) = owner.filter(|run| key.is_none_or(|key| key == run.key))
                && (run.is_checked, run.is_reserved) != (is_known, false)
            {
                self.cut(at, until);
                let (is_checked, is_reserved) = (is_known, false);
                self.put(at, Run { end: until, is_checked, is_reserved, ..run });
                if !is_known && self.file(run.key).is_some() {
                    self.enqueue(run.key);
                }
            }
            at = until;
        }
    }

    /// A write to blocks that belong to no file: metadata, or a write whose file the kernel does not report.
    pub fn taken(&mut self, first: u64, end: u64) {
        if self.runs.range(..end).next_back().is_some_and(|(_, run)| run.end > first) {
            self.cut(first, end);
        }
    }

    /// A look at a file has shown all its extents.
    fn looked(&mut self, key: Key, extents: &[Extent], seen_ns: u64) {
        // Removes the file's former runs; runs added by newer hints stay.
        let before: Vec<(u64, Run)> = self.own(key).filter(|(_, run)| run.since_ns <= seen_ns).collect();
        for &(first, run) in &before {
            self.cut(first, run.end);
        }
        let had = |at: u64| {
            let (_, run) = before[..before.partition_point(|(first, _)| *first <= at)].last()?;
            (run.end > at).then_some(*run)
        };
        for extent in extents {
            // Only whole blocks: the rest of a partial block may belong to another file.
            let first = extent.disk_offset_bytes.div_ceil(BLOCK_BYTES);
            let end = extent.disk_offset_bytes.saturating_add(extent.len_bytes) / BLOCK_BYTES;
            let begin_bytes = extent.file_offset_bytes.saturating_add(first * BLOCK_BYTES - extent.disk_offset_bytes);
            let mut at = first;
            while at < end {
                let (mut until, owner) = self.run_at(at, end);
                if owner.is_none_or(|run| run.since_ns <= seen_ns) {
                    let next_before = before.get(before.partition_point(|(first, _)| *first <= at));
                    let (to, is_checked, is_reserved) = match had(at) {
                        // A run that is not reserved was issued for writing; a look that still shows it unwritten is
                        // older.
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

    /// The run that contains block `at`, cut so that it begins there, and its end, at most `end`.
    fn run_at(&self, at: u64, end: u64) -> (u64, Option<Run>) {
        match self.runs.range(..=at).next_back() {
            Some((first, run)) if run.end > at => {
                let file_offset_bytes = run.file_offset_bytes.map(|offset| offset + (at - first) * BLOCK_BYTES);
                (run.end.min(end), Some(Run { file_offset_bytes, ..*run }))
            }
            _ => (self.runs.range(at..end).next().map_or(end, |(&first, _)| first), None),
        }
    }

    fn own(&self, key: Key) -> impl Iterator<Item = (u64, Run)> + '_ {
        let runs = self.files.get(&key).map(|file| &file.runs).into_iter().flatten();
        runs.filter_map(|first| Some((*first, *self.runs.get(first)?)))
    }

    /// Adds a run to a free range, and merges it with the neighbours that continue it.
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
        self.insert(first, run);
    }

    /// Removes a range from all runs, whichever files own them.
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

    /// Forgets a file without facts that has no runs left.
    fn drop_if_unknown(&mut self, key: Key) {
        if self.files.get(&key).is_some_and(|file| file.hints.is_none() && file.runs.is_empty()) {
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

    /// The file that block `at` belongs to, the block's offset in it, and up to which block (at most `end`) this
    /// holds.
    pub fn at(&self, at: u64, end: u64) -> (u64, Option<InFile<'_>>) {
        let (until, run) = self.run_at(at, end);
        (until, run.and_then(|run| Some((self.file(run.key)?, run.file_offset_bytes))))
    }

    /// Facts of a file; `None` where they are not known.
    pub fn file(&self, key: Key) -> Option<&Arc<FileHints>> {
        self.files.get(&key)?.hints.as_ref()
    }

    /// The next run to reclassify; `None` where all runs are checked.
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
        let hints = file.hints.clone()?;
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
        Some(Correction { first, blocks: end - first, file: hints, file_offset_bytes: run.file_offset_bytes })
    }

    /// The rules have changed: every run whose class may differ is checked again.
    pub fn reconsider(&mut self, class: impl Fn(&Arc<FileHints>) -> ClassId) {
        let keys: Vec<Key> = self.files.keys().copied().collect();
        for key in keys {
            if let Some(file) = self.files.get_mut(&key)
                && let Some(hints) = &file.hints
            {
                file.class = Some(class(hints));
            }
            self.uncheck(key);
            self.enqueue(key);
        }
    }

    /// Counts of known files, of runs of blocks, and of files that wait for a correction.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.files.len(), self.runs.len(), self.queue.len())
    }
}

#[cfg(test)]
mod tests;
