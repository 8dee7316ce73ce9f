//! Keys in lists, found by their hashes: the data structure of every policy here. It allocates all of its memory when
//! it is created.

use super::index::Index;
use super::key::Key;

/// No node.
const NONE: u32 = u32::MAX;

/// A key and its neighbours in its list.
#[derive(Clone, Copy, Debug)]
struct Node {
    key: Key,
    newer: u32,
    older: u32,
}

/// The ends of a list, and its length.
#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    len: u32,
}

/// Numbered nodes, each free or in one of `LISTS` lists. Each list has an order, from the newest node to the oldest.
#[derive(Clone, Debug)]
pub(super) struct Nodes<const LISTS: usize> {
    nodes: Vec<Node>,
    /// For each node its list, or `LISTS` if it is free, and 4 bits that the policy keeps with it.
    tags: Vec<u8>,
    index: Index,
    ends: [Ends; LISTS],
    free: Ends,
    seed: u64,
}

const NOTE_BITS: u32 = 4;

impl<const LISTS: usize> Nodes<LISTS> {
    /// Creates `count` nodes, all of them free: the first is used first. `seed` is the seed of the hashes.
    pub fn new(count: u32, seed: u64) -> Self {
        let empty = Ends { newest: NONE, oldest: NONE, len: 0 };
        let node = Node { key: Key::default(), newer: NONE, older: NONE };
        let mut nodes = Self {
            nodes: vec![node; count as usize],
            tags: vec![(LISTS as u8) << NOTE_BITS; count as usize],
            index: Index::new(count),
            ends: [empty; LISTS],
            free: empty,
            seed,
        };
        for number in 0..count {
            nodes.link(LISTS, number, true);
        }
        nodes
    }

    /// Memory for `count` nodes.
    pub fn memory_bytes(count: u32) -> u64 {
        u64::from(count) * (size_of::<Node>() + size_of::<u8>()) as u64 + Index::memory_bytes(count)
    }

    fn ends(&mut self, list: usize) -> &mut Ends {
        self.ends.get_mut(list).unwrap_or(&mut self.free)
    }

    /// The node of a key; `None` if the key is in no list.
    pub fn find(&self, key: Key) -> Option<u32> {
        self.index.find(key.hash(self.seed), |number| self.key(number) == key)
    }

    /// The key of a node, which must be in a list.
    pub fn key(&self, number: u32) -> Key {
        self.nodes[number as usize].key
    }

    /// The list of a node; `LISTS` if the node is free.
    pub fn list(&self, number: u32) -> usize {
        usize::from(self.tags[number as usize] >> NOTE_BITS)
    }

    /// The number, below 16, that the policy keeps with a node.
    pub fn note(&self, number: u32) -> u8 {
        self.tags[number as usize] & ((1 << NOTE_BITS) - 1)
    }

    /// Replaces the number that the policy keeps with a node.
    pub fn set_note(&mut self, number: u32, note: u8) {
        let tag = &mut self.tags[number as usize];
        *tag = *tag >> NOTE_BITS << NOTE_BITS | note;
    }

    /// Number of nodes in a list.
    pub fn len(&self, list: usize) -> u32 {
        self.ends[list].len
    }

    /// The oldest node of a list; `None` if the list is empty.
    pub fn oldest(&self, list: usize) -> Option<u32> {
        some(self.ends[list].oldest)
    }

    /// The newest node of a list; `None` if the list is empty.
    pub fn newest(&self, list: usize) -> Option<u32> {
        some(self.ends[list].newest)
    }

    /// The next newer node in the same list; `None` for the newest.
    pub fn newer(&self, number: u32) -> Option<u32> {
        some(self.nodes[number as usize].newer)
    }

    /// The next older node in the same list; `None` for the oldest.
    pub fn older(&self, number: u32) -> Option<u32> {
        some(self.nodes[number as usize].older)
    }

    /// Whether a node is free.
    pub fn is_free(&self, number: u32) -> bool {
        self.list(number) == LISTS
    }

    /// A free node; `None` if there is none.
    pub fn free(&self) -> Option<u32> {
        some(self.free.newest)
    }

    /// Puts a new key into a free node, which becomes the newest of a list, with note 0.
    pub fn add(&mut self, number: u32, key: Key, list: usize) {
        self.unlink(number);
        self.nodes[number as usize].key = key;
        self.index.add(key.hash(self.seed), number);
        self.link(list, number, false);
        self.set_note(number, 0);
    }

