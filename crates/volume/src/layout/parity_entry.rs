//! An entry of the log of rows that are not whole yet: parity of those blocks of a row that were written, with their checksums. The others count as
//! zeros. So the blocks of a row survive the loss of a device even while others are being written beside them.

use super::array_label::ArrayLabel;
use super::codec::{COUNTER_LIMIT, Reader, Writer};
use super::{Id, is_sealed};
use forebay_block::checksum::content_checksum;

/// Length of an entry in bytes: a header of 4 KiB, and the block of parity.
pub const ENTRY_BYTES: usize = 8192;
const HEADER_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"FBPE";

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityEntry {
    /// Counts up; of two entries of a row the higher one is newer.
    pub sequence: u64,
    /// The row.
    pub row: u64,
    /// One bit for each block of data that it covers; none where it only supersedes an older entry.
    pub covered: u32,
    /// Checksums of these blocks, 0 for the others.
    pub checksums: Vec<u32>,
    /// The number of its block of parity.
    pub number: u8,
    /// That block.
    pub parity: Vec<u8>,
}

impl ParityEntry {
    /// Encodes it, for a member with this id.
    #[must_use]
    pub fn encode(&self, pool: &Id, member: &Id) -> Vec<u8> {
        let mut w = Writer::of_pool(MAGIC, pool);
        w.bytes.extend_from_slice(member);
        w.u64(self.sequence);
        w.u64(self.row);
        w.u32(self.covered);
        w.u8(self.number);
        w.bytes.extend_from_slice(&[0; 3]);
        w.u32(content_checksum(&self.parity));
        for &checksum in &self.checksums {
            w.u32(checksum);
        }
        w.bytes.resize(HEADER_BYTES, 0);
        super::seal(&mut w.bytes);
        w.bytes.extend_from_slice(&self.parity);
        w.bytes
    }

    /// Decodes an entry of a member of an array; `None` where it is none, or torn.
    #[must_use]
    pub fn decode(bytes: &[u8], label: &ArrayLabel, member: usize) -> Option<Self> {
        let shape = &label.shape;
        let (header, parity) = bytes.get(..ENTRY_BYTES)?.split_at(HEADER_BYTES);
        if !is_sealed(header, MAGIC) {
            return None;
        }
        let mut r = Reader::of_pool(header, MAGIC, &label.pool)?;
        // An entry may be left there from before the member was rebuilt.
        if r.id().as_ref() != label.ids.get(member) {
            return None;
        }
        let (sequence, row) = (r.u64()?, r.u64()?);
        let (covered, number) = (r.u32()?, r.u8()?);
        r.take(3)?;
        let parity_checksum = r.u32()?;
        let checksums: Vec<u32> = (0..shape.data).map(|_| r.u32()).collect::<Option<_>>()?;
        let is_good = sequence < COUNTER_LIMIT
            && row < shape.rows()
            && covered >> shape.data == 0
            && shape.role(row, member) == shape.data + usize::from(number)
            && parity_checksum == content_checksum(parity);
        is_good.then(|| Self { sequence, row, covered, checksums, number, parity: parity.to_vec() })
    }
}
