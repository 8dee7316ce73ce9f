//! Names that requests refer to by number.

use std::collections::HashMap;
use std::sync::Arc;

/// Most names of one kind; further ones become the name 0, "other".
const NAMES_MAX: usize = 1 << 20;
/// Most bytes of all names of one kind.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Names of one kind, each with a number. Number 0 is the empty name, which means unknown.
#[derive(Clone, Debug)]
pub struct NameTable {
    /// The text is shared by this list, the numbers, and copies of the table.
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    len_bytes: usize,
    refused: u64,
}

impl Default for NameTable {
    fn default() -> Self {
        let none: Arc<str> = "".into();
        let numbers = HashMap::from([(none.clone(), 0)]);
        Self { names: vec![none], numbers, len_bytes: 0, refused: 0 }
    }
}

impl NameTable {
    /// The number of a name; a new name gets one. 0 if there are too many names.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        if self.names.len() >= NAMES_MAX || self.len_bytes + name.len() > NAMES_BYTES_MAX {
            self.refused += 1;
            return 0;
        }
        self.push(name.into())
    }

    /// Adds a new name; returns its number.
    fn push(&mut self, name: Arc<str>) -> u32 {
        self.len_bytes += name.len();
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The number of a name, if there is one.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The name of a number; empty if it is not known.
    #[must_use]
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }

    /// All names by number, beginning with number 0.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|name| &**name)
    }

    /// Number of names, including the empty one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// How often there was no room for a new name.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// Levels for which RocksDB's tables were written, by the numbers of their paths.
#[derive(Clone, Debug, Default)]
pub struct TableLevels {
    levels: HashMap<u32, u8>,
    /// Changes since they were last taken; `None` if they are not recorded.
    changes: Option<Vec<(u32, u8)>>,
}

impl TableLevels {
    /// The level of a path's table; `None` if it is not known.
    #[must_use]
    pub fn get(&self, path: u32) -> Option<u8> {
        self.levels.get(&path).copied()
    }

    /// Sets the level of a path's table.
    pub fn set(&mut self, path: u32, level: u8) {
        let is_new = self.levels.insert(path, level) != Some(level);
        if let Some(changes) = self.changes.as_mut().filter(|_| is_new) {
            changes.push((path, level));
        }
    }

    /// Number of paths with a known level.
    #[must_use]
    pub fn count(&self) -> usize {
        self.levels.len()
    }
}

/// The names of a trace.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Volumes: devices, disks, LUNs. The name may be empty in a trace of one device.
    pub volumes: NameTable,
    /// Names of processes.
    pub processes: NameTable,
    /// Paths of files.
    pub paths: NameTable,
    /// Levels of RocksDB's tables; empty if nothing reports them.
    pub levels: TableLevels,
}

impl Names {
    fn tables(&self) -> [&NameTable; 3] {
        [&self.volumes, &self.processes, &self.paths]
    }

    fn tables_mut(&mut self) -> [&mut NameTable; 3] {
        [&mut self.volumes, &mut self.processes, &mut self.paths]
    }
}

/// New names of one kind.
#[derive(Debug, Default)]
struct NewOfTable {
    names: Vec<Arc<str>>,
    refused: u64,
}

/// The changes of names, for a copy of them.
#[derive(Debug, Default)]
pub(crate) struct NewNames {
    tables: [NewOfTable; 3],
    levels: Vec<(u32, u8)>,
}

impl NewNames {
    /// Adds the changes to the copy, which must have all earlier changes.
    pub fn add_to(&mut self, copy: &mut Names) {
        for (new, table) in self.tables.iter_mut().zip(copy.tables_mut()) {
            for name in new.names.drain(..) {
                table.push(name);
            }
            table.refused = new.refused;
        }
        for (path, level) in self.levels.drain(..) {
            copy.levels.set(path, level);
        }
    }
}

/// Names with a copy elsewhere that is kept up to date.
pub(crate) struct NamesWithCopy {
    /// The names, which may be added to.
    pub names: Names,
    /// Number of names of each kind that the copy has.
    copied: [usize; 3],
}

impl NamesWithCopy {
    /// Begins with the names of the copy.
    pub fn of(copy: &Names) -> Self {
        let mut names = copy.clone();
        names.levels.changes = Some(Vec::new());
        Self { copied: names.tables().map(NameTable::count), names }
    }

    /// Moves the changes since the last call to `into`, which must be empty.
    pub fn take_new(&mut self, into: &mut NewNames) {
        for ((new, table), copied) in into.tables.iter_mut().zip(self.names.tables()).zip(&mut self.copied) {
            new.names.extend_from_slice(&table.names[*copied..]);
            new.refused = table.refused;
            *copied = table.count();
        }
        if let Some(changes) = &mut self.names.levels.changes {
            into.levels.append(changes);
        }
    }
}
