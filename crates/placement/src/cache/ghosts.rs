//! Blocks that recently had a copy, in the order in which they were evicted; their number is bounded.

use super::index::Index;
use super::key::Key;

/// A remembered block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    at: u32,
    /// Whether the block never had a copy, because the cache let it pass.
    pub was_passed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Empty,
    Went,
    WasPassed,
}

/// A ring of whole keys. With ten million ghosts, fingerprints of 32 bits would confuse so many new blocks with
/// returning ones that no scan would be recognized as one.
#[derive(Clone, Debug)]
pub(super) struct Ghosts {
    ring: Vec<Key>,
    states: Vec<State>,
    index: Index,
    seed: u64,
    /// Index in the ring for the next ghost.
    next: u32,
    /// How many of the latest ghosts are remembered.
    window: u32,
    len: u32,
}

impl Ghosts {
    /// Room for `count_max` ghosts, all of which are remembered. `seed` is the seed of the hashes.
    pub fn new(count_max: u32, seed: u64) -> Self {
        let count = count_max as usize;
        let (ring, states) = (vec![Key::default(); count], vec![State::Empty; count]);
        Self { ring, states, index: Index::new(count_max), seed, next: 0, window: count_max, len: 0 }
    }

    /// Memory for `count_max` ghosts.
    pub fn memory_bytes(count_max: u32) -> u64 {
        u64::from(count_max) * (size_of::<Key>() + size_of::<State>()) as u64 + Index::memory_bytes(count_max)
    }

    /// Number of ghosts.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The ghost of a block; `None` if the block is not remembered.
    pub fn find(&self, key: Key) -> Option<Ghost> {
        let at = self.index.find(key.hash(self.seed), |at| self.ring[at as usize] == key)?;
        Some(Ghost { at, was_passed: self.states[at as usize] == State::WasPassed })
    }

    /// Remembers a block, and forgets the oldest if it falls out of the window.
    pub fn push(&mut self, key: Key, was_passed: bool) {
        if self.window == 0 {
            return;
        }
        self.forget(self.before(self.window));
        self.ring[self.next as usize] = key;
        self.states[self.next as usize] = if was_passed { State::WasPassed } else { State::Went };
        self.index.add(key.hash(self.seed), self.next);
        self.next = if self.next + 1 == self.capacity() { 0 } else { self.next + 1 };
        self.len += 1;
    }

    /// Forgets a ghost.
    pub fn remove(&mut self, ghost: Ghost) {
        self.forget(ghost.at);
    }

    /// Remembers only the latest `window` ghosts from now on, at most the capacity.
    pub fn resize(&mut self, window: u32) {
        let window = window.min(self.capacity());
        for age in window + 1..=self.window {
            self.forget(self.before(age));
        }
        self.window = window;
    }

    fn capacity(&self) -> u32 {
        self.ring.len() as u32
    }

    /// Index of the ghost that came `age` ghosts before the next one.
    fn before(&self, age: u32) -> u32 {
        if age <= self.next { self.next - age } else { self.next + (self.capacity() - age) }
    }

    fn forget(&mut self, at: u32) {
        if std::mem::replace(&mut self.states[at as usize], State::Empty) != State::Empty {
            let (ring, seed) = (&self.ring, self.seed);
            self.index.remove(ring[at as usize].hash(seed), at, |other| ring[other as usize].hash(seed));
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u64, bool),
        Remove(u64),
        Resize(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u64..30, any::<bool>()).prop_map(|(key, was_passed)| Step::Push(key, was_passed)),
            2 => (0u64..30).prop_map(Step::Remove),
            1 => (0u32..12).prop_map(Step::Resize),
        ]
    }

    proptest! {
        #[test]
        fn the_last_that_came_are_remembered(steps in prop::collection::vec(step(), 1..300)) {
            let mut ghosts = Ghosts::new(9, 5);
            // All ghosts in the order of arrival, the latest first; `None` for a removed one.
            let (mut model, mut window) = (VecDeque::new(), 9);
            for step in steps {
                match step {
                    Step::Push(key, was_passed) if !model.contains(&Some((key, !was_passed))) && !model.contains(&Some((key, was_passed))) => {
                        ghosts.push(Key::from_bits(key), was_passed);
                        if window > 0 {
                            model.push_front(Some((key, was_passed)));
                        }
                    }
                    Step::Push(..) => {}
                    Step::Remove(key) => {
                        if let Some(ghost) = ghosts.find(Key::from_bits(key)) {
                            ghosts.remove(ghost);
                        }
                        for entry in model.iter_mut().filter(|entry| entry.is_some_and(|(other, _)| other == key)) {
                            *entry = None;
                        }
                    }
                    Step::Resize(to) => {
                        window = to.min(9) as usize;
                        ghosts.resize(to);
                    }
                }
                model.truncate(window);
                prop_assert_eq!(ghosts.len() as usize, model.iter().flatten().count());
                for key in 0..30 {
                    let known = model.iter().flatten().find(|(other, _)| *other == key).map(|&(_, was_passed)| was_passed);
                    prop_assert_eq!(ghosts.find(Key::from_bits(key)).map(|ghost| ghost.was_passed), known);
                }
            }
        }
    }
}
