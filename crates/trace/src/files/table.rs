//! Names and levels of RocksDB's tables.

use super::FileFacts;

/// The levels of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// The level where the table is, or to which it is probably being written.
    pub now: Option<u8>,
    /// The level for which the table was written.
    pub written: Option<u8>,
}

/// The number in a table's name, `000012.sst`.
pub fn table_number(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".sst")?;
    let is_number = digits.len() >= 6 && digits.iter().all(u8::is_ascii_digit);
    if is_number { str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// Whether a file with this name is a sign that its folder is a database.
pub fn is_sign(name: &[u8]) -> bool {
    name == b"CURRENT" || name == b"LOG" || name.starts_with(b"MANIFEST-")
}

/// A deleted table of RocksDB.
#[derive(Clone, Debug)]
pub struct LateTable {
    /// Inode of its folder.
    pub folder: u64,
    /// The number in its name.
    pub number: u64,
    /// The facts about it.
    pub facts: FileFacts,
}
