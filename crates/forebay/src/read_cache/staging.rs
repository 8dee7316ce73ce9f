//! The events of a stream that a cache sees: reads of blocks of the capacity tier, and invalidations of copies.
//!
//! A written block is staged on the fast tier and read from there until as many other blocks were written after it as the stage holds.
//! Reads of staged blocks do not involve the cache and count for no policy. After destaging, reads go to the cache, which has no copy then,
//! because the write invalidated it. Discarded blocks are read without any device. A block that was read but never written is on the
//! capacity tier.

use super::requests::{Access, Stream};
use crate::traces::What;
use forebay_placement::cache::{Event, Key};
use std::collections::{HashMap, HashSet, VecDeque};

/// Which reads count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// All reads.
    All,
    /// All reads but those of the block in which one read ended and the next begins: the reader, or its read-ahead, still has that block.
    OnceBetweenRequests,
}

/// Place of a block's newest data, where it is not the capacity tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Staged by the write with this number.
    Staged(u64),
    Discarded,
}

/// The staged blocks in the order of destaging.
struct Staging {
    blocks: HashMap<Key, State>,
    /// Writes, oldest first; only the newest write of a block counts.
    writes: VecDeque<(Key, u64)>,
    staged: usize,
    written: u64,
    staged_max: usize,
}

/// The events of a cache beside a fast tier that stages `staged_max` blocks.
pub fn events(stream: &Stream, staged_max: usize, reads: Reads) -> Vec<Event> {
    let mut staging = Staging { blocks: HashMap::new(), writes: VecDeque::new(), staged: 0, written: 0, staged_max };
    let mut events = Vec::new();
    // Blocks that the cache may know; invalidations of other blocks are no events.
    let mut may_be_known = HashSet::new();
    let ends = |key: Key, events: &mut Vec<Event>, may_be_known: &mut HashSet<Key>| {
        if may_be_known.remove(&key) {
            events.push(Event::Gone(key));
        }
    };
    for &access in &stream.accesses {
        match access.what {
            What::Read => {
                let left_out = usize::from(access.goes_on_inside && reads == Reads::OnceBetweenRequests);
                for key in access.keys().skip(left_out).filter(|key| !staging.blocks.contains_key(key)) {
                    may_be_known.insert(key);
                    events.push(Event::Read(key));
                }
            }
            What::Write => access.keys().for_each(|key| {
                staging.write(key);
                ends(key, &mut events, &mut may_be_known);
            }),
            What::Discard => known_of(stream, access).iter().for_each(|&key| {
                staging.set(key, State::Discarded);
                ends(key, &mut events, &mut may_be_known);
            }),
        }
    }
    events
}

/// The blocks of a request that the stream reads or writes; others need no events.
fn known_of(stream: &Stream, access: Access) -> &[Key] {
    let from = stream.known.partition_point(|&key| key < access.first);
    let to = stream.known.partition_point(|&key| key <= access.last());
    &stream.known[from..to]
}

impl Staging {
    fn set(&mut self, key: Key, state: State) {
        let before = self.blocks.insert(key, state);
        self.staged -= usize::from(matches!(before, Some(State::Staged(_))));
        self.staged += usize::from(matches!(state, State::Staged(_)));
    }

    fn write(&mut self, key: Key) {
        self.written += 1;
        self.set(key, State::Staged(self.written));
        self.writes.push_back((key, self.written));
        while self.staged > self.staged_max
            && let Some((key, number)) = self.writes.pop_front()
        {
            if self.blocks.get(&key) == Some(&State::Staged(number)) {
                self.blocks.remove(&key);
                self.staged -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::Origin;
    use super::*;

    fn access(what: What, first: u64, blocks: u64) -> Access {
        Access { what, ..Access::read(Key::from_bits(first), blocks) }
    }

    fn stream(accesses: &[Access]) -> Stream {
        Stream::of(String::new(), Origin::Made, accesses.to_vec())
    }

    fn reads(accesses: &[Access], staged_max: usize) -> Vec<u64> {
        let read = |event: &Event| match event {
            Event::Read(key) => Some(key.block()),
            Event::Gone(_) => None,
        };
        events(&stream(accesses), staged_max, Reads::All).iter().filter_map(read).collect()
    }

    #[test]
    fn staged_blocks_are_read_past_the_cache_until_they_are_destaged() {
        let write = |block| access(What::Write, block, 1);
        let read = access(What::Read, 1, 1);
        assert_eq!(reads(&[read, write(1), read, write(2), read], 2), [1]);
        assert_eq!(reads(&[write(1), write(2), write(3), read], 2), [1], "three were written, two are staged");
        assert_eq!(reads(&[write(1), write(2), write(1), write(3), read], 2), [0; 0], "written again");
        assert_eq!(reads(&[write(1), write(1), write(1), read], 2), [0; 0], "one block, whatever it was written");
        // An invalidation is an event only where there may be a copy.
        let key = Key::from_bits(1);
        let all = |accesses: &[Access]| events(&stream(accesses), 2, Reads::All);
        assert_eq!(all(&[write(1), write(7)]), []);
        assert_eq!(all(&[read, write(1), write(1)]), [Event::Read(key), Event::Gone(key)]);
    }

    #[test]
    fn discarded_blocks_are_read_without_a_device_and_take_no_room() {
        let discard = access(What::Discard, 0, 10);
        let all = access(What::Read, 0, 12);
        assert_eq!(reads(&[access(What::Write, 3, 1), discard, all], 1), [10, 11]);
        let writes = [access(What::Write, 3, 1), discard, access(What::Write, 11, 1), access(What::Read, 11, 1)];
        assert_eq!(reads(&writes, 1), [0; 0]);
        assert_eq!(reads(&[discard, access(What::Write, 4, 1), access(What::Write, 5, 1), all], 1), [4, 10, 11]);
    }
    #[test]
    fn a_block_between_two_requests_is_read_once_where_that_is_asked_for() {
        let second = Access { goes_on_inside: true, ..access(What::Read, 16, 17) };
        let stream = stream(&[access(What::Read, 0, 17), second]);
        assert_eq!(events(&stream, 0, Reads::All).len(), 34);
        assert_eq!(events(&stream, 0, Reads::OnceBetweenRequests).len(), 33);
    }
}
