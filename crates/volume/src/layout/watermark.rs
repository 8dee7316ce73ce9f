//! The lazily written watermark block: evidence, outside the journal, of how far the journal was durable.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};
use forebay_block::SECTOR_BYTES;

/// Offsets of the two copies on the fast device, written in turn.
pub const OFFSETS_BYTES: [u64; 2] = [4096, 8192];
const MAGIC: [u8; 4] = *b"FBWM";
/// Most words of exceptions: the first sector has room for them behind 48 bytes, and a sector is written whole or not at all.
const WORDS_MAX: usize = (SECTOR_BYTES - 48) / 8;

/// All batches up to `batch` of `epoch` were durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Epoch of the journal.
    pub epoch: u64,
    /// Last batch of the contiguous durable run.
    pub batch: u64,
    /// Bit i of word w: batch `batch + 2 + 64 w + i` was durable too. One late batch must not hide all that came after it. At most 58 words.
    pub exceptions: Vec<u64>,
    /// Counts up with each write.
    pub serial: u64,
}

impl Watermark {
    /// Encodes one block.
    #[must_use]
    pub fn encode(&self, pool: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(MAGIC, pool);
        w.u64(self.epoch);
        w.u64(self.batch);
        w.u64(self.serial);
        self.exceptions.iter().take(WORDS_MAX).for_each(|&word| w.u64(word));
        w.bytes.resize(4096, 0);
        super::seal(&mut w.bytes);
        w.bytes
    }

    /// Whether a block was a mark of this pool and is damaged now. All of a mark is in its first sector, which is written whole or not at all: a crash
    /// leaves the former mark or the new one, never half of one. A block that never was a mark is not damaged.
    #[must_use]
    pub fn is_damaged(bytes: &[u8], pool: &Id) -> bool {
        let Some(alone) = Self::first_sector(bytes) else { return false };
        let was_mark = alone.starts_with(&MAGIC) || alone[8..].starts_with(pool);
        was_mark && !super::is_sealed(&alone, MAGIC)
    }

    /// The first sector, with zeros behind it: what lies there on the device, from before the first mark, means nothing.
    fn first_sector(bytes: &[u8]) -> Option<Vec<u8>> {
        let mut alone = bytes.get(..SECTOR_BYTES)?.to_vec();
        alone.resize(4096, 0);
        Some(alone)
    }

    /// Decodes a block of this pool; `None` where it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let alone = Self::first_sector(bytes)?;
        let mut r = Reader::of_pool(&alone, MAGIC, pool)?;
        let (epoch, batch, serial) = (r.u64()?, r.u64()?, r.u64()?);
        let mut exceptions = (0..WORDS_MAX).map(|_| r.u64()).collect::<Option<Vec<u64>>>()?;
        exceptions.truncate(exceptions.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1));
        let is_possible = [epoch, batch, serial].iter().all(|&counter| counter < COUNTER_LIMIT);
        is_possible.then_some(Self { epoch, batch, exceptions, serial })
    }

    /// The batches beyond the contiguous run that were durable.
    pub fn durable_beyond(&self) -> impl Iterator<Item = u64> {
        let first = self.batch + 2;
        (0u64..).zip(&self.exceptions).flat_map(move |(word, &bits)| {
            (0..64).filter(move |i| bits >> i & 1 == 1).map(move |i| first + 64 * word + i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_of_each_batch_what_it_was_given() {
        let pool = [7; 16];
        for words in [vec![], vec![1], vec![0, 1 << 63], vec![u64::MAX; WORDS_MAX]] {
            let mark = Watermark { epoch: 3, batch: 100, exceptions: words, serial: 9 };
            assert_eq!(Watermark::decode(&mark.encode(&pool), &pool), Some(mark));
        }
        let mark = Watermark { epoch: 3, batch: 100, exceptions: vec![0b101, 1 << 63], serial: 9 };
        assert_eq!(mark.durable_beyond().collect::<Vec<_>>(), [102, 104, 102 + 127]);
    }

    /// `verify` did not report a damaged block, though the mark is half of what distinguishes a lost write from damage.
    #[test]
    fn regression_a_damaged_watermark_block_is_no_torn_one() {
        let pool = [7; 16];
        let mark = |serial| Watermark { epoch: 3, batch: 40, exceptions: vec![5], serial }.encode(&pool);
        let good = mark(1);
        for at in (0..64).filter(|at| !(4..8).contains(at)).map(|at| at * 8 + 1).chain([40, 200]) {
            let mut bytes = good.clone();
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Watermark::is_damaged(&bytes, &pool), "bit {at}");
            assert_eq!(Watermark::decode(&bytes, &pool), None);
        }
        // What a crash or the time before may leave: any sectors of any marks, or of what was there before the first.
        let other = Watermark { epoch: 1, batch: 1, exceptions: vec![], serial: 9 }.encode(&[8; 16]);
        for before in [vec![0; 4096], vec![0xa5; 4096], other, mark(2)] {
            for survivors in 0..=255_u8 {
                let mut bytes = before.clone();
                for sector in (0..8).filter(|sector| survivors >> sector & 1 == 1) {
                    let at = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                    bytes[at.clone()].copy_from_slice(&good[at]);
                }
                assert!(!Watermark::is_damaged(&bytes, &pool), "{survivors:08b}");
            }
        }
        assert!(!Watermark::is_damaged(&[], &pool));
    }
}
