//! On which tier each block lives, as of a checkpoint: two bits for each block, kept on the capacity tier so that it can be opened alone.

use super::codec::{Reader, Writer};
use super::page::{Entry, LEAF_ENTRIES, leaf_entry};
use super::{is_sealed, seal};
use forebay_block::DiskId;
use forebay_block::checksum::crc32c;
use forebay_block::hash::murmur64;

/// Map leaves that one page describes.
pub const PAGE_LEAVES: usize = 32;
/// Bytes of the codes of one leaf.
pub const CODES_BYTES: usize = LEAF_ENTRIES / 4;
const HEADER_BYTES: usize = 64;
const PAGE_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"FBTP";

/// Where a block lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Nowhere: it was never written, or discarded, or holds zeros.
    Nowhere,
    /// In a band.
    Capacity,
    /// In a slot of the fast tier.
    Fast,
    /// It cannot be read until it is overwritten.
    Damaged,
}

impl Tier {
    fn of(entry: Entry, is_fast: impl Fn(u64) -> bool) -> Self {
        match entry {
            Entry::Unmapped | Entry::Zero => Self::Nowhere,
            Entry::Damaged => Self::Damaged,
            Entry::Data { span, .. } if is_fast(span.location) => Self::Fast,
            Entry::Data { .. } => Self::Capacity,
        }
    }

    fn from_code(code: u8) -> Self {
        match code & 3 {
            0 => Self::Nowhere,
            1 => Self::Capacity,
            2 => Self::Fast,
            _ => Self::Damaged,
        }
    }
}

/// The contribution of one checksum to the sum of its leaf.
#[must_use]
pub fn term(at: usize, checksum: u32) -> u64 {
    // Sums of these values collide by chance only.
    murmur64(u64::from(checksum) | (at as u64 + 1) << 32)
}

/// Where the blocks of a leaf live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafTiers {
    codes: [u8; CODES_BYTES],
    /// Sum of [`term`] over the blocks on the capacity tier: it shows whether copies that were found are those that the map names.
    pub sum: u64,
}

impl LeafTiers {
    /// A leaf that maps nothing.
    pub const EMPTY: Self = Self { codes: [0; CODES_BYTES], sum: 0 };

    /// Of a leaf page.
    #[must_use]
    pub fn of(page: &[u8], is_fast: impl Fn(u64) -> bool) -> Self {
        let mut tiers = Self::EMPTY;
        for at in 0..LEAF_ENTRIES {
            let (entry, checksum) = leaf_entry(page, at);
            let tier = Tier::of(entry, &is_fast);
            tiers.codes[at / 4] |= (tier as u8) << (at % 4 * 2);
            if tier == Tier::Capacity {
                tiers.sum = tiers.sum.wrapping_add(term(at, checksum));
            }
        }
        tiers
    }

    /// Where block `at` of the leaf lives.
    #[must_use]
    pub fn tier(&self, at: usize) -> Tier {
        self.codes.get(at / 4).map_or(Tier::Nowhere, |codes| Tier::from_code(codes >> (at % 4 * 2)))
    }

    /// Whether the leaf maps no data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.codes == Self::EMPTY.codes
    }
}

/// A page: what is known of its leaves; `None` where nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierPage {
    /// In the order of the leaves.
    pub leaves: Vec<Option<LeafTiers>>,
}

