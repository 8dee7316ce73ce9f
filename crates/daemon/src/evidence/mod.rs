//! Live evidence: what the host that uses a disk reports of its data, for the classifier of a served pool.
//!
//! Where a disk's host is this machine, there are two sources. The *hint plane* is a set of kernel probes on the
//! block device above the export; they report each write before the server receives it (`hints`). The *file map*
//! knows which blocks belong to which file (`files`). Both are found, used and lost while the pool is served
//! (`source`); without them contents and behaviour alone decide. Where the map learns of a file only after its blocks
//! were written, their class is corrected: [`Evidence::next_correction`].

mod cgroups;
mod files;
mod find;
mod hints;
mod source;

use cgroups::Cgroups;
use files::Correction;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK_BYTES, ClassId, DiskId};
use forebay_prism::{ClassTable, Direction, FileHints, HostHints, Intent, Need, Prism};
use forebay_trace::Flags;
use forebay_volume::{HintPart, HintParts};
use hints::Hint;
use serde_json::Value;
use source::Source;
pub use source::Wanted;
use std::collections::HashMap;
use std::sync::Arc;

/// Most sources of a pool.
const SOURCES_MAX: usize = 16;
/// Most process names that are remembered.
const PROCESSES_MAX: usize = 4096;
/// Memory in bytes that a file, and a run of blocks, takes here and in the watch of the file system; rather too much
/// than too little.
const FILE_BYTES: u64 = 768;
const EXTENT_BYTES: u64 = 192;

/// All sources of evidence of a pool.
pub struct Evidence {
    sources: Vec<Source>,
    processes: HashMap<[u8; 16], Arc<str>>,
    cgroups: Cgroups,
    /// Memory for the files and extents of all sources, in bytes.
    memory_bytes: u64,
    /// Blocks that were reclassified, and reclassifications that failed.
    checked_blocks: u64,
    failed: u64,
}

/// The class of a block of this file where nothing else claims the block.
fn class_of(prism: &Prism, disk: DiskId, hints: &Arc<FileHints>) -> ClassId {
    let hints = HostHints { file: Some(hints.clone()), is_by_map: true, ..HostHints::default() };
    let intent = Intent {
        disk,
        disk_size_bytes: 0,
        offset_bytes: 0,
        direction: Direction::Write,
        len_bytes: BLOCK_BYTES,
        request_bytes: BLOCK_BYTES,
        rest_bytes: 0,
        data: &[],
        export: 0,
        tag: None,
        host: hints.facts(),
    };
    prism.reclass(&intent, prism.table().default_class())
}

/// Predicates in rules that no source can answer, as pairs of class and predicate. `hints` and `files` say whether
/// kernel hints and the map of files are available.
pub fn unknown(table: &ClassTable, hints: bool, files: bool) -> Vec<(String, String)> {
    let is_known = |need: Need| match need {
        Need::Export | Need::Sequence | Need::Contents | Need::Metadata => true,
        Need::Meta | Need::Swap | Need::Direct | Need::Process | Need::Pid | Need::Cgroup => hints,
        Need::Lifetime => hints || files,
        Need::Path | Need::FileSize | Need::FileOffset | Need::SstLevel => files,
        Need::IoClass | Need::Never => false,
    };
    table.unknown(is_known)
}

impl Evidence {
    /// Without sources. The facts of files may take at most `memory_bytes`.
    pub fn new(memory_bytes: u64) -> Self {
        Self {
            sources: Vec::new(),
            processes: HashMap::new(),
            cgroups: Cgroups::default(),
            memory_bytes,
            checked_blocks: 0,
            failed: 0,
        }
    }

