//! How many copies there may be, by the memory that their tables take.

use forebay_prism::{ClassTable, Place};

/// One copy for so many bytes of the memory limit: 1 GiB allows 8 GiB of copies for 128 MiB of tables, or 1 GiB for 16 where no class had any
/// when the pool was opened.
const MEMORY_BYTES_PER_COPY: u64 = 512;
const MEMORY_BYTES_PER_COPY_LATER: u64 = 4096;
/// Bytes of the tables per copy, for the sharing out of memory: 44 of the policy, a [`Held`], a [`State`] and a generation.
pub(crate) const INDEX_BYTES_PER_COPY: u64 = 65;

/// Most copies that a memory limit allows, on a tier of so many slots, where these are the classes when the pool is opened.
pub(crate) fn copies_max(memory_limit_bytes: u64, slots: u64, table: &ClassTable) -> u64 {
    let each = if are_wanted(table) { MEMORY_BYTES_PER_COPY } else { MEMORY_BYTES_PER_COPY_LATER };
    (memory_limit_bytes / each).min(slots).min(u64::from(u32::MAX / 4))
}

/// Whether blocks of any class get copies.
pub(super) fn are_wanted(table: &ClassTable) -> bool {
    table.classes().iter().any(|class| class.read_cache || class.place == Place::Both)
}
