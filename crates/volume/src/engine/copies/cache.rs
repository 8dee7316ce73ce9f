//! Which blocks have copies, where, and of what: tables whose memory is allocated when they are made.

use crate::layout::warm_list::WarmEntry;
use crate::space::slots::Slots;
use forebay_placement::cache::{Key, S3Fifo, Warm};
use std::collections::BTreeSet;

const _: () = assert!(size_of::<Held>() == 16 && size_of::<State>() == 1);
/// Most places looked at in one step for a list, however few of them are taken.
const LOOKED_AT: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Free,
    /// Its data is on its way.
    Arriving,
    Ready,
    /// It was there before a restart, and was not read since: it may or may not be of what the map named when the pool was opened.
    Restored,
}

/// A copy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Where the block is of which it is a copy, in grains: each change of the map is followed.
    pub location: u64,
    pub slot: u32,
    /// The copy's checksum; not the map's where the block is stored compressed.
    pub own: u32,
}

/// The tables. All memory is allocated when they are made.
#[derive(Debug)]
pub(super) struct Cache {
    pub policy: S3Fifo,
    /// By the policy's places.
    pub held: Vec<Held>,
    pub states: Vec<State>,
    /// For copies from before a restart: the generation in which the band held what they are copies of. Their place may have been written anew since, which
    /// changes nothing in the copies.
    generations: Vec<u32>,
}

/// A copy that a read may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub slot: u64,
    pub own: u32,
    /// It was there before a restart, and was not read since.
    pub is_restored: bool,
}

impl Cache {
    /// Room for so many copies. `seed` is for the policy's hashes.
    pub fn new(places: u32, seed: u64) -> Self {
        let count = places as usize;
        let (held, states) = (vec![Held::default(); count], vec![State::Free; count]);
        Self { policy: S3Fifo::new(places, seed), held, states, generations: vec![0; count] }
    }

    /// Slots that copies hold.
    pub fn slots(&self) -> impl Iterator<Item = u64> + '_ {
        let all = self.held.iter().zip(&self.states);
        all.filter(|(_, state)| **state != State::Free).map(|(held, _)| held.slot.into())
    }

    /// The copy of what is at this location, where it has arrived.
    pub fn find(&self, key: Key, location: u64) -> Option<Found> {
        if self.policy.held() == 0 {
            return None;
        }
        let place = self.policy.place_of(key)? as usize;
        let held = self.held[place];
        let state = self.states[place];
        let is_it = matches!(state, State::Ready | State::Restored) && held.location == location;
        is_it.then_some(Found { slot: held.slot.into(), own: held.own, is_restored: state == State::Restored })
    }

    /// A block was moved; false where it has a copy of something else.
    pub fn moved(&mut self, key: Key, from: u64, to: u64) -> bool {
        let Some(place) = self.policy.place_of(key) else { return true };
        let held = &mut self.held[place as usize];
        // A copy from before a restart is dropped: of which generation of a band it is is not known any more.
        let is_of_it = held.location == from && self.states[place as usize] != State::Restored;
        held.location = if is_of_it { to } else { held.location };
        is_of_it
    }

    /// Takes over a copy from a list, where its slot is free and there is room.
    pub fn restore(&mut self, entry: &WarmEntry, slots: &mut Slots) {
        let place = self.policy.held();
        let &WarmEntry { key, slot, location, generation, own, is_main, reads } = entry;
        let warm = Warm { key: Key::from_bits(key), place, is_main, reads };
        if !slots.is_used(slot.into()) && self.policy.restore(warm) {
            slots.set(slot.into());
            self.held[place as usize] = Held { location, slot, own };
            self.states[place as usize] = State::Restored;
            self.generations[place as usize] = generation;
        }
    }

    /// At most so many copies from a place on, as a list has them; and the place at which to go on, `None` at the end. `generation` returns that of the band in
    /// which a location lies; none where nothing was written there in it.
    pub fn list(
        &self,
        from: u32,
        most: usize,
        generation: impl Fn(u64) -> Option<u32>,
    ) -> (Vec<WarmEntry>, Option<u32>) {
        let mut entries = Vec::with_capacity(most.min(self.policy.held() as usize));
        let looked_at = self.held.len().min(from as usize + LOOKED_AT);
        for place in from as usize..looked_at {
            if entries.len() == most {
                return (entries, Some(place as u32));
            }
            let Held { location, slot, own } = self.held[place];
            let is_listed = |generation: &u32| match self.states[place] {
                State::Ready => true,
                State::Restored => *generation == self.generations[place],
                State::Free | State::Arriving => false,
            };
            if let Some(generation) = generation(location).filter(is_listed) {
                let Warm { key, is_main, reads, .. } = self.policy.at(place as u32);
                entries.push(WarmEntry { key: key.bits(), location, slot, generation, own, is_main, reads });
            }
        }
        (entries, (looked_at < self.held.len()).then_some(looked_at as u32))
    }
}

/// The tables, where any class has copies, and slots of copies that were given up.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// None while no class has copies.
    pub cache: Option<Box<Cache>>,
    /// Slots of copies that were given up while their write was in flight: they are free when it ends, not before, or
    /// it could overwrite somebody else's data.
    pub orphans: BTreeSet<u64>,
}

impl Table {
    /// Number of copies.
    pub fn len(&self) -> usize {
        self.cache.as_ref().map_or(0, |cache| cache.policy.held() as usize)
    }

    /// Gives up the copy of a block, and forgets that the block was read.
    pub fn give_up(&mut self, key: Key, slots: &mut Slots) {
        if let Some(place) = self.cache.as_mut().and_then(|cache| cache.policy.remove(key)) {
            self.release(place, slots);
        }
    }

    /// The policy has given up a place: its slot is freed.
    pub fn release(&mut self, place: u32, slots: &mut Slots) {
        let Some(cache) = &mut self.cache else { return };
        let slot = u64::from(cache.held[place as usize].slot);
        match std::mem::take(&mut cache.states[place as usize]) {
            State::Free => {}
            State::Arriving => {
                self.orphans.insert(slot);
            }
            // No record names the slot: it is free at once. A read in flight finds another checksum and looks the block
            // up again.
            State::Ready | State::Restored => {
                slots.clear(slot);
            }
        }
    }

    /// Gives up so many copies, those of least use; returns how many slots this freed.
    pub fn evict(&mut self, wanted: u64, slots: &mut Slots) -> u64 {
        let before = slots.free();
        for _ in 0..wanted {
            let Some((_, place)) = self.cache.as_mut().and_then(|cache| cache.policy.give_up_one()) else { break };
            self.release(place, slots);
        }
        slots.free() - before
    }

    /// What the policy has learned.
    pub fn learned(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.policy.learned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: u32) -> WarmEntry {
        let key = Key::new(1, u64::from(slot)).unwrap().bits();
        WarmEntry { key, location: 800, generation: 5, slot, own: 7, is_main: false, reads: 0 }
    }

    /// A copy of a block that had been overwritten before its list was made was listed again as a copy of what its place came to hold, and was read as that
    /// after the next restart.
    #[test]
    fn regression_what_was_restored_is_never_listed_as_of_a_later_generation() {
        let (mut cache, mut slots) = (Cache::new(16, 1), Slots::from_words(vec![0], 64));
        cache.restore(&entry(3), &mut slots);
        let listed = |generation| cache.list(0, 16, |_| generation).0.len();
        assert_eq!((listed(Some(5)), listed(Some(6)), listed(None)), (1, 0, 0));
    }
}