    /// Begins to look for a source of evidence of a disk.
    ///
    /// # Errors
    /// There are too many sources, or this one is attached already.
    pub fn attach(&mut self, wanted: Wanted, disk: DiskId, disk_size_bytes: u64) -> Result<(), String> {
        if self.sources.iter().any(|source| source.wanted == wanted) {
            return Err(format!("this evidence for disk {:?} is attached already", wanted.disk));
        }
        if self.sources.len() >= SOURCES_MAX {
            return Err(format!("there are {SOURCES_MAX} sources of evidence already: detach one"));
        }
        // Half of the remaining memory: most pools have one source, and further ones still get a part.
        let used: u64 = self.sources.iter().map(|source| source.memory_bytes).sum();
        let memory_bytes = if wanted.files { self.memory_bytes.saturating_sub(used) / 2 } else { 0 };
        let limits = ((memory_bytes / 2 / FILE_BYTES) as usize, (memory_bytes / 2 / EXTENT_BYTES) as usize);
        self.sources.push(Source::new(wanted, (disk, disk_size_bytes), memory_bytes, limits));
        Ok(())
    }

    /// Ends all sources of a disk and returns how many there were.
    pub fn detach(&mut self, disk: DiskId) -> usize {
        let (gone, kept) =
            std::mem::take(&mut self.sources).into_iter().partition(|source: &Source| source.disk == disk);
        self.sources = kept;
        gone.into_iter().map(Source::end).count()
    }

    /// What the sources of a disk look for.
    pub fn wanted(&self, disk: DiskId) -> Vec<&Wanted> {
        self.sources.iter().filter(|source| source.disk == disk).map(|source| &source.wanted).collect()
    }

    /// Ends one source of a disk. Returns whether it existed.
    pub fn detach_one(&mut self, wanted: &Wanted) -> bool {
        let at = self.sources.iter().position(|source| source.wanted == *wanted);
        at.map(|at| self.sources.swap_remove(at).end()).is_some()
    }

    /// What was lost since the last call, as pairs of kind and explanation.
    pub fn take_losses(&mut self) -> Vec<(String, String)> {
        self.sources.iter_mut().flat_map(|source| std::mem::take(&mut source.losses)).collect()
    }

