//! What a cache sees of a stream: reads of blocks of the capacity tier, and the end of their copies.
//!
//! What hosts write is staged on the fast tier until as many other blocks were written after it as that has room for, and is read from there.
//! The cache has no part in that: such reads count for nobody. Once it is destaged a read of it is the cache's, which has no copy
//! by then, for the write ended it. What was discarded is read without any device. A block that was read but never written before
//! is on the capacity tier.

use super::requests::{Access, What};
use forebay_placement::cache::{Event, Key};
use std::collections::{HashMap, VecDeque};

/// Where the newest data of a block is, if not on the capacity tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Staged by the write of this number.
    Staged(u64),
    Discarded,
}

/// What is staged, and which write is next to be destaged.
struct Staging {
    blocks: HashMap<Key, State>,
    /// Writes, the oldest first; only a block's newest counts.
    writes: VecDeque<(Key, u64)>,
    staged: usize,
    written: u64,
}

/// The events of a cache beside a fast tier that stages so many blocks.
pub fn events(accesses: &[Access], staged_max: u32) -> Vec<Event> {
    let mut staging = Staging { blocks: HashMap::new(), writes: VecDeque::new(), staged: 0, written: 0 };
    let mut events = Vec::new();
    for &access in accesses {
        for key in access.keys() {
            match access.what {
                What::Read if staging.blocks.contains_key(&key) => {}
                What::Read => events.push(Event::Read(key)),
                What::Write => {
                    staging.write(key, staged_max);
                    events.push(Event::Gone(key));
                }
                What::Discard => {
                    staging.set(key, State::Discarded);
                    events.push(Event::Gone(key));
                }
            }
        }
    }
    events
}

impl Staging {
    fn set(&mut self, key: Key, state: State) {
        let before = self.blocks.insert(key, state);
        self.staged -= usize::from(matches!(before, Some(State::Staged(_))));
        self.staged += usize::from(matches!(state, State::Staged(_)));
    }

    fn write(&mut self, key: Key, staged_max: u32) {
        self.written += 1;
        self.set(key, State::Staged(self.written));
        self.writes.push_back((key, self.written));
        while self.staged > staged_max as usize
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
    use super::*;

    fn access(what: What, first: u64, blocks: u32) -> Access {
        Access { what, first: Key::from_bits(first), blocks }
    }

    fn reads(accesses: &[Access], staged_max: u32) -> Vec<u64> {
        let read = |event: &Event| match event {
            Event::Read(key) => Some(key.block()),
            Event::Gone(_) => None,
        };
        events(accesses, staged_max).iter().filter_map(read).collect()
    }

    #[test]
    fn staged_blocks_are_read_past_the_cache_until_they_are_destaged() {
        let write = |block| access(What::Write, block, 1);
        let read = access(What::Read, 1, 1);
        assert_eq!(reads(&[read, write(1), read, write(2), read], 2), [1]);
        assert_eq!(reads(&[write(1), write(2), write(3), read], 2), [1], "three were written, two are staged");
        assert_eq!(reads(&[write(1), write(2), write(1), write(3), read], 2), [0; 0], "written again");
        assert_eq!(reads(&[write(1), write(1), write(1), read], 2), [0; 0], "one block, whatever it was written");
        assert_eq!(events(&[write(7)], 2), [Event::Gone(Key::from_bits(7))]);
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
}
