//! Sequential readers: who goes on reading where it left off, and how far ahead of it to read.

use super::sequences::Sequences;

/// Something is read ahead of a reader after this many requests in a row, and this many blocks read by them.
const REQUESTS_MIN: u32 = 4;
const BLOCKS_MIN: u64 = 128;
/// Requests that may be in flight at once and overtake one another.
const OVERTAKING_REQUESTS: u64 = 4;
/// Furthest that a request may begin from the end of its sequence, in blocks.
const SLACK_MAX_BLOCKS: u64 = 256;
/// Most blocks that are read ahead of a reader, and the part of what it has read in a row: where it stops, no more than that was read in vain.
const AHEAD_MAX_BLOCKS: u64 = 256;
const AHEAD_PART: u64 = 4;

/// What to read for a reader: from block `from` on, what it has asked for up to `asked_end`, and what it has not asked for yet up to `ahead_end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub reader: u32,
    pub from: u64,
    pub asked_end: u64,
    pub ahead_end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reader {
    id: u32,
    /// What it has read in a row.
    requests: u32,
    blocks: u64,
    /// Up to this block it is decided what to read for the reader.
    planned: u64,
}

/// The readers that had a request most recently.
#[derive(Debug, Default)]
pub(super) struct Readers {
    list: Sequences<Reader>,
    next_id: u32,
}

impl Readers {
    /// A request for blocks arrives. Returns what to read where it is one of a sequence.
    pub fn read(&mut self, disk: u16, block: u64, blocks: u64) -> Option<Reach> {
        let slack = (OVERTAKING_REQUESTS * blocks).min(SLACK_MAX_BLOCKS);
        let Some(sequence) = self.list.continued(disk, block, slack) else {
            let new = Reader { id: self.next_id, requests: 1, blocks, planned: 0 };
            self.next_id = self.next_id.wrapping_add(1);
            self.list.begin(disk, block + blocks, new);
            return None;
        };
        let reader = &mut sequence.known;
        // A request that was overtaken, or that reads the same blocks again, is no progress.
        let progress = (block + blocks).saturating_sub(sequence.end).min(blocks);
        if progress > 0 {
            sequence.end = block + blocks;
            reader.blocks += progress;
            reader.requests = reader.requests.saturating_add(1);
        }
        if reader.requests < REQUESTS_MIN || reader.blocks < BLOCKS_MIN {
            return None;
        }
        let ahead = (reader.blocks / AHEAD_PART).min(AHEAD_MAX_BLOCKS);
        reader.planned = reader.planned.max(block);
        Some(Reach {
            reader: reader.id,
            from: reader.planned,
            asked_end: sequence.end,
            ahead_end: sequence.end + ahead,
        })
    }

    fn known(&mut self, id: u32) -> Option<&mut Reader> {
        self.list.known_mut().find(|reader| reader.id == id)
    }

    /// Notes that it is decided what to read for a reader up to `block`.
    pub fn planned(&mut self, reader: u32, block: u64) {
        if let Some(reader) = self.known(reader) {
            reader.planned = reader.planned.max(block);
        }
    }

    /// What was read ahead of a reader was in vain, or could not be read: the reader has to read in a row again first.
    pub fn restart(&mut self, reader: u32) {
        if let Some(reader) = self.known(reader) {
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
            assert_eq!(reach.map(|reach| reach.ahead_end), expected, "{block}");
        }
        readers.planned(0, 195);
        let late = readers.read(1, 192, 32);
        assert_eq!(
            late,
            Some(Reach { reader: 0, from: 195, asked_end: 224, ahead_end: 224 + 48 }),
            "one before it is late"
        );
        assert_eq!(readers.read(1, 160, 32), Some(Reach { reader: 0, from: 195, asked_end: 224, ahead_end: 224 + 48 }));
        assert_eq!(readers.read(2, 224, 32), None, "another disk");
        for block in (224..10_000).step_by(32) {
            readers.read(1, block, 32);
        }
        let far = readers.read(1, 10_016, 32).unwrap();
        assert_eq!(far.ahead_end - far.asked_end, AHEAD_MAX_BLOCKS);
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
        /// Against its definition: never more is read ahead than a quarter of what was read in a row, and never
        /// anything twice.
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
                    prop_assert!(reach.from >= decided && reach.asked_end == block + blocks);
                    prop_assert!(reach.ahead_end - reach.asked_end <= (read / AHEAD_PART).min(AHEAD_MAX_BLOCKS));
                    decided = reach.ahead_end;
                    readers.planned(reach.reader, decided);
                }
                block += blocks;
            }
        }
    }
}
