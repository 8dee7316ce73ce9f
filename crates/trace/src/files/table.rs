//! Tables of RocksDB, by their names and levels.

use super::FileFacts;

/// The levels of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Where it is, or is probably being written to.
    pub now: Option<u8>,
    /// For which its bytes were written.
    pub written: Option<u8>,
}

/// The number of a table's name, `000012.sst`.
pub fn table_number(name: &[u8]) -> Option<u64> {
    let digits = name.strip_suffix(b".sst")?;
    let is_number = digits.len() >= 6 && digits.iter().all(u8::is_ascii_digit);
    if is_number { str::from_utf8(digits).ok()?.parse().ok() } else { None }
}

/// Whether a folder with a file of this name may be a database.
pub fn is_sign(name: &[u8]) -> bool {
    name == b"CURRENT" || name == b"LOG" || name.starts_with(b"MANIFEST-")
}

/// A table of RocksDB that is gone.
#[derive(Clone, Debug)]
pub struct LateTable {
    /// Its folder.
    pub folder: u64,
    /// The number in its name.
    pub number: u64,
    /// What was known of it.
    pub facts: FileFacts,
}
