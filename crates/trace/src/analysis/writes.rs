//! The writes and discards that an analysis has seen, so that a sizing needs no second pass over the trace, nor the classifier again.
//!
//! Each part of a request that belongs to one row takes 16 bytes. There is a limit: if a trace has more, nothing is kept, and the trace is
//! read again.

use super::blocks::BLOCK_BYTES;
use super::rows::Part;
use super::sampling::address;
use crate::Request;

/// Entries for which memory is allocated at a time; kept entries are never moved.
const CHUNK: usize = 1 << 13;
/// The part of a block's address that identifies it within its volume.
const BLOCK_MASK: u64 = (1 << 44) - 1;

/// Flags of an entry: the continuation of a write, or a discard. Without a flag, a write begins, and `what` is the row of its first part.
const GOES_ON: u16 = 1 << 14;
const DISCARD: u16 = 1 << 15;

/// A part of a write, or a discard.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    /// Bytes of the write, in its first entry; of a discard, the lower bits of the number of blocks.
    low: u32,
    /// Blocks of the part; of a discard, the upper bits of the number of blocks.
    high: u16,
    what: u16,
}

/// The steps of a sizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A write of this many bytes begins; its parts follow.
    Begin(u64),
    /// A part of a write: volume, first block, number of blocks, row.
    Part(u32, u64, u64, u16),
    /// A discard: volume, first block that loses its data, number of blocks.
    Discard(u32, u64, u64),
}

/// Writes and discards of a trace, in order.
#[derive(Debug, Default)]
pub struct Writes {
    chunks: Vec<Vec<Entry>>,
    entries_max: usize,
    /// Names of the rows by row number.
    pub(super) names: Vec<String>,
}

impl Writes {
    /// An empty list that takes at most `memory_bytes`.
    pub(super) fn within(memory_bytes: u64) -> Self {
        let entries_max = usize::try_from(memory_bytes / size_of::<Entry>() as u64).unwrap_or(usize::MAX);
        Self { entries_max, ..Self::default() }
    }

    /// Keeps a write; true if there was room.
    pub(super) fn write(&mut self, request: &Request, first: u64, parts: &[Part]) -> bool {
        let (mut block, mut low, mut goes_on) = (first, u32::try_from(request.len_bytes), 0);
        for part in parts {
            let (Ok(len_bytes), Ok(high)) = (low, u16::try_from(part.blocks)) else { return false };
            let entry =
                Entry { address: address(request.volume, block), low: len_bytes, high, what: part.row | goes_on };
            if part.row >= GOES_ON || !self.push(entry) {
                return false;
            }
            (block, low, goes_on) = (block + part.blocks, Ok(0), GOES_ON);
        }
        true
    }

    /// Keeps a discard; true if there was room.
    pub(super) fn discard(&mut self, request: &Request) -> bool {
        let Some((first, blocks)) = whole_blocks(request) else { return true };
        let Ok(high) = u16::try_from(blocks >> u32::BITS) else { return false };
        self.push(Entry { address: address(request.volume, first), low: blocks as u32, high, what: DISCARD })
    }

    fn push(&mut self, entry: Entry) -> bool {
        if let Some(chunk) = self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            chunk.push(entry);
            return true;
        }
        if self.chunks.len() * CHUNK >= self.entries_max {
            return false;
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        chunk.push(entry);
        self.chunks.push(chunk);
        true
    }

    /// All steps, in groups of about `at_a_time`.
    pub(super) fn steps(&self, at_a_time: usize) -> impl Iterator<Item = impl Iterator<Item = Step> + Clone> {
        self.chunks.iter().flat_map(move |chunk| chunk.chunks(at_a_time)).map(|entries| {
            entries.iter().flat_map(|&Entry { address, low, high, what }| {
                let (volume, block) = ((address >> 44) as u32, address & BLOCK_MASK);
                if what == DISCARD {
                    let blocks = u64::from(high) << u32::BITS | u64::from(low);
                    return [Some(Step::Discard(volume, block, blocks)), None].into_iter().flatten();
                }
                let begins = (what & GOES_ON == 0).then_some(Step::Begin(low.into()));
                let part = Step::Part(volume, block, high.into(), what & !GOES_ON);
                [begins, Some(part)].into_iter().flatten()
            })
        })
    }
}

/// The first block whose data a discard removes, and the number of blocks; only blocks that are covered completely lose their data.
pub(super) fn whole_blocks(request: &Request) -> Option<(u64, u64)> {
    let first = request.offset_bytes.div_ceil(BLOCK_BYTES);
    Some((first, (request.end_bytes() / BLOCK_BYTES).checked_sub(first)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn parts(rows: &[(u64, u16)]) -> Vec<Part> {
        rows.iter().map(|&(blocks, row)| Part { blocks, row, behaviour: None }).collect()
    }

    fn all(writes: &Writes) -> Vec<Step> {
        writes.steps(3).flatten().collect()
    }

    #[test]
    fn steps_are_those_that_were_kept() {
        let mut writes = Writes::within(1 << 20);
        let volume = (1 << 20) - 1;
        let write =
            |block: u64, len_bytes| Request { volume, ..Request::new(0, Op::Write, block * 4096 + 512, len_bytes) };
        let (last, most) = ((1 << 44) - 1, 64 << 20);
        assert!(writes.write(&write(last, 100), last, &parts(&[(1, 4095)])));
        assert!(writes.write(&write(5, most), 5, &parts(&[(16_384, 0), (1, 7)])));
        assert!(writes.discard(&Request { volume, ..Request::new(0, Op::Discard, 1, 1 << 56) }));
        assert!(writes.discard(&Request::new(0, Op::Discard, 1, 4096)));
        let wanted = [
            Step::Begin(100),
            Step::Part(volume, last, 1, 4095),
            Step::Begin(most),
            Step::Part(volume, 5, 16_384, 0),
            Step::Part(volume, 5 + 16_384, 1, 7),
            Step::Discard(volume, 1, (1 << 44) - 1),
            Step::Discard(0, 1, 0),
        ];
        assert_eq!(all(&writes), wanted);
    }

    #[test]
    fn there_are_no_more_than_the_bound() {
        let mut writes = Writes::within(2 * 16 * CHUNK as u64);
        let request = Request::new(0, Op::Write, 0, 4096);
        assert!((0..2 * CHUNK).all(|_| writes.write(&request, 0, &parts(&[(1, 0)]))));
        assert!(!writes.write(&request, 0, &parts(&[(1, 0)])) && !writes.discard(&request));
        assert_eq!(all(&writes).len(), 4 * CHUNK);
    }
}
