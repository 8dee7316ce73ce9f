//! Which blocks of a disk belong to which file, and which of them have a class that was given without knowing that.

use forebay_block::ClassId;
use forebay_prism::FileTold;
use forebay_trace::files::{Change, Extent};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;
/// Most blocks of one correction: a few leaves of the map, so that hosts are served in between.
const CORRECTION_BLOCKS: u64 = 1600;

/// A file: inode and generation.
pub type Key = (u64, u32);

/// A run of blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    end: u64,
    file_offset_bytes: u64,
    /// Blocks from here on may have a class that was given without knowing the file.
    corrected_to: u64,
}

struct File {
    told: Arc<FileTold>,
    /// In the order of the disk.
    spans: Vec<Span>,
    /// Class that the file's blocks would get if nothing else claimed them: where that stays, so do theirs.
    class: ClassId,
    is_queued: bool,
    /// No span before this one waits for a correction.
    next_span: usize,
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
    pub file_offset_bytes: u64,
}

/// The files of one disk.
#[derive(Default)]
pub struct Files {
    files: HashMap<Key, File>,
    /// First block to end and file.
    blocks: BTreeMap<u64, (u64, Key)>,
    /// Files with spans to correct.
    queue: VecDeque<Key>,
}

impl Files {
    /// A file is there, has changed, or has gone. `class` gives the class of a block that nothing else claims.
    pub fn take(&mut self, change: Change, class: impl Fn(&Arc<FileTold>) -> ClassId) {
        let (facts, extents) = match change {
            Change::Gone { inode, generation } => return self.forget((inode, generation)),
            Change::File { facts, extents } => (facts, extents),
        };
        let key = (facts.inode, facts.generation);
        let told = Arc::new(FileTold {
            path: facts.path,
            size_bytes: facts.size_bytes,
            lifetime: facts.lifetime,
            sst_level: facts.level,
        });
        let class = class(&told);
        let file = self.files.entry(key).or_insert_with(|| File {
            told: told.clone(),
            spans: Vec::new(),
            class,
            is_queued: false,
            next_span: 0,
        });
        file.told = told;
        if file.class != class {
            file.class = class;
            file.spans.iter_mut().for_each(|span| span.corrected_to = span.first);
        }
        if let Some(extents) = extents {
            self.lay_out(key, &extents);
        }
        self.enqueue(key);
    }

    /// Replaces the spans of a file; blocks that it had before and that were corrected are not corrected again.
    fn lay_out(&mut self, key: Key, extents: &[Extent]) {
        let before = self.files.get_mut(&key).map(|file| std::mem::take(&mut file.spans)).unwrap_or_default();
        for span in &before {
            self.unmap(span.first, span.end, Some(key));
        }
        let mut spans = Vec::with_capacity(extents.len());
        for extent in extents {
            // Whole blocks only: part of a block may be another file's.
            let first = extent.disk_offset_bytes.div_ceil(BLOCK_BYTES);
            let end = extent.disk_offset_bytes.saturating_add(extent.len_bytes) / BLOCK_BYTES;
            if first >= end {
                continue;
            }
            let skipped = first * BLOCK_BYTES - extent.disk_offset_bytes;
            let same = before.binary_search_by_key(&first, |span| span.first).ok().and_then(|at| before.get(at));
            let corrected_to = same.map_or(first, |span| span.corrected_to.min(end));
            let file_offset_bytes = extent.file_offset_bytes.saturating_add(skipped);
            spans.push(Span { first, end, file_offset_bytes, corrected_to });
            self.unmap(first, end, None);
            self.blocks.insert(first, (end, key));
        }
        spans.sort_unstable_by_key(|span| span.first);
        if let Some(file) = self.files.get_mut(&key) {
            file.spans = spans;
        }
    }

    /// Takes a range out of the blocks: of one file, or of whoever had it. The map lags behind: a block that another file has
    /// now was given up by the one that had it.
    fn unmap(&mut self, first: u64, end: u64, of: Option<Key>) {
        let is_meant = |key: Key| of.is_none_or(|of| of == key);
        if let Some((_, (before_end, key))) = self.blocks.range_mut(..first).next_back()
            && *before_end > first
            && is_meant(*key)
        {
            let (old_end, key) = (*before_end, *key);
            *before_end = first;
            if old_end > end {
                self.blocks.insert(end, (old_end, key));
            }
        }
        let found: Vec<u64> =
            self.blocks.range(first..end).filter(|(_, (_, key))| is_meant(*key)).map(|(&at, _)| at).collect();
        for at in found {
            if let Some((old_end, key)) = self.blocks.remove(&at)
                && old_end > end
            {
                self.blocks.insert(end, (old_end, key));
            }
        }
    }

    fn forget(&mut self, key: Key) {
        let Some(file) = self.files.remove(&key) else { return };
        for span in file.spans {
            self.unmap(span.first, span.end, Some(key));
        }
    }

    fn enqueue(&mut self, key: Key) {
        if let Some(file) = self.files.get_mut(&key) {
            file.next_span = 0;
        }
        if let Some(file) = self.files.get_mut(&key)
            && !file.is_queued
            && file.spans.iter().any(|span| span.corrected_to < span.end)
        {
            file.is_queued = true;
            self.queue.push_back(key);
        }
    }

    /// The file of block `at`, where in it the block lies, and how far that goes, at most to `end`.
    pub fn at(&self, at: u64, end: u64) -> (u64, Option<(&Arc<FileTold>, u64)>) {
        if let Some((&first, &(until, key))) = self.blocks.range(..=at).next_back()
            && until > at
            && let Some(file) = self.files.get(&key)
        {
            // The span may begin before what is left of it.
            let span = file.spans[..file.spans.partition_point(|span| span.first <= first)].last();
            let offset = span.map_or(0, |span| span.file_offset_bytes + (at - span.first) * BLOCK_BYTES);
            return (until.min(end), Some((&file.told, offset)));
        }
        (self.blocks.range(at..end).next().map_or(end, |(&first, _)| first), None)
    }

