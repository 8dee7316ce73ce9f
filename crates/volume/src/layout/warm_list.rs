//! The list of the copies that a read cache has on the fast tier: with it the cache is warm after a restart (docs/format.md, "Warm list"). Nothing
//! depends on it: each entry is compared with the map, and verified when it is read.

use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::{Id, seal};

/// Where the head lies on the fast device.
pub const HEAD_OFFSET_BYTES: u64 = 24576;
/// Its length in bytes.
pub const HEAD_BYTES: usize = 4096;
/// Most slots of a chunk.
pub const CHUNK_SLOTS_MAX: u64 = 64;
const SLOT_BYTES: usize = 4096;
const HEAD_MAGIC: [u8; 4] = *b"FBWH";
const CHUNK_MAGIC: [u8; 4] = *b"FBWL";
/// Bytes of a chunk before its entries.
const CHUNK_HEADER_BYTES: usize = 64;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 32;
/// Bits of an entry's location: one says that its block is in the main queue, and two count its reads.
const MAIN_BIT: u64 = 1 << 63;
const READS_SHIFT: u32 = 61;
const LOCATION_MASK: u64 = (1 << READS_SHIFT) - 1;

/// Slots that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRun {
    /// The first slot.
    pub first: u64,
    /// How many slots.
    pub slots: u64,
}

/// A copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmEntry {
    /// Disk and block, as `forebay_placement::cache::Key` has them.
    pub key: u64,
    /// Where the block is on the capacity tier, in grains.
    pub location: u64,
    /// Generation of the band that the block is in.
    pub generation: u32,
    /// Where the copy is.
    pub slot: u32,
    /// The checksum of the copy: not the one in the map where the block is stored compressed.
    pub own: u32,
    /// The block was read again since it was copied.
    pub is_main: bool,
    /// How often it was read since then, up to 3.
    pub reads: u8,
}

/// Which list is there, and where its last chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmHead {
    /// Number of the list.
    pub number: u64,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Its chunks.
    pub chunks: u32,
    /// The last one.
    pub last: SlotRun,
    /// What the policy has learned: the share of its small queue, in parts of 2^40.
    pub learned: u64,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmChunk {
    /// Number of the list.
    pub number: u64,
    /// The epoch in which it was written: numbers of lists begin anew where no list was found.
    pub epoch: u64,
    /// Number of the chunk in it, from 0.
    pub index: u32,
    /// The chunk before this one.
    pub previous: Option<SlotRun>,
    /// Copies.
    pub entries: Vec<WarmEntry>,
}

/// Entries that a chunk of so many slots has room for.
#[must_use]
pub fn entries_max(slots: u64) -> usize {
    (slots as usize * SLOT_BYTES).saturating_sub(CHUNK_HEADER_BYTES) / ENTRY_BYTES
}

fn put_run(w: &mut Writer, run: Option<SlotRun>) {
    let run = run.unwrap_or(SlotRun { first: 0, slots: 0 });
    w.u64(run.first);
    w.u32(run.slots as u32);
}

/// A run; with 0 slots there is none.
fn take_run(r: &mut Reader<'_>) -> Option<Option<SlotRun>> {
    let (first, slots) = (r.u64()?, u64::from(r.u32()?));
    (slots <= CHUNK_SLOTS_MAX && first < COUNTER_LIMIT).then_some((slots > 0).then_some(SlotRun { first, slots }))
}

impl WarmHead {
    /// Encodes it.
    #[must_use]
    pub fn encode(&self, pool: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(HEAD_MAGIC, pool);
        w.u64(self.number);
        w.u32(self.chunks);
        put_run(&mut w, Some(self.last));
        w.u64(self.learned);
        w.u64(self.epoch);
        w.bytes.resize(HEAD_BYTES, 0);
        seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes it; `None` where there is none of this pool.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes.get(..HEAD_BYTES)?, HEAD_MAGIC, pool)?;
        let (number, chunks, last, learned) = (r.u64()?, r.u32()?, take_run(&mut r)??, r.u64()?);
        let epoch = r.u64()?;
        let is_good = number < COUNTER_LIMIT && epoch < COUNTER_LIMIT && chunks > 0;
        is_good.then_some(Self { number, epoch, chunks, last, learned })
    }
}

