//! The lazily written watermark block: evidence, outside the journal, of how far the journal was durable.

use super::Id;
use super::codec::COUNTER_LIMIT;
use super::codec::{Reader, Writer};

/// Offsets of the two copies on the fast device, written in turn.
pub const OFFSETS_BYTES: [u64; 2] = [4096, 8192];
const MAGIC: [u8; 4] = *b"FBWM";

/// All batches up to `batch` of `epoch` were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Epoch of the journal.
    pub epoch: u64,
    /// Last batch of the contiguous durable run.
    pub batch: u64,
    /// Bit i: batch `batch + 2 + i` was durable too. One batch that is late must not hide all that came after it.
    pub exceptions: u64,
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
        w.u64(self.exceptions);
        w.bytes.resize(4096, 0);
        super::seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes a block of this pool; `None` where it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        let mut r = Reader::of_pool(bytes, MAGIC, pool)?;
        let (epoch, batch, serial) = (r.u64()?, r.u64()?, r.u64()?);
        let mark = Self { epoch, batch, exceptions: r.u64()?, serial };
        [mark.epoch, mark.batch, mark.serial].iter().all(|&counter| counter < COUNTER_LIMIT).then_some(mark)
    }
}