    /// What is known of a file.
    pub fn file(&self, key: Key) -> Option<&Arc<FileTold>> {
        self.files.get(&key).map(|file| &file.told)
    }

    /// The next blocks to be corrected.
    pub fn next_correction(&mut self) -> Option<Correction> {
        while let Some(&key) = self.queue.front() {
            if let Some(file) = self.files.get_mut(&key) {
                // The next one from where the last was found: a file may have very many.
                let begin = file.next_span.min(file.spans.len());
                let found = file.spans[begin..].iter().position(|span| span.corrected_to < span.end);
                file.next_span = found.map_or(file.spans.len(), |ahead| begin + ahead);
                if let Some(span) = file.spans.get_mut(file.next_span) {
                    let first = span.corrected_to;
                    let blocks = (span.end - first).min(CORRECTION_BLOCKS);
                    span.corrected_to = first + blocks;
                    let file_offset_bytes = span.file_offset_bytes + (first - span.first) * BLOCK_BYTES;
                    return Some(Correction { first, blocks, file: file.told.clone(), file_offset_bytes });
                }
                file.is_queued = false;
            }
            self.queue.pop_front();
        }
        None
    }

    /// Rules have changed: every block is looked at again.
    pub fn reconsider(&mut self, class: impl Fn(&Arc<FileTold>) -> ClassId) {
        let keys: Vec<Key> = self.files.keys().copied().collect();
        for key in keys {
            if let Some(file) = self.files.get_mut(&key) {
                file.class = class(&file.told);
                file.spans.iter_mut().for_each(|span| span.corrected_to = span.first);
            }
            self.enqueue(key);
        }
    }

    /// Files known, runs of blocks known, files that wait for a correction.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.files.len(), self.blocks.len(), self.queue.len())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use forebay_trace::files::FileFacts;
    use proptest::prelude::*;

    fn change(inode: u64, path: &str, spans: &[(u64, u64)]) -> Change {
        let mut at = 0;
        let extents = spans.iter().map(|&(first, blocks)| {
            let extent =
                Extent { disk_offset_bytes: first * 4096, file_offset_bytes: at * 4096, len_bytes: blocks * 4096 };
            at += blocks;
            extent
        });
        let extents = Some(extents.collect());
        Change::File { facts: facts(inode, path), extents }
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
        let mut files = Files::default();
        files.take(change(1, "/a", &[(10, 5), (100, 5)]), class);
        assert_eq!(corrections(&mut files), [(10, 5, "/a".to_owned()), (100, 5, "/a".to_owned())]);
        files.take(change(1, "/a", &[(10, 8), (100, 5)]), class);
        assert_eq!(corrections(&mut files), [(15, 3, "/a".to_owned())], "it has grown");
        files.take(change(1, "/b", &[(10, 8), (100, 5)]), class);
        assert_eq!(corrections(&mut files), [], "another name, the same class");
        files.take(change(1, "/log", &[(10, 8), (100, 5)]), class);
        assert_eq!(corrections(&mut files), [(10, 8, "/log".to_owned()), (100, 5, "/log".to_owned())]);
        files.reconsider(class);
        assert_eq!(corrections(&mut files).len(), 2);
    }

    #[test]
    fn large_files_are_corrected_in_parts() {
        let mut files = Files::default();
        files.take(change(1, "/a", &[(0, 4000)]), class);
        let parts = std::iter::from_fn(|| files.next_correction());
        let parts: Vec<_> = parts.map(|part| (part.first, part.blocks, part.file_offset_bytes)).collect();
        assert_eq!(parts, [(0, 1600, 0), (1600, 1600, 1600 * 4096), (3200, 800, 3200 * 4096)]);
    }

    #[test]
    fn parts_of_blocks_are_nobodys() {
        let mut files = Files::default();
        let extent = Extent { disk_offset_bytes: 4096 + 512, file_offset_bytes: 0, len_bytes: 3 * 4096 };
        files.take(Change::File { facts: facts(1, "/x"), extents: Some(vec![extent]) }, class);
        assert_eq!(files.at(0, 10), (2, None));
        let (until, found) = files.at(2, 10);
        assert_eq!((until, found.map(|(_, offset)| offset)), (4, Some(4096 - 512)));
    }

    proptest! {
        #[test]
        fn spans_are_as_if_each_block_had_its_own(
            steps in prop::collection::vec(
                (1u64..6, prop::option::of(prop::collection::vec((0u64..60, 1u64..12), 0..4))), 1..80)
        ) {
            let mut files = Files::default();
            let mut model: [Option<u64>; 80] = [None; 80];
            for (inode, spans) in steps {
                model.iter_mut().filter(|block| **block == Some(inode)).for_each(|block| *block = None);
                match spans {
                    Some(spans) => {
                        for &(first, blocks) in &spans {
                            model[first as usize..(first + blocks) as usize].fill(Some(inode));
                        }
                        files.take(change(inode, &format!("/{inode}"), &spans), class);
                    }
                    None => files.take(Change::Gone { inode, generation: 0 }, class),
                }
                let mut at = 0;
                while at < 80 {
                    let (until, found) = files.at(at, 80);
                    prop_assert!(until > at && until <= 80);
                    let found = found.map(|(told, _)| format!("/{}", told.path.trim_start_matches('/')));
                    for block in &model[at as usize..until as usize] {
                        prop_assert_eq!(&block.map(|inode| format!("/{inode}")), &found);
                    }
                    at = until;
                }
            }
        }
    }
}
