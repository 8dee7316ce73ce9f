//! Groups of bands that were read ahead of sequential readers: in memory, or on their way there.
//!
//! Nothing here is trusted. A read that is served from here has looked its blocks up in the map before, and compares
//! their checksums; where they differ it reads from the device.

use crate::space::groups::GroupKey;
use forebay_block::{BLOCK_BYTES as BLOCK, Buf};
use std::collections::BTreeMap;

/// A part of a read that waits for a group.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub piece: u32,
    pub part: u16,
    /// Its first block in the group.
    pub at: u32,
    pub buf: Buf,
}

/// The result of `Ahead::take`.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The buffer, with the bytes.
    Filled(Buf),
    /// The group is on its way.
    Waits,
    /// The group is not here: the buffer is returned.
    Not(Buf),
}

#[derive(Debug)]
enum State {
    Coming(Vec<Waiter>),
    Here(Buf),
}

#[derive(Debug)]
struct Group {
    /// The generation of its band when it was requested: in a later one other data lies there.
    generation: u32,
    state: State,
    /// The reader for which it was read.
    reader: u32,
    /// Blocks that the reader is expected to ask for; `used`: those asked for so far, one bit each.
    wanted: u32,
    used: u64,
    /// When it was last used.
    touched: u64,
}

impl Group {
    fn is_used_up(&self) -> bool {
        self.used.count_ones() >= self.wanted
    }

    fn fill(&self, at: u32, buf: &mut Buf) -> bool {
        let State::Here(bytes) = &self.state else { return false };
        let from = at as usize * BLOCK;
        let Some(source) = bytes.get(from..from + buf.len()) else { return false };
        buf.copy_from_slice(source);
        true
    }
}

/// The groups.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    groups: BTreeMap<GroupKey, Group>,
    /// Most groups that there may be.
    limit: usize,
    clock: u64,
}

impl Ahead {
    /// At most `limit` groups.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a group may be requested: it is neither here nor on its way. A group that is here from an earlier
    /// generation is removed.
    pub fn lacks(&mut self, key: GroupKey, generation: u32) -> bool {
        let Some(group) = self.groups.get(&key) else { return true };
        let is_stale = group.generation != generation && matches!(group.state, State::Here(_));
        if is_stale {
            self.groups.remove(&key);
        }
        is_stale
    }

    /// Whether a group of this generation of its band is here or on its way.
    pub fn holds(&self, key: GroupKey, generation: u32) -> bool {
        self.groups.get(&key).is_some_and(|group| group.generation == generation)
    }

    /// Makes room for one more group; false where that is impossible. `wasted` gets the reader of a group that is
    /// dropped before half of it was used.
    pub fn make_room(&mut self, mut wasted: impl FnMut(u32)) -> bool {
        if self.groups.len() < self.limit {
            return true;
        }
        let here = self.groups.iter().filter(|(_, group)| matches!(group.state, State::Here(_)));
        let Some((&key, _)) = here.min_by_key(|(_, group)| group.touched) else { return false };
        if let Some(group) = self.groups.remove(&key)
            && 2 * group.used.count_ones() < group.wanted
        {
            wasted(group.reader);
        }
        self.groups.len() < self.limit
    }

    /// Notes that a group was requested for a reader, which is expected to want `wanted` of its blocks.
    pub fn begin(&mut self, key: GroupKey, generation: u32, reader: u32, wanted: u32) {
        self.clock += 1;
        let state = State::Coming(Vec::new());
        let group = Group { generation, state, reader, wanted, used: 0, touched: self.clock };
        self.groups.insert(key, group);
    }

    /// A part of a read wants blocks of a group, from `waiter.at` on, as of this generation.
    pub fn take(&mut self, key: GroupKey, generation: u32, waiter: Waiter) -> Taken {
        self.clock += 1;
        let Some(group) = self.groups.get_mut(&key).filter(|group| group.generation == generation) else {
            return Taken::Not(waiter.buf);
        };
        group.touched = self.clock;
        let Waiter { at, mut buf, .. } = waiter;
        for block in at..at + (buf.len() / BLOCK) as u32 {
            group.used |= 1u64.checked_shl(block).unwrap_or(0);
        }
        if let State::Coming(waiters) = &mut group.state {
            waiters.push(Waiter { buf, ..waiter });
            return Taken::Waits;
        }
        if !group.fill(at, &mut buf) {
            return Taken::Not(buf);
        }
        if group.is_used_up() {
            self.groups.remove(&key);
        }
        Taken::Filled(buf)
    }

    /// The read of a group has ended. Returns its waiters, and whether their buffers have its bytes. Where it failed
    /// the group is removed, and `failed` gets its reader.
    pub fn arrived(&mut self, key: GroupKey, bytes: Option<Buf>, failed: impl FnOnce(u32)) -> (Vec<Waiter>, bool) {
        let Some(group) = self.groups.get_mut(&key) else { return (Vec::new(), false) };
        let is_good = bytes.is_some();
        let arrived = State::Here(bytes.unwrap_or_else(Buf::empty));
        let mut waiters = match std::mem::replace(&mut group.state, arrived) {
            State::Coming(waiters) => waiters,
            State::Here(_) => Vec::new(),
        };
        let filled = waiters.iter_mut().fold(is_good, |good, waiter| good & group.fill(waiter.at, &mut waiter.buf));
        if !filled {
            failed(group.reader);
        }
        if !filled || group.is_used_up() {
            self.groups.remove(&key);
        }
        (waiters, filled)
    }

