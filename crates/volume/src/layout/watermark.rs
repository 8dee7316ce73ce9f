//! The lazily written watermark block: evidence, outside the journal, of how far the journal was durable.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};

/// Offsets of the two copies on the fast device, written in turn.
pub const OFFSETS_BYTES: [u64; 2] = [4096, 8192];
const MAGIC: [u8; 4] = *b"FBWM";
/// Words of exceptions that a block has room for, behind 48 bytes: more than there can be batches in the unflushed part of a journal.
const WORDS_MAX: usize = (4096 - 48) / 8;

/// All batches up to `batch` of `epoch` were durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Epoch of the journal.
    pub epoch: u64,
    /// Last batch of the contiguous durable run.
    pub batch: u64,
    /// Bit i of word w: batch `batch + 2 + 64 w + i` was durable too. One batch that is late must not hide all that came after it. There are at most 506.
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

    /// Decodes a block of this pool; `None` where it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes, MAGIC, pool)?;
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
}
