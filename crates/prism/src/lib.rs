//! The PRISM: determines which data is temporary, metadata, log or hot, and keeps the statistics for each class.
//!
//! The class comes from the first of these that decides: the tag of the export, the operator's rules ([`rules`]), the
//! host's hints ([`HostFacts`]), contents that identify themselves ([`evidence`]), behaviour, the default class.
//! Deterministic: no clock, no randomness; memory is bounded.

#![forbid(unsafe_code)]

pub mod accounting;
mod behaviour;
mod bytes;
pub mod class;
mod compress;
mod direction;
pub mod evidence;
mod host;
mod lifetime;
pub mod opencas;
pub mod rules;

use behaviour::{Guess, Overwrites, REGION_BLOCKS, Streams, Write};
use evidence::{Evidence, Judging, KnownSystem, Learned, Role};
use forebay_block::{BLOCK_BYTES, ClassId, DiskId};
use std::collections::BTreeMap;

pub use accounting::ClassStats;
pub use class::{BuiltIn, ClassChange, ClassError, ClassSpec, ClassTable, Place};
pub use compress::{Compress, CompressError, ZSTD_LEVELS};
pub use direction::Direction;
pub use host::{FileHints, HostFacts, HostHints};
pub use lifetime::Lifetime;
pub use rules::{Facts, Need, Rule, RuleError};

/// The known facts about a host request when it is classified.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// The disk.
    pub disk: DiskId,
    /// Size of that disk in bytes.
    pub disk_size_bytes: u64,
    /// Byte offset on the disk; a multiple of 4096.
    pub offset_bytes: u64,
    /// Read or write.
    pub direction: Direction,
    /// Length in bytes; a whole number of 4 KiB blocks.
    pub len_bytes: u64,
    /// Length in bytes of the host's request, of which this is all or a part.
    pub request_bytes: u64,
    /// Bytes of that request after this part.
    pub rest_bytes: u64,
    /// Data written, or data read and verified; empty if the contents are not known, as in a trace.
    pub data: &'a [u8],
    /// Index of the export through which the request came.
    pub export: u16,
    /// Class with which the export tags its writes; `None` without a tag.
    pub tag: Option<ClassId>,
    /// The host's facts about it.
    pub host: HostFacts<'a>,
}

/// A run of blocks of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length in 4 KiB blocks, at least 1.
    pub blocks: u32,
    /// Class of these blocks.
    pub class: ClassId,
}

/// The classifier: deterministic, no clock, bounded memory (about 200 KiB for behaviour and at most a few MiB of
/// learned file systems).
pub struct Prism {
    table: ClassTable,
    disks: BTreeMap<DiskId, String>,
    exports: BTreeMap<u16, String>,
    learned: Learned,
    streams: Streams,
    overwrites: Overwrites,
    verdicts: Vec<Option<Evidence>>,
}

impl Prism {
    /// A classifier that uses `table`.
    #[must_use]
    pub fn new(table: ClassTable) -> Self {
        Self {
            table,
            disks: BTreeMap::new(),
            exports: BTreeMap::new(),
            learned: Learned::default(),
            streams: Streams::default(),
            overwrites: Overwrites::default(),
            verdicts: Vec::new(),
        }
    }

    /// The class table.
    #[must_use]
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    /// The class table, for changes of a policy while the pool is served.
    pub fn table_mut(&mut self) -> &mut ClassTable {
        &mut self.table
    }

    /// Sets the names of disks for `disk:` predicates; replaces earlier names.
    pub fn set_disks(&mut self, names: &[(DiskId, String)]) {
        self.disks = names.iter().cloned().collect();
    }

    /// Sets the names of exports by index for `export:` predicates; replaces earlier names.
    pub fn set_exports(&mut self, names: &[(u16, String)]) {
        self.exports = names.iter().cloned().collect();
    }

    /// The file systems recognised so far, in order of disk and address.
    #[must_use]
    pub fn known_systems(&self) -> Vec<KnownSystem> {
        self.learned.systems()
    }

