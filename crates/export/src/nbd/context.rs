//! Metadata contexts: the information on extents that BLOCK_STATUS returns ("Metadata querying").
//!
//! `base:allocation` is the protocol's own: bit 0 `NBD_STATE_HOLE`, bit 1 `NBD_STATE_ZERO`.
//!
//! `forebay:placement` reports the place and the class of an extent, in 32 bits:
//!
//! | bits | meaning |
//! |---|---|
//! | 0-7 | class id; 255 where the extent has none (hole, zeros, damaged) |
//! | 8 | on the fast tier |
//! | 9 | hole: never written, or discarded |
//! | 10 | reads as zeros (also set for holes) |
//! | 11 | known damaged: reads fail |
//! | 12-31 | reserved, 0 |
//!
//! Queries: the exact name; `forebay:` and `base:` list everything in their namespace (LIST only).

use forebay_volume::{Extent, ExtentState};

/// Bit 9 of `forebay:placement`.
const PLACEMENT_HOLE: u32 = 1 << 9;
const PLACEMENT_ZERO: u32 = 1 << 10;
const PLACEMENT_DAMAGED: u32 = 1 << 11;
const PLACEMENT_NO_CLASS: u32 = 0xff;

/// A metadata context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// `base:allocation`.
    Allocation,
    /// `forebay:placement`.
    Placement,
}

impl Context {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Allocation, Self::Placement];

    /// Its full name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Placement => "forebay:placement",
        }
    }

    /// Its id on the wire, which is the same in every session.
    #[must_use]
    pub fn id(self) -> u32 {
        match self {
            Self::Allocation => 1,
            Self::Placement => 2,
        }
    }

    /// Whether a LIST query matches the context: by its name, or by its namespace alone.
    #[must_use]
    pub fn is_listed_by(self, query: &str) -> bool {
        let name = self.name();
        query == name || (query.ends_with(':') && name.starts_with(query))
    }

    /// Status bits of an extent.
    #[must_use]
    pub fn flags(self, state: ExtentState) -> u32 {
        match (self, state) {
            (Self::Allocation, ExtentState::Hole) => 3,
            (Self::Allocation, ExtentState::Zero) => 2,
            (Self::Allocation, ExtentState::Data { .. } | ExtentState::Base | ExtentState::Damaged) => 0,
            (Self::Placement, ExtentState::Base) => PLACEMENT_NO_CLASS,
            (Self::Placement, ExtentState::Hole) => PLACEMENT_NO_CLASS | PLACEMENT_HOLE | PLACEMENT_ZERO,
            (Self::Placement, ExtentState::Zero) => PLACEMENT_NO_CLASS | PLACEMENT_ZERO,
            (Self::Placement, ExtentState::Damaged) => PLACEMENT_NO_CLASS | PLACEMENT_DAMAGED,
            (Self::Placement, ExtentState::Data { class, fast }) => u32::from(class.0) | u32::from(fast) << 8,
        }
    }

    /// Length and status of the extents, with neighbours of equal status merged, cut at `limit_bytes`, at most `max`.
    /// Empty where `extents` is.
    pub fn descriptors(self, extents: &[Extent], limit_bytes: u64, max: usize, into: &mut Vec<(u64, u32)>) {
        into.clear();
        let mut left = limit_bytes;
        for extent in extents {
            let len = extent.len_bytes.min(left);
            if len == 0 {
                continue;
            }
            let flags = self.flags(extent.state);
            let full = into.len() == max;
            match into.last_mut() {
                Some(last) if last.1 == flags => last.0 += len,
                _ if full => return,
                _ => into.push((len, flags)),
            }
            left -= len;
        }
    }
}

/// The contexts that a client selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSet(u8);

impl ContextSet {
    /// Adds a context.
    pub fn insert(&mut self, context: Context) {
        self.0 |= 1 << context.id();
    }

    /// Whether the context is selected.
    #[must_use]
    pub fn contains(self, context: Context) -> bool {
        self.0 & 1 << context.id() != 0
    }

    /// Whether no context is selected.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The selected contexts.
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().filter(move |&context| self.contains(context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_block::ClassId;

    #[test]
    fn joins_what_looks_alike_in_the_context() {
        let extents = [
            Extent { len_bytes: 4096, state: ExtentState::Data { class: ClassId(3), fast: true } },
            Extent { len_bytes: 4096, state: ExtentState::Data { class: ClassId(3), fast: false } },
            Extent { len_bytes: 8192, state: ExtentState::Hole },
        ];
        let mut into = Vec::new();
        Context::Allocation.descriptors(&extents, 12288, 9, &mut into);
        assert_eq!(into, [(8192, 0), (4096, 3)]);
        Context::Placement.descriptors(&extents, 1 << 20, 9, &mut into);
        assert_eq!(into, [(4096, 0x103), (4096, 3), (8192, 0x6ff)]);
        Context::Placement.descriptors(&extents, 1 << 20, 1, &mut into);
        assert_eq!(into, [(4096, 0x103)]);
        Context::Placement.descriptors(&[], 1 << 20, 1, &mut into);
        assert_eq!(into, []);
    }

    #[test]
    fn namespaces_are_wildcards_when_listing() {
        assert!(Context::Allocation.is_listed_by("base:"));
        assert!(!Context::Allocation.is_listed_by("base:alloc"));
        assert!(!Context::Allocation.is_listed_by(""));
        assert!(Context::Placement.is_listed_by("forebay:placement"));
    }
}
