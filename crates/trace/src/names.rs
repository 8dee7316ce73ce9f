//! Names that requests refer to by number.

use std::collections::HashMap;

/// Most names of one kind; further ones become the name 0, "other".
const NAMES_MAX: usize = 1 << 20;
/// Most bytes of all names of one kind.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Names of one kind, each with a number. Number 0 is the empty name: not known.
#[derive(Clone, Debug)]
pub struct NameTable {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    len_bytes: usize,
    refused: u64,
}

impl Default for NameTable {
    fn default() -> Self {
        let numbers = HashMap::from([(String::new(), 0)]);
        Self { names: vec![String::new()], numbers, len_bytes: 0, refused: 0 }
    }
}

impl NameTable {
    /// The number of a name, which is given one where it is new. 0 where there are too many names.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        if self.names.len() >= NAMES_MAX || self.len_bytes + name.len() > NAMES_BYTES_MAX {
            self.refused += 1;
            return 0;
        }
        self.len_bytes += name.len();
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The name of a number; empty where it is not known.
    #[must_use]
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    /// All names by their numbers, number 0 first.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Names there are, the empty one included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// How often a new name found no place.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// The names of a trace.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Volumes: devices, disks, LUNs. A trace of one device may leave its name empty.
    pub volumes: NameTable,
    /// Processes, by name.
    pub processes: NameTable,
    /// Paths of files.
    pub paths: NameTable,
    /// Levels for which RocksDB's tables were written, by the numbers of their paths; empty where nothing tells them.
    pub levels: HashMap<u32, u8>,
}