impl TierPage {
    /// A page of leaves that map nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self { leaves: vec![Some(LeafTiers::EMPTY); PAGE_LEAVES] }
    }

    /// A page of leaves of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self { leaves: vec![None; PAGE_LEAVES] }
    }

    /// Whether it says the same as a page that is not there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.as_ref().is_some_and(LeafTiers::is_empty))
    }

    /// Encodes page `number` of a disk; with its CRC.
    #[must_use]
    pub fn encode(&self, disk: DiskId, number: u32) -> (Vec<u8>, u32) {
        let mut w = Writer::default();
        w.bytes.reserve_exact(PAGE_BYTES);
        w.bytes.extend_from_slice(&MAGIC);
        w.u32(0);
        w.u16(disk.0);
        w.u16(0);
        w.u32(number);
        let known = (0..PAGE_LEAVES).filter(|&i| self.leaves.get(i).is_some_and(Option::is_some));
        w.u32(known.fold(0, |bits, i| bits | 1 << i));
        w.bytes.resize(HEADER_BYTES, 0);
        for i in 0..PAGE_LEAVES {
            let leaf = self.leaves.get(i).and_then(Option::as_ref).unwrap_or(&LeafTiers::EMPTY);
            w.bytes.extend_from_slice(&leaf.codes);
            w.u64(leaf.sum);
        }
        w.bytes.resize(PAGE_BYTES, 0);
        let crc = seal(&mut w.bytes);
        (w.bytes, crc)
    }

    /// Decodes page `number` of a disk; `None` where it is not the one with this CRC.
    #[must_use]
    pub fn decode(bytes: &[u8], disk: DiskId, number: u32, crc: u32) -> Option<Self> {
        if bytes.len() != PAGE_BYTES || !is_sealed(bytes, MAGIC) || crc32c(&bytes[8..]) != crc {
            return None;
        }
        let mut r = Reader::new(&bytes[8..]);
        let found = (DiskId(r.u16()?), r.u16()?, r.u32()?);
        if (found.0, found.2) != (disk, number) {
            return None;
        }
        let known = r.u32()?;
        let mut r = Reader::new(bytes.get(HEADER_BYTES..)?);
        let mut leaves = Vec::with_capacity(PAGE_LEAVES);
        for i in 0..PAGE_LEAVES {
            let codes: [u8; CODES_BYTES] = r.take(CODES_BYTES)?.try_into().ok()?;
            let sum = r.u64()?;
            leaves.push((known >> i & 1 == 1).then_some(LeafTiers { codes, sum }));
        }
        Some(Self { leaves })
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::{Span, set_leaf_entry};
    use super::*;
    use forebay_block::ClassId;

    fn leaf() -> Vec<u8> {
        let mut page = vec![0; 4096];
        let data = |location| Entry::Data { span: Span::whole(location), class: ClassId(1) };
        for (at, entry) in [(0, data(8)), (3, data(800)), (5, Entry::Zero), (398, Entry::Damaged), (399, data(808))] {
            set_leaf_entry(&mut page, at, entry, at as u32 + 7);
        }
        page
    }

    #[test]
    fn each_block_has_the_tier_of_its_entry_and_the_sum_is_of_those_in_bands() {
        let tiers = LeafTiers::of(&leaf(), |location| location < 100);
        let expected = |at| match at {
            0 => Tier::Fast,
            3 | 399 => Tier::Capacity,
            398 => Tier::Damaged,
            _ => Tier::Nowhere,
        };
        (0..LEAF_ENTRIES).for_each(|at| assert_eq!(tiers.tier(at), expected(at), "{at}"));
        assert_eq!(tiers.sum, term(3, 10).wrapping_add(term(399, 406)));
        assert!(!tiers.is_empty());
        assert_eq!(tiers.tier(LEAF_ENTRIES), Tier::Nowhere);
    }

    #[test]
    fn a_page_survives_its_bytes_and_is_taken_for_no_other() {
        let mut page = TierPage::empty();
        assert!(page.is_empty());
        page.leaves[31] = Some(LeafTiers::of(&leaf(), |location| location < 100));
        page.leaves[2] = None;
        assert!(!page.is_empty() && !TierPage::unknown().is_empty());
        let (bytes, crc) = page.encode(DiskId(3), 9);
        assert_eq!(TierPage::decode(&bytes, DiskId(3), 9, crc), Some(page));
        for (disk, number, crc) in [(4, 9, crc), (3, 8, crc), (3, 9, crc ^ 1)] {
            assert_eq!(TierPage::decode(&bytes, DiskId(disk), number, crc), None);
        }
        for at in [0, 5, 20, 4095] {
            let mut torn = bytes.clone();
            torn[at] ^= 1;
            assert_eq!(TierPage::decode(&torn, DiskId(3), 9, crc), None);
        }
        assert_eq!(TierPage::decode(&bytes[..4000], DiskId(3), 9, crc), None);
    }
}