    /// Splits a write into runs of one class each, appended to `runs` (which the caller has cleared). The runs cover
    /// the data exactly; neighbouring runs differ in class.
    ///
    /// Call this once for each write, because behaviour counts writes: a caller that must wait for space keeps the
    /// runs. `sequential` in rules means the run up to the end of the request of which `intent` is a part.
    pub fn classify(&mut self, intent: &Intent<'_>, runs: &mut Vec<Run>) {
        let len_bytes = intent.len_bytes;
        let blocks = len_bytes / BLOCK_BYTES as u64;
        self.verdicts.clear();
        let judging = if intent.tag.is_none() { Judging::Always } else { Judging::WhileItTeaches };
        self.learned.inspect(
            intent.disk,
            intent.disk_size_bytes,
            intent.offset_bytes,
            intent.data,
            judging,
            &mut self.verdicts,
        );
        let sequential_bytes = match intent.direction {
            Direction::Write => self.streams.note(intent.disk, intent.offset_bytes, len_bytes),
            Direction::Read => 0,
        };
        if let Some(tag) = intent.tag {
            append(runs, blocks, tag);
            return;
        }
        let with_rules = !self.table.rules().is_empty();
        let (disk_name, export_name) = if with_rules {
            (
                self.disks.get(&intent.disk).map_or("", String::as_str),
                self.exports.get(&intent.export).map_or("", String::as_str),
            )
        } else {
            ("", "")
        };
        let mut claims = Claims {
            table: &self.table,
            verdicts: &self.verdicts,
            facts: Facts {
                disk_name,
                export: Some(intent.export),
                export_name,
                direction: intent.direction,
                request_size_bytes: Some(intent.request_bytes),
                sequential_bytes: Some(sequential_bytes.saturating_add(intent.rest_bytes)),
                offset_bytes: intent.offset_bytes,
                evidence: None,
                contents_known: !intent.data.is_empty(),
                host: intent.host,
            },
            with_rules,
            by_address: self.table.rules_use_address(),
            last: None,
        };
        let first_block = intent.offset_bytes / BLOCK_BYTES as u64;
        let default = self.table.default_class();
        let built_in = self.table.built_in();
        let mut at = 0;
        while at < blocks {
            if let Some(class) = claims.claim(at) {
                append(runs, 1, class);
                at += 1;
                continue;
            }
            // The part of the region that only behaviour can classify.
            let start = at;
            let region_end = (REGION_BLOCKS - (first_block + start) % REGION_BLOCKS + start).min(blocks);
            at += 1;
            while at < region_end && claims.claim(at).is_none() {
                at += 1;
            }
            let guess = match intent.direction {
                Direction::Write => self.overwrites.write(Write {
                    disk: intent.disk,
                    first_block: first_block + start,
                    blocks: at - start,
                    request_bytes: intent.request_bytes,
                }),
                Direction::Read => Guess::Nothing,
            };
            let class = class_of(guess, intent.host.lifetime, built_in, default);
            append(runs, at - start, class);
        }
    }

    /// Splits a write like [`classify`](Self::classify) if only its address is known and no rule needs more, as for a
    /// trace with a table without rules. In blocks of 4 KiB.
    pub fn classify_by_behaviour(
        &mut self,
        disk: DiskId,
        first_block: u64,
        blocks: u64,
        request_bytes: u64,
        runs: &mut Vec<Run>,
    ) {
        debug_assert!(self.table.rules().is_empty(), "a rule may know better");
        let (built_in, default) = (self.table.built_in(), self.table.default_class());
        let (mut at, end) = (first_block, first_block.saturating_add(blocks));
        while at < end {
            let next = (at / REGION_BLOCKS + 1).saturating_mul(REGION_BLOCKS).min(end);
            let guess = self.overwrites.write(Write { disk, first_block: at, blocks: next - at, request_bytes });
            append(runs, next - at, class_of(guess, None, built_in, default));
            at = next;
        }
    }

    /// Learns from a read of which only the address is known, in blocks of 4 KiB.
    pub fn observe_place_read(&mut self, disk: DiskId, first_block: u64, blocks: u64) {
        self.overwrites.read(disk, first_block, blocks);
    }

    /// Reads a part of the behaviour table's entry for a block; the value has no meaning. A caller that does this for
    /// several blocks at once waits for memory only once.
    #[must_use]
    pub fn look(&self, disk: DiskId, block: u64) -> u64 {
        self.overwrites.look(disk, block)
    }

    /// The class of a block written as `class`, now that more of the host's facts about it are known: that of a rule,
    /// or that of its lifetime hint if nothing else had claimed the block. If one of the operator's own classes
    /// claimed it by facts that are no longer true, the block gets the default class; if this cannot be determined (which
    /// process wrote it, how large the request was), the class stays. Contents and behaviour were examined when the
    /// block was written.
    ///
    /// Uses only these parts of `intent`: the address (of the block), the disk, the tag and the host's facts.
    #[must_use]
    pub fn reclass(&self, intent: &Intent<'_>, class: ClassId) -> ClassId {
        if let Some(tag) = intent.tag {
            return tag;
        }
        let (default, built_in) = (self.table.default_class(), self.table.built_in());
        if class == built_in.metadata && intent.host.is_by_map {
            // Contents or the kernel decided this, and the map of files lags behind.
            return class;
        }
        let facts = Facts {
            disk_name: self.disks.get(&intent.disk).map_or("", String::as_str),
            export: None,
            export_name: "",
            direction: Direction::Write,
            request_size_bytes: None,
            sequential_bytes: None,
            offset_bytes: intent.offset_bytes,
            // The block belongs to a file, so that it is not a structure of the file system.
            evidence: self.learned.data_at(intent.disk, intent.offset_bytes),
            contents_known: true,
            host: intent.host,
        };
        for (claiming, rule) in self.table.rules() {
            match rule.holds(&facts) {
                Some(true) => return *claiming,
                // This rule may be the one that has claimed the block.
                None if *claiming == class => return class,
                _ => {}
            }
        }
        let dies_soon = matches!(intent.host.lifetime, Some(Lifetime::Short | Lifetime::Medium));
        match class {
            class if class == default && dies_soon => built_in.temp,
            class if !self.table.is_built_in(class) && self.table.takes_host_facts(class) => default,
            class => class,
        }
    }

