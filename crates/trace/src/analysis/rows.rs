//! Assigns requests to the rows of the table.

use crate::{Flags, Knows, Lifetime, Names, Op, Request};
use forebay_block::DiskId;
use forebay_prism::{ClassTable, Direction, Facts, Need, Prism, Rule, Run};
use std::collections::HashMap;

/// Most rows; beyond that, requests count for "others".
const ROWS_MAX: usize = 4096;
/// Number of the row without a known lifetime, beside those of lifetimes.
const NO_LIFETIME: u32 = Lifetime::Extreme as u32 + 1;
/// Most answers of rules that are cached.
const ANSWERS_MAX: usize = 1 << 16;

/// What rows stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// Classes by evidence, in order of authority: rules, the kernel's marks and hints, behaviour.
    #[default]
    Class,
    /// Write-lifetime hints and the kernel's marks.
    Hint,
    /// Directories of files.
    Directory,
    /// Extensions of file names.
    Extension,
    /// Processes.
    Process,
    /// I/O classes that the trace has.
    IoClass,
    /// Volumes.
    Volume,
    /// The levels of RocksDB's tree for which tables were written.
    Level,
}

impl By {
    /// All variants with their names.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Class, "class"),
        (Self::Hint, "hint"),
        (Self::Directory, "directory"),
        (Self::Extension, "extension"),
        (Self::Process, "process"),
        (Self::IoClass, "io-class"),
        (Self::Volume, "volume"),
        (Self::Level, "level"),
    ];
}

/// A part of a request that belongs to one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of its blocks.
    pub blocks: u64,
    /// Its row.
    pub row: u16,
    /// The row by behaviour alone; `None` if that was not asked for.
    pub behaviour: Option<u16>,
}

/// The properties by which rules distinguish requests; the key of cached answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Asked {
    volume: u32,
    path: u32,
    process: u32,
    pid: u32,
    flags: Flags,
    lifetime: Lifetime,
    io_class: u16,
    is_read: bool,
}

/// Assigns requests to rows.
pub struct Rows {
    by: By,
    rules: Vec<(u16, Rule)>,
    rules_use_request: bool,
    answers: HashMap<Asked, Option<u16>>,
    names: Vec<String>,
    /// Letter of each row by the class that it stands for, by row number.
    letters: Vec<Option<char>>,
    /// Facts that rules ask for and that no request has carried yet, with the predicates.
    unknown: Vec<(Need, String)>,
    numbers: HashMap<String, u16>,
    /// Rows by the number of a name, as far as they were asked for; the first [`ANSWERS_MAX`] only.
    known: Vec<Option<u16>>,
    /// Rows of the kernel's marks, once one occurred.
    swap: Option<u16>,
    metadata: Option<u16>,
    prism: Prism,
    /// Rows of behaviour's classes by class id.
    behaviour: Vec<u16>,
    runs: Vec<Run>,
}

impl Rows {
    /// Rows by `by`; `rules` come before, and the first match counts.
    pub fn new(by: By, rules: &[(String, Rule)]) -> Self {
        let table = ClassTable::default();
        let mut rows = Self {
            by,
            rules: Vec::new(),
            rules_use_request: rules.iter().any(|(_, rule)| rule.uses_request()),
            answers: HashMap::new(),
            names: Vec::new(),
            letters: Vec::new(),
            unknown: Vec::new(),
            numbers: HashMap::new(),
            known: Vec::new(),
            swap: None,
            metadata: None,
            prism: Prism::new(ClassTable::default()),
            behaviour: Vec::new(),
            runs: Vec::new(),
        };
        // The first row is for reads of data that the trace did not write.
        rows.number("not written in the trace");
        for (class, rule) in rules {
            let row = rows.class(class, letter_of_class(class));
            rows.rules.push((row, rule.clone()));
            for asked in rule.needs() {
                if !rows.unknown.contains(&asked) {
                    rows.unknown.push(asked);
                }
            }
        }
        if by == By::Class {
            let built_in = table.built_in();
            let letters = [(built_in.temp, 'T'), (built_in.metadata, 'M'), (built_in.log, 'L'), (built_in.hot, 'H')];
            for (id, class) in table.classes().iter().enumerate() {
                let letter = letters.iter().find(|(known, _)| usize::from(known.0) == id).map(|(_, letter)| *letter);
                let row = rows.class(&class.name, letter);
                rows.behaviour.push(row);
            }
        }
        rows
    }

