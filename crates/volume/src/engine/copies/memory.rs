//! How large a read cache may be, by the memory that it takes.

use super::recent;
use crate::engine::EngineOptions;
use forebay_prism::{ClassTable, Place};

/// One copy for so many bytes of the memory that is shared out: 1 GiB allows 8 GiB of copies with 128 MiB of tables, or 1 GiB with 16 MiB where no class had
/// copies when the pool was opened.
const MEMORY_BYTES_PER_COPY: u64 = 512;
const MEMORY_BYTES_PER_COPY_LATER: u64 = 4096;
/// Bytes of the tables per copy, for the sharing out of memory: 44 of the policy, a [`Held`], a [`State`] and a generation.
const INDEX_BYTES_PER_COPY: u64 = 65;
/// Blocks in memory take this part of that memory; the second part counts where no class had copies when the pool was
/// opened.
const RECENT_PART: u64 = 16;
const RECENT_PART_LATER: u64 = 64;

/// What a read cache may hold, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimits {
    /// In memory.
    pub recent: u64,
    /// On the fast tier.
    pub copies: u64,
}

impl CacheLimits {
    /// For a tier of so many slots, with the classes as they are when the pool is opened.
    pub fn new(options: &EngineOptions, shared_bytes: u64, slots: u64, table: &ClassTable) -> Self {
        let (each, part) = match are_wanted(table) {
            true => (MEMORY_BYTES_PER_COPY, RECENT_PART),
            false => (MEMORY_BYTES_PER_COPY_LATER, RECENT_PART_LATER),
        };
        let recent_bytes = options.recent_reads_bytes.unwrap_or(shared_bytes / part);
        Self {
            recent: (recent_bytes / recent::BYTES_PER_BLOCK).min(u64::from(u32::MAX / 4)),
            copies: (shared_bytes / each).min(slots).min(u64::from(u32::MAX / 4)),
        }
    }

    /// The memory that all of this takes.
    pub fn memory_bytes(&self) -> u64 {
        self.recent * recent::BYTES_PER_BLOCK + self.copies * INDEX_BYTES_PER_COPY
    }

    /// The limits less so much memory, which is needed for something else: blocks in memory go first.
    #[must_use]
    pub fn without(self, bytes: u64) -> Self {
        let recent = self.recent.saturating_sub(bytes.div_ceil(recent::BYTES_PER_BLOCK) + 1);
        let freed_bytes = (self.recent - recent) * recent::BYTES_PER_BLOCK;
        let lacking_bytes = bytes.saturating_sub(freed_bytes);
        let copies = match lacking_bytes {
            0 => self.copies,
            _ => self.copies.saturating_sub(lacking_bytes.div_ceil(INDEX_BYTES_PER_COPY) + 1),
        };
        Self { recent, copies }
    }
}

/// Whether blocks of any class get copies.
pub(super) fn are_wanted(table: &ClassTable) -> bool {
    table.classes().iter().any(|class| class.read_cache || class.place == Place::Both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_goes_before_copies_do() {
        let limits = CacheLimits { recent: 100, copies: 1000 };
        assert_eq!(limits.without(1), CacheLimits { recent: 98, copies: 1000 });
        let all_bytes = 100 * recent::BYTES_PER_BLOCK;
        assert_eq!(limits.without(all_bytes), CacheLimits { recent: 0, copies: 1000 });
        assert_eq!(limits.without(all_bytes + 65), CacheLimits { recent: 0, copies: 998 });
        assert_eq!(limits.without(u64::MAX / 2), CacheLimits { recent: 0, copies: 0 });
        for bytes in (0..limits.memory_bytes()).step_by(997) {
            let left = limits.without(bytes);
            assert!(left.memory_bytes() + bytes <= limits.memory_bytes(), "{bytes}: {left:?}");
        }
    }
}