    /// A group does not hold what the map names: nothing more is served from it. Returns its reader.
    pub fn forget(&mut self, key: GroupKey) -> Option<u32> {
        let reader = self.groups.get(&key)?.reader;
        // A group that is on its way stays.
        self.groups.retain(|&other, group| other != key || matches!(group.state, State::Coming(_)));
        Some(reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiter(piece: u32, at: u32, blocks: usize) -> Waiter {
        Waiter { piece, part: 0, at, buf: Buf::zeroed(blocks * BLOCK) }
    }

    /// 64 blocks, each full of its own number and `salt`.
    fn bytes(salt: u8) -> Buf {
        let mut buf = Buf::zeroed(64 * BLOCK);
        buf.chunks_exact_mut(BLOCK).zip(0u8..).for_each(|(block, i)| block.fill(i ^ salt));
        buf
    }

    fn holds(buf: &[u8], at: u32, salt: u8) -> bool {
        buf.chunks_exact(BLOCK).zip(at as u8..).all(|(block, i)| block.iter().all(|&byte| byte == i ^ salt))
    }

    #[test]
    fn who_came_too_early_is_served_when_the_group_arrives_and_it_goes_when_all_of_it_was_used() {
        let mut ahead = Ahead::new(1);
        assert!(ahead.make_room(|_| ()) && ahead.lacks((3, 1), 7));
        ahead.begin((3, 1), 7, 0, 40);
        assert!(ahead.holds((3, 1), 7) && !ahead.holds((3, 1), 8));
        assert!(!ahead.lacks((3, 1), 7) && !ahead.lacks((3, 1), 8), "two of one place at once");
        assert!(matches!(ahead.take((3, 1), 7, waiter(1, 0, 20)), Taken::Waits));
        assert!(matches!(ahead.take((3, 1), 8, waiter(2, 0, 20)), Taken::Not(_)), "another generation");
        assert!(!ahead.make_room(|_| ()), "what is on its way stays");
        let (waiters, is_good) = ahead.arrived((3, 1), Some(bytes(9)), |_| panic!());
        assert!(is_good && waiters.len() == 1 && holds(&waiters[0].buf, 0, 9));
        let Taken::Filled(buf) = ahead.take((3, 1), 7, waiter(3, 20, 20)) else { panic!() };
        assert!(holds(&buf, 20, 9) && ahead.is_empty());
    }

    #[test]
    fn what_failed_or_was_read_for_nothing_is_given_up_and_its_reader_starts_again() {
        let mut ahead = Ahead::new(2);
        ahead.begin((1, 0), 1, 5, 63);
        assert!(matches!(ahead.take((1, 0), 1, waiter(1, 4, 1)), Taken::Waits));
        let mut failed = None;
        let (waiters, is_good) = ahead.arrived((1, 0), None, |reader| failed = Some(reader));
        assert_eq!(failed, Some(5));
        assert!(!is_good && waiters.len() == 1 && ahead.is_empty());
        for group in 0..2 {
            ahead.begin((1, group), 1, 5 + group, 63);
            ahead.arrived((1, group), Some(bytes(0)), |_| panic!());
        }
        assert!(matches!(ahead.take((1, 0), 1, waiter(1, 0, 32)), Taken::Filled(_)));
        let mut wasted = Vec::new();
        assert!(ahead.make_room(|reader| wasted.push(reader)));
        assert_eq!((wasted.as_slice(), ahead.holds((1, 0), 1)), ([6].as_slice(), true));
        assert_eq!((ahead.forget((1, 0)), ahead.is_empty()), (Some(5), true));
    }

    proptest! {
        /// Against a map of what was read when: bytes are those of the last read of the group in this generation, no
        /// waiter is lost, and there are never too many groups.
        #[test]
        fn serves_what_was_read_in_this_generation(steps in prop::collection::vec((0u8..4, 0u32..4, 0u32..60), 1..200)) {
            let mut ahead = Ahead::new(3);
            let (mut generation, mut coming, mut here) = (0u32, BTreeMap::new(), BTreeMap::new());
            for (piece, (what, group, at)) in (0u32..).zip(steps) {
                let key = (0, group);
                match what {
                    0 if ahead.lacks(key, generation) && ahead.make_room(|_| ()) => {
                        here.retain(|&key, &mut of| ahead.holds(key, of));
                        ahead.begin(key, generation, 0, 63);
                        coming.insert(key, (generation, Vec::new()));
                    }
                    1 => if let Some((of, expected)) = coming.remove(&key) {
                        let (waiters, is_good) = ahead.arrived(key, (at > 4).then(|| bytes(of as u8)), |_| ());
                        prop_assert_eq!(is_good, at > 4);
                        prop_assert_eq!(waiters.iter().map(|waiter| waiter.piece).collect::<Vec<_>>(), expected);
                        prop_assert!(!is_good || waiters.iter().all(|waiter| holds(&waiter.buf, waiter.at, of as u8)));
                        if is_good {
                            here.insert(key, of);
                        }
                    },
                    2 => generation += u32::from(at < 8),
                    _ => match ahead.take(key, generation, waiter(piece, at, 4)) {
                        Taken::Waits => {
                            let (of, waiting) = coming.get_mut(&key).unwrap();
                            prop_assert_eq!(*of, generation);
                            waiting.push(piece);
                        }
                        Taken::Filled(buf) => {
                            prop_assert_eq!(here.get(&key), Some(&generation));
                            prop_assert!(holds(&buf, at, generation as u8));
                        }
                        Taken::Not(_) => prop_assert!(!ahead.holds(key, generation)),
                    },
                }
                prop_assert!(coming.iter().all(|(&key, (of, _))| ahead.holds(key, *of)));
                let held = |&group: &u32| (0..=generation).any(|of| ahead.holds((0, group), of));
                prop_assert!((0..4).filter(held).count() <= 3);
            }
        }
    }
}