    /// Whether [`Prism::reclass`] may return different classes for blocks of one class and one file.
    #[must_use]
    pub fn reclass_uses_place(&self) -> bool {
        self.table.rules_use_place()
    }

    /// Learns from a verified read (file-system geometry, re-read heat).
    pub fn observe_read(&mut self, intent: &Intent<'_>) {
        self.verdicts.clear();
        self.learned.inspect(
            intent.disk,
            intent.disk_size_bytes,
            intent.offset_bytes,
            intent.data,
            Judging::WhileItTeaches,
            &mut self.verdicts,
        );
        let block = BLOCK_BYTES as u64;
        self.overwrites.read(intent.disk, intent.offset_bytes / block, intent.len_bytes / block);
    }

    /// Forgets the facts about a discarded range (such as a file system that was wiped).
    pub fn observe_discard(&mut self, disk: DiskId, offset_bytes: u64, len_bytes: u64) {
        self.learned.discard(disk, offset_bytes, len_bytes);
        let block = BLOCK_BYTES as u64;
        self.overwrites.discard(disk, offset_bytes / block, len_bytes / block);
    }

    /// The learned facts, for the checkpoint: at most 64 KiB, with a version.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        self.learned.save()
    }

    /// Restores the facts that [`Prism::save`] returned. Unknown or damaged bytes are ignored: the facts can be
    /// learned again.
    pub fn restore(&mut self, bytes: &[u8]) {
        self.learned.restore(bytes);
    }
}

/// The class that claims a block by rule or by contents.
struct Claims<'a> {
    table: &'a ClassTable,
    verdicts: &'a [Option<Evidence>],
    facts: Facts<'a>,
    with_rules: bool,
    by_address: bool,
    /// The last answer, valid for every block with the same evidence unless a rule uses addresses.
    last: Option<(Option<Evidence>, Option<ClassId>)>,
}

impl Claims<'_> {
    fn claim(&mut self, block: u64) -> Option<ClassId> {
        let evidence = self.verdicts.get(block as usize).copied().flatten();
        if let Some((known, class)) = self.last
            && known == evidence
            && !self.by_address
        {
            return class;
        }
        let class =
            self.by_rule(evidence, block).or_else(|| self.by_hint(evidence)).or_else(|| self.by_contents(evidence));
        self.last = Some((evidence, class));
        class
    }

    fn by_rule(&self, evidence: Option<Evidence>, block: u64) -> Option<ClassId> {
        if !self.with_rules {
            return None;
        }
        let offset_bytes = self.facts.offset_bytes + block * BLOCK_BYTES as u64;
        let mut facts = Facts { offset_bytes, evidence, ..self.facts };
        if facts.host.is_by_map && evidence.is_some_and(|found| found.role != Role::Data) {
            // A file system's own structure is not part of a file: the map of files does not yet know that the file
            // gave the block up.
            facts.host = HostFacts::default();
        }
        self.table.rules().iter().find(|(_, rule)| rule.matches(&facts)).map(|(class, _)| *class)
    }

    /// The class that the kernel's marks determine; a lifetime alone leaves the class open.
    fn by_hint(&self, evidence: Option<Evidence>) -> Option<ClassId> {
        let host = &self.facts.host;
        match (host.meta, host.swap) {
            (_, Some(true)) => Some(self.table.built_in().temp),
            // File systems mark their logs as metadata too (XFS: xlog_write_iclog); contents identify these better.
            (Some(true), _) if evidence.is_some_and(|found| found.role == Role::Journal) => None,
            (Some(true), _) => Some(self.table.built_in().metadata),
            _ => None,
        }
    }

    fn by_contents(&self, evidence: Option<Evidence>) -> Option<ClassId> {
        match evidence?.role {
            Role::Superblock | Role::Metadata => Some(self.table.built_in().metadata),
            Role::Journal => Some(self.table.built_in().log),
            Role::Swap => Some(self.table.built_in().temp),
            Role::Data => None,
        }
    }
}

/// The class of data for which only behaviour and a lifetime hint are known.
fn class_of(guess: Guess, lifetime: Option<Lifetime>, built_in: BuiltIn, default: ClassId) -> ClassId {
    // A short life suggests a log or temporary data: behaviour decides which.
    let dies_soon = matches!(lifetime, Some(Lifetime::Short | Lifetime::Medium));
    match guess {
        Guess::Log => built_in.log,
        Guess::Temp => built_in.temp,
        _ if dies_soon => built_in.temp,
        _ if lifetime == Some(Lifetime::Extreme) => default,
        Guess::Hot => built_in.hot,
        Guess::Nothing => default,
    }
}

/// Appends blocks, joined to the last run if the class is the same.
fn append(runs: &mut Vec<Run>, blocks: u64, class: ClassId) {
    let Ok(blocks @ 1..) = u32::try_from(blocks) else {
        return;
    };
    match runs.last_mut() {
        Some(last) if last.class == class => last.blocks += blocks,
        _ => runs.push(Run { blocks, class }),
    }
}