    /// The row of blocks that nothing in the trace has written.
    pub const UNWRITTEN: u16 = 0;

    /// Names of the rows by row number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// T, M, L or H if the row stands for such a class; `None` if its figures must decide.
    pub fn letter(&self, row: u16) -> Option<char> {
        self.letters.get(usize::from(row)).copied().flatten()
    }

    /// Predicates of the rules for which no request carried the information, as written in the rule.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(|(_, predicate)| predicate.as_str())
    }

    /// The row of a class whose letter is known.
    fn class(&mut self, name: &str, letter: Option<char>) -> u16 {
        let row = self.number(name);
        if let Some(known) = self.letters.get_mut(usize::from(row)) {
            *known = known.or(letter);
        }
        row
    }

    fn number(&mut self, name: &str) -> u16 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let name = if self.names.len() >= ROWS_MAX { "others" } else { name };
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u16;
        self.names.push(name.to_owned());
        self.letters.push(None);
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Prefetches what behaviour knows of these blocks, given by volume and block number.
    pub fn fetch(&self, blocks: impl Iterator<Item = (u32, u64)>) {
        if self.by == By::Class {
            let look = |sum, (volume, block)| sum ^ self.prism.look(DiskId(volume as u16), block);
            std::hint::black_box(blocks.fold(0, look));
        }
    }

    /// Appends the rows of a write's parts to `parts`.
    pub fn write(
        &mut self,
        request: &Request,
        first_block: u64,
        blocks: u64,
        names: &Names,
        knows: Knows,
        parts: &mut Vec<Part>,
    ) {
        let sure = self.sure(request, names, knows);
        if self.by != By::Class {
            let row = sure.unwrap_or(Self::UNWRITTEN);
            return parts.push(Part { blocks, row, behaviour: None });
        }
        self.runs.clear();
        let disk = DiskId(request.volume as u16);
        self.prism.classify_by_behaviour(disk, first_block, blocks, request.len_bytes, &mut self.runs);
        for run in &self.runs {
            let behaviour = self.behaviour.get(usize::from(run.class.0)).copied().unwrap_or(Self::UNWRITTEN);
            parts.push(Part {
                blocks: u64::from(run.blocks),
                row: sure.unwrap_or(behaviour),
                behaviour: Some(behaviour),
            });
        }
    }

    /// The row of a read; `None` where reads count for the row that wrote the block.
    pub fn read(
        &mut self,
        request: &Request,
        first_block: u64,
        blocks: u64,
        names: &Names,
        knows: Knows,
    ) -> Option<u16> {
        if self.by == By::Class {
            self.prism.observe_place_read(DiskId(request.volume as u16), first_block, blocks);
        }
        // Reads carry no lifetime hint.
        if self.by == By::Hint { None } else { self.sure(request, names, knows) }
    }

    /// Makes behaviour forget discarded data.
    pub fn discard(&mut self, request: &Request) {
        if self.by == By::Class {
            self.prism.observe_discard(DiskId(request.volume as u16), request.offset_bytes, request.len_bytes);
        }
    }

    /// The row by evidence that is certain.
    fn sure(&mut self, request: &Request, names: &Names, knows: Knows) -> Option<u16> {
        if !self.rules.is_empty()
            && let Some(row) = self.by_rule(request, names, knows)
        {
            return Some(row);
        }
        match self.by {
            By::Class | By::Hint => {
                if request.flags.has(Flags::SWAP) {
                    let row = self.swap.unwrap_or_else(|| self.class("swap", Some('T')));
                    self.swap = Some(row);
                    return Some(row);
                }
                if request.flags.has(Flags::META) {
                    let row = self.metadata.unwrap_or_else(|| self.class("metadata", Some('M')));
                    self.metadata = Some(row);
                    return Some(row);
                }
                let lifetime = request.lifetime;
                match self.by {
                    By::Hint if !knows.lifetime => Some(self.of_name(NO_LIFETIME, String::new)),
                    By::Hint => Some(self.hint(lifetime)),
                    _ => (lifetime >= Lifetime::Short).then(|| self.hint(lifetime)),
                }
            }
            By::Directory => Some(self.of_name(request.path, || {
                let path = names.paths.name(request.path);
                path.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned()
            })),
            By::Extension => Some(self.of_name(request.path, || {
                let file = names.paths.name(request.path).rsplit('/').next().unwrap_or_default();
                file.rsplit_once('.').map_or_else(String::new, |(_, extension)| format!(".{extension}"))
            })),
            By::Process => Some(self.of_name(request.process, || names.processes.name(request.process).to_owned())),
            By::Volume => Some(self.of_name(request.volume, || names.volumes.name(request.volume).to_owned())),
            By::Level => Some(self.level(request, names)),
            By::IoClass => Some(match request.io_class {
                Request::NO_CLASS => self.number("none"),
                class => self.of_name(u32::from(class), || format!("class {class}")),
            }),
        }
    }

    fn hint(&mut self, lifetime: Lifetime) -> u16 {
        self.of_name(lifetime as u32, || format!("lifetime {}", lifetime.name()))
    }

    fn level(&mut self, request: &Request, names: &Names) -> u16 {
        if let Some(level) = names.levels.get(request.path) {
            return self.number(&format!("level {level}"));
        }
        let is_table = || names.paths.name(request.path).ends_with(".sst");
        self.number(match request.path {
            0 if request.flags.has(Flags::META) => "no table",
            0 => "not known",
            _ if is_table() => "level not known",
            _ => "no table",
        })
    }

    fn of_name(&mut self, number: u32, name: impl FnOnce() -> String) -> u16 {
        let at = number as usize;
        if let Some(&Some(row)) = self.known.get(at) {
            return row;
        }
        let name = name();
        let row = self.number(if name.is_empty() { "not known" } else { &name });
        if at < ANSWERS_MAX {
            self.known.resize(self.known.len().max(at + 1), None);
            self.known[at] = Some(row);
        }
        row
    }

    fn by_rule(&mut self, request: &Request, names: &Names, knows: Knows) -> Option<u16> {
        let asked = Asked {
            volume: request.volume,
            path: request.path,
            process: request.process,
            pid: request.pid,
            flags: request.flags,
            lifetime: request.lifetime,
            io_class: request.io_class,
            is_read: request.op == Op::Read,
        };
        if !self.rules_use_request
            && let Some(answer) = self.answers.get(&asked)
        {
            return *answer;
        }
        let facts = Facts {
            disk_name: names.volumes.name(request.volume),
            export: None,
            export_name: "",
            direction: if request.op == Op::Read { Direction::Read } else { Direction::Write },
            request_size_bytes: Some(request.len_bytes),
            sequential_bytes: None,
            offset_bytes: request.offset_bytes,
            evidence: None,
            contents_known: false,
            host: knows.facts(request, names),
        };
        self.unknown.retain(|(need, _)| !facts.tell(*need));
        let answer = self.rules.iter().find(|(_, rule)| rule.matches(&facts)).map(|(row, _)| *row);
        if !self.rules_use_request && self.answers.len() < ANSWERS_MAX {
            self.answers.insert(asked, answer);
        }
        answer
    }
}

/// The letter of a class by a word in its name.
fn letter_of_class(name: &str) -> Option<char> {
    name.split(|c: char| !c.is_alphanumeric()).find_map(|word| match word.to_ascii_lowercase().as_str() {
        "metadata" | "meta" => Some('M'),
        "log" | "logs" | "wal" | "journal" => Some('L'),
        "temp" | "tmp" | "temporary" | "swap" => Some('T'),
        "hot" => Some('H'),
        _ => None,
    })
}
