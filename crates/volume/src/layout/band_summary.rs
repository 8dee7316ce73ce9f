//! Band summaries: who was written where in a band.

use super::Id;
use super::codec::{Reader, Writer};
use super::{is_sealed, seal};
use forebay_block::{ClassId, DiskId};

/// Entries of a summary block.
pub const ENTRIES_PER_BLOCK: usize = 168;
const ENTRY_BYTES: usize = 24;
const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 4] = *b"FBBS";

/// Who was written into one block of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryEntry {
    /// Disk; 0 means that nothing known was written here.
    pub disk: DiskId,
    /// Class.
    pub class: ClassId,
    /// Block checksum.
    pub checksum: u32,
    /// Block address.
    pub block: u64,
    /// Sequence of the data.
    pub sequence: u64,
}

impl SummaryEntry {
    /// Nothing known was written here.
    pub const NONE: Self = Self { disk: DiskId(0), class: ClassId(0), checksum: 0, block: 0, sequence: 0 };

    /// Appends the entry.
    pub fn put(&self, w: &mut Writer) {
        w.u16(self.disk.0);
        w.u8(self.class.0);
        w.u8(0);
        w.u32(self.checksum);
        w.u64(self.block);
        w.u64(self.sequence);
    }

    /// Reads an entry.
    pub fn take(r: &mut Reader<'_>) -> Option<Self> {
        let disk = DiskId(r.u16()?);
        let class = ClassId(r.u8()?);
        r.u8()?;
        Some(Self { disk, class, checksum: r.u32()?, block: r.u64()?, sequence: r.u64()? })
    }
}

/// Splits a band of `band_blocks` into data blocks and summary blocks: `(data, summary)`.
#[must_use]
pub fn split(band_blocks: u64) -> (u64, u64) {
    // data + ceil(data / 168) <= band: each group of 169 blocks holds 168 of data.
    let summary = band_blocks.div_ceil(ENTRIES_PER_BLOCK as u64 + 1);
    (band_blocks - summary, summary)
}

/// Encodes all summary blocks of a band.
pub fn encode(pool: &Id, band: u32, generation: u32, entries: &[SummaryEntry], out: &mut [u8]) {
    for (part, page) in out.chunks_mut(4096).enumerate() {
        let start = (part * ENTRIES_PER_BLOCK).min(entries.len());
        let mine = &entries[start..entries.len().min(start + ENTRIES_PER_BLOCK)];
        let mut w = Writer::default();
        w.bytes.extend_from_slice(&MAGIC);
        w.u32(0);
        w.bytes.extend_from_slice(pool);
        w.u32(band);
        w.u16(part as u16);
        w.u16(mine.len() as u16);
        w.u32(generation);
        w.bytes.resize(HEADER_BYTES, 0);
        for entry in mine {
            entry.put(&mut w);
        }
        w.bytes.resize(4096, 0);
        page.copy_from_slice(&w.bytes);
        seal(page);
    }
}

/// Decodes the summary of a band; `None` where any block is not this band's in this generation.
#[must_use]
pub fn decode(pool: &Id, band: u32, generation: u32, bytes: &[u8]) -> Option<Vec<SummaryEntry>> {
    let mut entries = Vec::new();
    for (part, page) in bytes.chunks_exact(4096).enumerate() {
        if !is_sealed(page, MAGIC) {
            return None;
        }
        let mut r = Reader::new(&page[8..]);
        let (id, in_band, in_part, count) = (r.id()?, r.u32()?, r.u16()?, r.u16()?);
        if id != *pool || in_band != band || usize::from(in_part) != part || r.u32()? != generation {
            return None;
        }
        let count = usize::from(count);
        let mut r = Reader::new(page.get(HEADER_BYTES..HEADER_BYTES + count * ENTRY_BYTES)?);
        for _ in 0..count {
            entries.push(SummaryEntry::take(&mut r)?);
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_every_size_fit_and_round_trip() {
        for band_blocks in [2, 8, 169, 170, 338, 16384] {
            let (data, summary) = split(band_blocks);
            assert_eq!(data + summary, band_blocks);
            assert!(data <= summary * ENTRIES_PER_BLOCK as u64, "{band_blocks}");
            let entries: Vec<_> = (0..data)
                .map(|i| SummaryEntry { disk: DiskId(1), class: ClassId(3), checksum: 1, block: i, sequence: i })
                .collect();
            let mut bytes = vec![0; summary as usize * 4096];
            encode(&[1; 16], 5, 2, &entries, &mut bytes);
            assert_eq!(decode(&[1; 16], 5, 2, &bytes).unwrap(), entries);
            assert!(decode(&[1; 16], 5, 3, &bytes).is_none());
        }
    }
}