    /// Passes on the new size of a disk.
    pub fn resized(&mut self, disk: DiskId, disk_size_bytes: u64) {
        let sources = self.sources.iter_mut().filter(|source| source.disk == disk);
        sources.for_each(|source| source.resized(disk_size_bytes));
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether kernel hints, and a map of files, are available now for any disk.
    fn tells(&self) -> (bool, bool) {
        let all = self.sources.iter().map(Source::tells);
        all.fold((false, false), |(hints, files), (more_hints, more_files)| (hints || more_hints, files || more_files))
    }

    /// Predicates in rules that no source can answer now, as pairs of class and predicate.
    pub fn unknown(&self, table: &ClassTable) -> Vec<(String, String)> {
        let (hints, files) = self.tells();
        unknown(table, hints, files)
    }

    /// The evidence of a received write, by part of its range; `None` where the disk has no source. The kernel's ring
    /// is drained first: it already holds the hints of all writes that were issued before this one was sent.
    pub fn hints(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) -> Option<Box<HintParts>> {
        if !self.sources.iter().any(|source| source.disk == disk) {
            return None;
        }
        self.sources.iter_mut().filter(|source| source.disk == disk).for_each(Source::drain);
        let begin = offset_bytes / BLOCK_BYTES;
        let end = (offset_bytes + len_bytes).div_ceil(BLOCK_BYTES);
        // One allocation per write: the parts travel with the request to the classifier.
        let mut parts = Box::new(HintParts::new());
        let mut at = begin;
        while at < end {
            let (until, hints) = self.hints_at(disk, at, end);
            parts.push(HintPart { blocks: until - at, hints });
            at = until;
        }
        Some(parts)
    }

    fn hints_at(&mut self, disk: DiskId, at: u64, end: u64) -> (u64, HostHints) {
        let mut until = end;
        let mut found: Option<Hint> = None;
        for source in self.sources.iter().filter(|source| source.disk == disk) {
            let (to, hint) = source.hints.at(at, until);
            until = to;
            if let Some(hint) = hint {
                found = Some(hint);
                break;
            }
        }
        let mut hints = found.map_or_else(HostHints::default, |hint| self.by_hint(disk, &hint));
        // Where the kernel does not report the file of the data, the map may know it.
        let may_map =
            found.is_none_or(|hint| hint.inode == 0 && !hint.flags.has(Flags::META) && !hint.flags.has(Flags::SWAP));
        let mut mapped = false;
        for source in self.sources.iter().filter(|source| source.disk == disk) {
            let (to, file) = source.files.at(at, until);
            match (file, &hints.file) {
                // The map adds the offset in the file, if it holds the same file that the kernel names.
                (Some((file, offset)), Some(known)) if Arc::ptr_eq(file, known) => {
                    (hints.file_offset_bytes, until) = (offset, to);
                }
                (Some((file, offset)), None) if may_map => {
                    (hints.file_offset_bytes, until, mapped) = (offset, to, true);
                    (hints.file, hints.is_by_map) = (Some(file.clone()), true);
                }
                (None, known) if may_map || known.is_some() => until = to,
                _ => {}
            }
        }
        let key = found.filter(|_| !may_map).map(|hint| (hint.inode, hint.generation));
        for source in self.sources.iter_mut().filter(|source| source.disk == disk) {
            source.hints.remove(at, until);
            source.files.arrived(at, until, key, hints.file.is_some());
        }
        let kind = if found.is_some() { 0 } else { 2 - usize::from(mapped) };
        if let Some(source) = self.sources.iter_mut().find(|source| source.disk == disk)
            && let Some(written) = source.written.get_mut(kind)
        {
            *written += until - at;
        }
        (until, hints)
    }

    fn by_hint(&mut self, disk: DiskId, hint: &Hint) -> HostHints {
        let is_set = |flag: Flags| Some(hint.flags.has(flag));
        let file = (hint.inode != 0)
            .then(|| {
                let sources = self.sources.iter().filter(|source| source.disk == disk);
                let mut same = sources.filter(|source| source.file_system == Some(hint.file_system));
                same.find_map(|source| source.files.file((hint.inode, hint.generation)).cloned())
            })
            .flatten();
        HostHints {
            lifetime: Some(hint.lifetime),
            meta: is_set(Flags::META),
            swap: is_set(Flags::SWAP),
            direct: is_set(Flags::DIRECT),
            file,
            file_offset_bytes: None,
            is_by_map: false,
            process: Some(self.process(hint.comm)),
            pid: Some(hint.pid),
            cgroup: self.cgroups.path(hint.cgroup),
            io_class: None,
        }
    }

    fn process(&mut self, comm: [u8; 16]) -> Arc<str> {
        if let Some(name) = self.processes.get(&comm) {
            return name.clone();
        }
        let name: Arc<str> = forebay_trace::capture::process_name(&comm).into();
        if self.processes.len() < PROCESSES_MAX {
            self.processes.insert(comm, name.clone());
        }
        name
    }

    /// Continues the search for sources, applies changes of files, and drains the rings so that they do not fill
    /// while no writes come.
    pub fn tick(&mut self, prism: &Prism) {
        self.cgroups.tick();
        for source in &mut self.sources {
            source.drain();
            let disk = source.disk;
            source.tick(|hints| class_of(prism, disk, hints));
        }
    }

    /// The next run to reclassify by the facts of its file, with its disk.
    pub fn next_correction(&mut self) -> Option<(DiskId, Correction)> {
        self.sources.iter_mut().find_map(|source| Some((source.disk, source.files.next_correction()?)))
    }

    /// Counts a finished correction; `is_done` is false where it failed.
    pub fn corrected(&mut self, blocks: u64, is_done: bool) {
        self.checked_blocks += if is_done { blocks } else { 0 };
        self.failed += u64::from(!is_done);
    }

    /// The rules have changed: the known files are checked against them again.
    pub fn reconsider(&mut self, prism: &Prism) {
        for source in &mut self.sources {
            let disk = source.disk;
            source.files.reconsider(|hints| class_of(prism, disk, hints));
        }
    }

    /// State of the sources and their counters, as JSON for the status.
    pub fn describe(&self) -> Value {
        serde_json::json!({
            "sources": self.sources.iter().map(Source::describe).collect::<Vec<_>>(),
            "checked_bytes": self.checked_blocks * BLOCK_BYTES,
            "checks_failed": self.failed,
        })
    }
}

#[cfg(test)]
mod tests;
