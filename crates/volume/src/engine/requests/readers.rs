//! Sequential readers: who reads on where it left off, and how far ahead of it to read.

/// Readers followed on all disks together.
const READERS_MAX: usize = 16;
/// Requests in a row, and blocks that they read, from which on something is read ahead.
const REQUESTS_MIN: u32 = 4;
const BLOCKS_MIN: u64 = 128;
/// Requests that may be on their way at once and overtake one another.
const OVERTAKING_REQUESTS: u64 = 4;
/// Furthest that a request may lie from the end of its sequence all the same, in blocks.
const SLACK_MAX_BLOCKS: u64 = 256;
/// Most blocks read ahead of a reader, and the part of what it has read in a row: where it stops, no more than that was for
/// nothing.
const AHEAD_MAX_BLOCKS: u64 = 256;
const AHEAD_PART: u64 = 4;

/// What to read for a reader, beside what it asks for: the blocks from `from` on, those that it asks for to `end`, and what it
/// has not asked for yet to `reach`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub reader: u32,
    pub from: u64,
    pub end: u64,
    pub reach: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reader {
    id: u32,
    disk: u16,
    /// Block behind its furthest request.
    end: u64,
    /// What it has read in a row.
    requests: u32,
    blocks: u64,
    /// Up to here it is decided what to read.
    planned: u64,
    /// When it last came, in requests.
    used: u64,
}

/// The readers that came last.
#[derive(Debug, Default)]
pub(super) struct Readers {
    list: Vec<Reader>,
    clock: u64,
    next_id: u32,
}

impl Readers {
    /// A request for blocks comes; what to read where it is one of a sequence.
    pub fn read(&mut self, disk: u16, block: u64, blocks: u64) -> Option<Reach> {
        self.clock += 1;
        let slack = (OVERTAKING_REQUESTS * blocks).min(SLACK_MAX_BLOCKS);
        let near = |reader: &&mut Reader| reader.disk == disk && reader.end.abs_diff(block) <= slack;
        let Some(reader) = self.list.iter_mut().find(near) else {
            self.begin(disk, block + blocks, blocks);
            return None;
        };
        reader.used = self.clock;
        // One that was overtaken, or reads again what was read, is no progress.
        let progress = (block + blocks).saturating_sub(reader.end).min(blocks);
        if progress > 0 {
            reader.end = block + blocks;
            reader.blocks += progress;
            reader.requests = reader.requests.saturating_add(1);
        }
        if reader.requests < REQUESTS_MIN || reader.blocks < BLOCKS_MIN {
            return None;
        }
        let ahead = (reader.blocks / AHEAD_PART).min(AHEAD_MAX_BLOCKS);
        reader.planned = reader.planned.max(block);
        Some(Reach { reader: reader.id, from: reader.planned, end: reader.end, reach: reader.end + ahead })
    }

    fn begin(&mut self, disk: u16, end: u64, blocks: u64) {
        let new = Reader { id: self.next_id, disk, end, requests: 1, blocks, planned: 0, used: self.clock };
        self.next_id = self.next_id.wrapping_add(1);
        if self.list.len() < READERS_MAX {
            self.list.push(new);
        } else if let Some(oldest) = self.list.iter_mut().min_by_key(|reader| reader.used) {
            *oldest = new;
        }
    }

    /// For a reader it is decided what to read up to a block.
    pub fn planned(&mut self, reader: u32, block: u64) {
        if let Some(reader) = self.list.iter_mut().find(|known| known.id == reader) {
            reader.planned = reader.planned.max(block);
        }
    }

    /// What was read ahead of a reader was for nothing, or could not be read: it has to read in a row again first.
    pub fn restart(&mut self, reader: u32) {
        if let Some(reader) = self.list.iter_mut().find(|known| known.id == reader) {
            (reader.requests, reader.blocks) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reader_is_one_after_four_requests_and_is_read_ahead_of_by_a_quarter() {
        let mut readers = Readers::default();
        for (block, expected) in [(0, None), (32, None), (64, None), (96, Some(160)), (128, Some(200))] {
            let reach = readers.read(1, block, 32);
            assert_eq!(reach.map(|reach| reach.reach), expected, "{block}");
        }
        readers.planned(0, 195);
        let late = readers.read(1, 192, 32);
        assert_eq!(late, Some(Reach { reader: 0, from: 195, end: 224, reach: 224 + 48 }), "one before it is late");
        assert_eq!(readers.read(1, 160, 32), Some(Reach { reader: 0, from: 195, end: 224, reach: 224 + 48 }));
        assert_eq!(readers.read(2, 224, 32), None, "another disk");
        for block in (224..10_000).step_by(32) {
            readers.read(1, block, 32);
        }
        let far = readers.read(1, 10_016, 32).unwrap();
        assert_eq!(far.reach - far.end, AHEAD_MAX_BLOCKS);
        readers.restart(0);
        assert_eq!(readers.read(1, 10_048, 32), None);
    }

    #[test]
    fn small_requests_are_in_a_row_only_where_they_follow_closely() {
        let mut readers = Readers::default();
        let reached = (0..200).filter(|&block| readers.read(1, block, 1).is_some()).count();
        assert_eq!(reached, 200 - 127);
        let mut readers = Readers::default();
        assert!((0..1000).all(|i| readers.read(1, i * 7919 % 65_536, 1).is_none()), "random reads are no sequence");
    }

    proptest! {
        /// Held against its definition: never more is read ahead than a quarter of what came in a row, and never anything
        /// twice.
        #[test]
        fn no_more_is_read_ahead_than_was_read(requests in prop::collection::vec((0u64..4, 1u64..64), 1..300)) {
            let mut readers = Readers::default();
            let (mut block, mut read, mut decided) = (0, 0, 0);
            for (jump, blocks) in requests {
                if jump == 0 && read > 1000 {
                    (block, read, decided) = (block + 1_000_000, 0, 0);
                }
                read += blocks;
                if let Some(reach) = readers.read(1, block, blocks) {
                    prop_assert!(reach.from >= decided && reach.end == block + blocks);
                    prop_assert!(reach.reach - reach.end <= (read / AHEAD_PART).min(AHEAD_MAX_BLOCKS));
                    decided = reach.reach;
                    readers.planned(reach.reader, decided);
                }
                block += blocks;
            }
        }
    }
}
