//! Live evidence: what the host that uses a disk says of its data, for the classifier of a served pool.
//!
//! Two sources for each disk, as far as its host is this machine: the *hint plane*, probes on the block device above the
//! export that tell of each write before it arrives (`hints`), and the *file map*, which blocks belong to which file
//! (`files`). Both are looked for, used and lost while the pool is served (`source`); without them contents and behaviour
//! decide. What the map learns only after blocks were written is corrected: [`Evidence::next_correction`].

mod cgroups;
mod files;
mod find;
mod hints;
mod source;

use cgroups::Cgroups;
use files::Correction;
use forebay_block::{ClassId, DiskId};
use forebay_prism::{ClassTable, Direction, FileHints, HostHints, Intent, Need, Prism};
use forebay_trace::Flags;
use forebay_volume::{HintPart, HintParts};
use hints::Hint;
use serde_json::Value;
use source::Source;
pub use source::Wanted;
use std::collections::HashMap;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;
/// Most sources.
const SOURCES_MAX: usize = 16;
/// Names of processes that are remembered.
const PROCESSES_MAX: usize = 4096;
/// Bytes of memory that a file, and a run of blocks, take here and in the watch of the file system, by a generous count.
const FILE_BYTES: u64 = 768;
const EXTENT_BYTES: u64 = 192;

/// All sources of a pool.
pub struct Evidence {
    sources: Vec<Source>,
    processes: HashMap<[u8; 16], Arc<str>>,
    cgroups: Cgroups,
    /// Memory for files and extents of all sources, in bytes.
    memory_bytes: u64,
    /// Blocks whose class was looked at again, and requests for that which failed.
    checked_blocks: u64,
    failed: u64,
}

/// The class that a block of this file gets where nothing else claims it.
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

/// Predicates of the rules that nothing tells where there are hints of the kernel, or a map of files, or neither: class and
/// predicate.
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
    /// Without sources; what is remembered of files takes at most so many bytes.
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

    /// Begins to look for a source of a disk.
    ///
    /// # Errors
    /// Too many of them, or this one is there already.
    pub fn attach(&mut self, wanted: Wanted, disk: DiskId, disk_size_bytes: u64) -> Result<(), String> {
        if self.sources.iter().any(|source| source.wanted == wanted) {
            return Err(format!("this evidence for disk {:?} is attached already", wanted.disk));
        }
        if self.sources.len() >= SOURCES_MAX {
            return Err(format!("there are {SOURCES_MAX} sources of evidence already: detach one"));
        }
        // Half of what is left: mostly there is one source, and never is it too much.
        let used: u64 = self.sources.iter().map(|source| source.memory_bytes).sum();
        let memory_bytes = if wanted.files { self.memory_bytes.saturating_sub(used) / 2 } else { 0 };
        let limits = ((memory_bytes / 2 / FILE_BYTES) as usize, (memory_bytes / 2 / EXTENT_BYTES) as usize);
        self.sources.push(Source::new(wanted, (disk, disk_size_bytes), memory_bytes, limits));
        Ok(())
    }

    /// Ends all sources of a disk; how many there were.
    pub fn detach(&mut self, disk: DiskId) -> usize {
        let (gone, kept) =
            std::mem::take(&mut self.sources).into_iter().partition(|source: &Source| source.disk == disk);
        self.sources = kept;
        gone.into_iter().map(Source::end).count()
    }

    /// The sources of a disk.
    pub fn wanted(&self, disk: DiskId) -> Vec<&Wanted> {
        self.sources.iter().filter(|source| source.disk == disk).map(|source| &source.wanted).collect()
    }

    /// Ends one source of a disk; whether it was there.
    pub fn detach_one(&mut self, wanted: &Wanted) -> bool {
        let at = self.sources.iter().position(|source| source.wanted == *wanted);
        at.map(|at| self.sources.swap_remove(at).end()).is_some()
    }

    /// What was lost since this was last called: what it was, and a sentence on it.
    pub fn take_losses(&mut self) -> Vec<(String, String)> {
        self.sources.iter_mut().flat_map(|source| std::mem::take(&mut source.losses)).collect()
    }

    /// A disk has another size now.
    pub fn resized(&mut self, disk: DiskId, disk_size_bytes: u64) {
        let sources = self.sources.iter_mut().filter(|source| source.disk == disk);
        sources.for_each(|source| source.resized(disk_size_bytes));
    }

    /// Whether there is nothing to ask.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether the kernel tells of writes now, and whether files are known, of any disk.
    fn tells(&self) -> (bool, bool) {
        let all = self.sources.iter().map(Source::tells);
        all.fold((false, false), |(hints, files), (more_hints, more_files)| (hints || more_hints, files || more_files))
    }

    /// Predicates of the rules that nothing tells now: class and predicate.
    pub fn unknown(&self, table: &ClassTable) -> Vec<(String, String)> {
        let (hints, files) = self.tells();
        unknown(table, hints, files)
    }

    /// What is known of a write that has come, part by part. The ring of the kernel is drained first: what was issued before
    /// the write was sent is in it.
    pub fn hints(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) -> Option<Box<HintParts>> {
        if !self.sources.iter().any(|source| source.disk == disk) {
            return None;
        }
        self.sources.iter_mut().filter(|source| source.disk == disk).for_each(Source::drain);
        let begin = offset_bytes / BLOCK_BYTES;
        let end = (offset_bytes + len_bytes).div_ceil(BLOCK_BYTES);
        // One allocation a write: the facts travel with the request to where it is classified.
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
        // Of data whose file the kernel does not tell, the map may.
        let may_map =
            found.is_none_or(|hint| hint.inode == 0 && !hint.flags.has(Flags::META) && !hint.flags.has(Flags::SWAP));
        let mut mapped = false;
        for source in self.sources.iter().filter(|source| source.disk == disk) {
            let (to, file) = source.files.at(at, until);
            match (file, &hints.file) {
                // The map tells where in the file it is, if it is the file that the kernel names.
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

    /// Goes on looking for sources, takes what files have changed, and keeps the rings from filling while nobody writes.
    pub fn tick(&mut self, prism: &Prism) {
        self.cgroups.tick();
        for source in &mut self.sources {
            source.drain();
            let disk = source.disk;
            source.tick(|hints| class_of(prism, disk, hints));
        }
    }

    /// Blocks that are to get the class of their file, and whose that is.
    pub fn next_correction(&mut self) -> Option<(DiskId, Correction)> {
        self.sources.iter_mut().find_map(|source| Some((source.disk, source.files.next_correction()?)))
    }

    /// A correction has been made, or refused.
    pub fn corrected(&mut self, blocks: u64, is_done: bool) {
        self.checked_blocks += if is_done { blocks } else { 0 };
        self.failed += u64::from(!is_done);
    }

    /// Rules have changed: all that is known of files is held against them again.
    pub fn reconsider(&mut self, prism: &Prism) {
        for source in &mut self.sources {
            let disk = source.disk;
            source.files.reconsider(|hints| class_of(prism, disk, hints));
        }
    }

    /// What the sources do and know.
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
