//! Chooses, among several copies of the blocks of a leaf, those that the map named, by the sum of their checksums.

use crate::layout::band_summary::{SummaryEntry, placed};
use crate::layout::packed::is_stored;
use crate::layout::page::{BLOCK_GRAINS, Span};
use crate::layout::tier_page::term;
use forebay_block::{ClassId, DiskId};
use std::collections::BTreeMap;

/// A copy of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// Orders it among the copies of its block.
    pub origin: u64,
    pub span: Span,
    pub checksum: u32,
    pub class: ClassId,
}

/// Whether `data` is the data of this copy.
pub(super) fn holds(who: Who, candidate: &Candidate, data: &[u8]) -> bool {
    is_stored(DiskId(who.0), who.1, data, candidate.checksum)
}

/// Disk and block.
pub(super) type Who = (u16, u64);

/// The copies that a summary names: disk, block, and where it lies.
pub(super) fn candidates(start: u64, entries: &[SummaryEntry]) -> impl Iterator<Item = (u16, u64, Candidate)> {
    let spans = placed(entries).map(move |(at, entry)| {
        let SummaryEntry { disk, block, origin, checksum, class, .. } = *entry;
        let span = entry.span(start + u64::from(at));
        (disk.0, block, Candidate { origin, span, checksum, class })
    });
    // A block that is stored uncompressed begins at a block boundary of the device.
    spans.filter(|(.., candidate)| !candidate.span.is_whole() || candidate.span.location.is_multiple_of(BLOCK_GRAINS))
}

/// Most origins of a leaf of which every subset is tried.
const SUBSET_ORIGINS: usize = 12;

/// A choice of one copy for each block of a leaf that was on the capacity tier.
pub(super) struct Choice<'a> {
    /// Numbers of the blocks.
    pub blocks: &'a [usize],
    /// Every copy of each block, the newest first.
    pub all: &'a BTreeMap<usize, Vec<Candidate>>,
    /// The copies that the search begins with, one for each block.
    pub start: Vec<Candidate>,
}

impl Choice<'_> {
    /// Finds a choice with the sum `wanted`, starting from this one. The two differ by records that never took effect: some that are the
    /// newest of their blocks, in a row or not, or one block of a record.
    pub fn find(&self, wanted: u64) -> Option<Vec<Candidate>> {
        let terms = self.blocks.iter().zip(&self.start);
        let sum = terms.fold(0u64, |sum, (&at, c)| sum.wrapping_add(term(at, c.checksum)));
        if sum == wanted {
            return Some(self.start.clone());
        }
        let missing = wanted.wrapping_sub(sum);
        self.without_a_range(missing).or_else(|| self.without_some(missing)).or_else(|| self.with_another(missing))
    }

    /// The newest copy of block `i` that is older than an origin.
    fn before(&self, i: usize, origin: u64) -> Option<Candidate> {
        self.all.get(&self.blocks[i])?.iter().find(|candidate| candidate.origin < origin).copied()
    }

    /// The change of the sum if block `i` is this copy.
    fn gain(&self, i: usize, candidate: Candidate) -> u64 {
        let at = self.blocks[i];
        term(at, candidate.checksum).wrapping_sub(term(at, self.start[i].checksum))
    }

    fn with(&self, others: &[(usize, Candidate)]) -> Vec<Candidate> {
        let mut chosen = self.start.clone();
        others.iter().for_each(|&(i, candidate)| chosen[i] = candidate);
        chosen
    }

    /// Leaves out the records of a range of origins.
    fn without_a_range(&self, missing: u64) -> Option<Vec<Candidate>> {
        let mut by_origin: Vec<usize> = (0..self.start.len()).collect();
        by_origin.sort_unstable_by_key(|&i| self.start[i].origin);
        for (n, &first) in by_origin.iter().enumerate() {
            let from = self.start[first].origin;
            if n > 0 && self.start[by_origin[n - 1]].origin == from {
                continue;
            }
            let (mut gained, mut others) = (0u64, Vec::new());
            for (m, &i) in by_origin.iter().enumerate().skip(n) {
                let Some(older) = self.before(i, from) else { break };
                gained = gained.wrapping_add(self.gain(i, older));
                others.push((i, older));
                let next = by_origin.get(m + 1).map(|&next| self.start[next].origin);
                if gained == missing && next != Some(self.start[i].origin) {
                    return Some(self.with(&others));
                }
            }
        }
        None
    }

    /// Leaves out some of the newest origins, of those whose blocks all have older copies.
    fn without_some(&self, missing: u64) -> Option<Vec<Candidate>> {
        let mut by_origin: BTreeMap<u64, Option<Vec<(usize, Candidate)>>> = BTreeMap::new();
        for (i, candidate) in self.start.iter().enumerate() {
            let list = by_origin.entry(candidate.origin).or_insert_with(|| Some(Vec::new()));
            match (self.before(i, candidate.origin), list.as_mut()) {
                (Some(older), Some(list)) => list.push((i, older)),
                _ => *list = None,
            }
        }
        let records: Vec<Vec<(usize, Candidate)>> =
            by_origin.into_values().rev().flatten().take(SUBSET_ORIGINS).collect();
        let gain = |list: &Vec<(usize, Candidate)>| {
            list.iter().fold(0u64, |sum, &(i, older)| sum.wrapping_add(self.gain(i, older)))
        };
        let gains: Vec<u64> = records.iter().map(gain).collect();
        let chosen = |subset: u32| (0..records.len()).filter(move |n| subset >> n & 1 == 1);
        let found = (1..1u32 << records.len())
            .find(|&subset| chosen(subset).fold(0u64, |sum, n| sum.wrapping_add(gains[n])) == missing)?;
        let others: Vec<(usize, Candidate)> = chosen(found).flat_map(|n| records[n].iter().copied()).collect();
        Some(self.with(&others))
    }

    /// Takes another copy of one block.
    fn with_another(&self, missing: u64) -> Option<Vec<Candidate>> {
        (0..self.start.len()).find_map(|i| {
            let other = self.all.get(&self.blocks[i])?.iter().find(|c| self.gain(i, **c) == missing)?;
            Some(self.with(&[(i, *other)]))
        })
    }
}