impl WarmChunk {
    /// Encodes it into so many slots, which have room for its entries.
    #[must_use]
    pub fn encode(&self, slots: u64, pool: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(CHUNK_MAGIC, pool);
        w.bytes.reserve(slots as usize * SLOT_BYTES);
        w.u64(self.number);
        w.u32(self.index);
        w.u32(self.entries.len() as u32);
        put_run(&mut w, self.previous);
        w.u64(self.epoch);
        w.bytes.resize(CHUNK_HEADER_BYTES, 0);
        for entry in &self.entries {
            w.u64(entry.key);
            let reads = u64::from(entry.reads.min(3)) << READS_SHIFT;
            w.u64(entry.location & LOCATION_MASK | reads | if entry.is_main { MAIN_BIT } else { 0 });
            [entry.generation, entry.slot, entry.own, 0].into_iter().for_each(|field| w.u32(field));
        }
        w.bytes.resize(slots as usize * SLOT_BYTES, 0);
        seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes one that fills these bytes; `None` where it is none of this pool.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes, CHUNK_MAGIC, pool)?;
        let (number, index, count, previous) = (r.u64()?, r.u32()?, r.u32()? as usize, take_run(&mut r)?);
        let epoch = r.u64()?;
        if number >= COUNTER_LIMIT || count > entries_max((bytes.len() / SLOT_BYTES) as u64) {
            return None;
        }
        let mut r = Reader::new(bytes.get(CHUNK_HEADER_BYTES..)?);
        let entries = (0..count).map(|_| {
            let (key, place) = (r.u64()?, r.u64()?);
            let [generation, slot, own, _] = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
            let (is_main, reads) = (place & MAIN_BIT != 0, (place >> READS_SHIFT & 3) as u8);
            Some(WarmEntry { key, location: place & LOCATION_MASK, generation, slot, own, is_main, reads })
        });
        Some(Self { number, epoch, index, previous, entries: entries.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = WarmEntry> {
        let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
        (any::<u64>(), 0..=LOCATION_MASK, numbers, any::<bool>(), 0u8..4).prop_map(
            |(key, location, numbers, is_main, reads)| {
                let (generation, slot, own) = numbers;
                WarmEntry { key, location, generation, slot, own, is_main, reads }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_or_refused(
            entries in prop::collection::vec(entry(), 0..500),
            (number, index, slots) in (0..COUNTER_LIMIT, any::<u32>(), 4u64..6),
            previous in prop::option::of((0..COUNTER_LIMIT, 1..=CHUNK_SLOTS_MAX)),
            (at, bit) in (0usize..24_000, 0u8..8),
        ) {
            let pool = [3; 16];
            let previous = previous.map(|(first, slots)| SlotRun { first, slots });
            let chunk = WarmChunk { number, epoch: number / 2, index, previous, entries };
            let bytes = chunk.encode(slots, &pool);
            prop_assert_eq!(bytes.len() as u64, slots * SLOT_BYTES as u64);
            prop_assert_eq!(WarmChunk::decode(&bytes, &pool), Some(chunk));
            prop_assert_eq!(WarmChunk::decode(&bytes, &[4; 16]), None);
            let mut damaged = bytes.clone();
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= 1 << bit;
                prop_assert_eq!(WarmChunk::decode(&damaged, &pool), None);
            }
            prop_assert_eq!(WarmChunk::decode(&bytes[..at.min(bytes.len() - 1)], &pool), None);
            let last = SlotRun { first: number, slots };
            let head = WarmHead { number, epoch: number, chunks: index.max(1), last, learned: number };
            let bytes = head.encode(&pool);
            prop_assert_eq!(WarmHead::decode(&bytes, &pool), Some(head));
            let mut damaged = bytes.clone();
            damaged[at % HEAD_BYTES] ^= 1 << bit;
            prop_assert_eq!(WarmHead::decode(&damaged, &pool), None);
        }
    }

    #[test]
    fn impossible_heads_are_refused() {
        let head = WarmHead { number: 1, epoch: 2, chunks: 1, last: SlotRun { first: 9, slots: 1 }, learned: 5 };
        let with = |slots, chunks, number| {
            WarmHead { number, epoch: 2, chunks, last: SlotRun { first: 9, slots }, learned: 5 }.encode(&[3; 16])
        };
        assert_eq!(WarmHead::decode(&with(1, 1, 1), &[3; 16]), Some(head));
        for bytes in [with(0, 1, 1), with(CHUNK_SLOTS_MAX + 1, 1, 1), with(1, 0, 1), with(1, 1, COUNTER_LIMIT)] {
            assert_eq!(WarmHead::decode(&bytes, &[3; 16]), None);
        }
    }
}