    /// Like [`Self::add`], but the node becomes the oldest of the list.
    pub fn add_oldest(&mut self, number: u32, key: Key, list: usize) {
        self.add(number, key, list);
        self.unlink(number);
        self.link(list, number, true);
    }

    /// Makes a node the newest of a list, which may be another list than its own.
    pub fn renew(&mut self, number: u32, list: usize) {
        self.unlink(number);
        self.link(list, number, false);
    }

    /// Removes a key; its node becomes free, and is the next to be used.
    pub fn remove(&mut self, number: u32) {
        let (nodes, seed) = (&self.nodes, self.seed);
        let hash = self.key(number).hash(seed);
        self.index.remove(hash, number, |other| nodes[other as usize].key.hash(seed));
        self.unlink(number);
        self.link(LISTS, number, false);
    }

    fn unlink(&mut self, number: u32) {
        let list = self.list(number);
        let Node { newer, older, .. } = self.nodes[number as usize];
        match some(newer) {
            Some(newer) => self.nodes[newer as usize].older = older,
            None => self.ends(list).newest = older,
        }
        match some(older) {
            Some(older) => self.nodes[older as usize].newer = newer,
            None => self.ends(list).oldest = newer,
        }
        self.ends(list).len -= 1;
    }

    /// Puts a node that is in no list at one end of a list.
    fn link(&mut self, list: usize, number: u32, is_oldest: bool) {
        let ends = self.ends(list);
        ends.len += 1;
        let neighbour = if is_oldest { ends.oldest } else { ends.newest };
        if is_oldest {
            ends.oldest = number
        } else {
            ends.newest = number
        }
        if neighbour == NONE {
            (ends.oldest, ends.newest) = (number, number);
        }
        let node = &mut self.nodes[number as usize];
        (node.newer, node.older) = if is_oldest { (neighbour, NONE) } else { (NONE, neighbour) };
        if let Some(neighbour) = some(neighbour) {
            let node = &mut self.nodes[neighbour as usize];
            if is_oldest { node.older = number } else { node.newer = number }
        }
        let note = self.note(number);
        self.tags[number as usize] = (list as u8) << NOTE_BITS | note;
    }
}

fn some(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        /// Compares with lists that are searched from end to end, the newest first.
        #[test]
        fn lists_keep_their_order(steps in prop::collection::vec((0u8..5, 0u64..20, 0usize..2), 1..300)) {
            let mut nodes: Nodes<2> = Nodes::new(7, 0);
            let mut model: [VecDeque<u64>; 2] = Default::default();
            for (what, block, list) in steps {
                let key = Key::from_bits(block);
                let found = nodes.find(key);
                prop_assert_eq!(found.is_some(), model.iter().any(|list| list.contains(&block)));
                match (what, found, nodes.free()) {
                    (0 | 1, None, Some(free)) => {
                        if what == 0 {
                            nodes.add(free, key, list);
                            model[list].push_front(block);
                        } else {
                            nodes.add_oldest(free, key, list);
                            model[list].push_back(block);
                        }
                        nodes.set_note(free, block as u8 % 16);
                    }
                    (2 | 3, Some(number), _) => {
                        prop_assert_eq!(nodes.note(number), block as u8 % 16);
                        model.iter_mut().for_each(|list| list.retain(|&other| other != block));
                        nodes.renew(number, list);
                        model[list].push_front(block);
                    }
                    (4, Some(number), _) => {
                        model.iter_mut().for_each(|list| list.retain(|&other| other != block));
                        nodes.remove(number);
                        prop_assert!(nodes.is_free(number) && nodes.free() == Some(number));
                    }
                    _ => {}
                }
                for (list, blocks) in model.iter().enumerate() {
                    let from_newest = std::iter::successors(nodes.newest(list), |&number| nodes.older(number));
                    let from_oldest = std::iter::successors(nodes.oldest(list), |&number| nodes.newer(number));
                    let block = |number| nodes.key(number).block();
                    prop_assert!(from_newest.map(block).eq(blocks.iter().copied()));
                    prop_assert!(from_oldest.map(block).eq(blocks.iter().rev().copied()));
                    prop_assert_eq!(nodes.len(list) as usize, blocks.len());
                }
                prop_assert_eq!(nodes.free().is_some(), model[0].len() + model[1].len() < 7);
            }
        }
    }
}
