//! A device's bytes in memory: those that survive a power cut, those that reads see, and the sectors in which they differ.
//!
//! A volatile cache may write a sector back at any time, in any order, and a power cut keeps any subset of the
//! sectors that the cache has not written back. Both images have the size of the whole device; simulated devices have
//! some megabytes.

use crate::cache::{Covered, SectorCache, Version};
use crate::stamp::SECTOR_BYTES;
use crate::survival::{Pattern, choose};
use forebay_block::Random;
use std::collections::BTreeSet;
use std::ops::Range;

/// A device in memory with a volatile cache.
#[derive(Debug)]
pub struct Medium {
    durable: Vec<u8>,
    seen: Vec<u8>,
    /// Sectors whose newest content is only in the cache; `seen` has this content. When a sector is written again,
    /// the medium decides whether the old content becomes durable.
    cache: SectorCache<()>,
    writes: u64,
    /// Number of flushes in flight: sectors that they may cover are written back before they are overwritten.
    flushing: u32,
    /// Sectors that a failed flush gave up: reads see them in the cache until the power fails, and no later flush
    /// writes them back. Linux treats dirty pages in this way (LWN 752063, "PostgreSQL's fsync() surprise").
    given_up: BTreeSet<u64>,
    /// Sectors whose last write was lost in a power cut, until they are written again: they have older content.
    lost: BTreeSet<u64>,
}

fn bytes_of(sector: u64) -> Range<usize> {
    let at = sector as usize * SECTOR_BYTES;
    at..at + SECTOR_BYTES
}

impl Medium {
    /// A device of zeros.
    #[must_use]
    pub fn new(size_bytes: usize) -> Self {
        Self {
            durable: vec![0; size_bytes],
            seen: vec![0; size_bytes],
            cache: SectorCache::default(),
            writes: 0,
            flushing: 0,
            given_up: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.seen.len()
    }

    /// The bytes that a read of the range returns.
    #[must_use]
    pub fn read(&self, offset_bytes: usize, len_bytes: usize) -> &[u8] {
        &self.seen[offset_bytes..offset_bytes + len_bytes]
    }

    /// Writes whole sectors into the cache.
    pub fn write(&mut self, offset_bytes: usize, bytes: &[u8], random: &mut Random) {
        self.writes += 1;
        for (sector, content) in ((offset_bytes / SECTOR_BYTES) as u64..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            if self.cache.contains(sector) {
                // The old content may have reached the medium before: always if a flush in flight may cover it,
                // otherwise at random.
                if self.flushing > 0 || random.chance(1, 2) {
                    self.write_back(sector);
                }
                self.cache.settle(sector, self.writes);
            }
            self.seen[bytes_of(sector)].copy_from_slice(content);
            self.cache.insert(sector, Version { id: self.writes, content: () });
            self.given_up.remove(&sector);
            self.lost.remove(&sector);
        }
    }

    /// Writes whole sectors directly to the medium.
    pub fn write_through(&mut self, offset_bytes: usize, bytes: &[u8]) {
        let end = offset_bytes + bytes.len();
        self.seen[offset_bytes..end].copy_from_slice(bytes);
        self.durable[offset_bytes..end].copy_from_slice(bytes);
        for sector in (offset_bytes / SECTOR_BYTES) as u64..(end / SECTOR_BYTES) as u64 {
            self.cache.settle(sector, self.writes);
            self.given_up.remove(&sector);
            self.lost.remove(&sector);
        }
    }

    /// A flush begins; returns its number, which covers all writes up to now.
    pub fn flush_begins(&mut self) -> u64 {
        self.flushing += 1;
        self.writes
    }

    /// A flush ends, with success or not. With success, all writes up to `number` are durable.
    pub fn flush_ends(&mut self, number: u64, is_good: bool) {
        self.flushing = self.flushing.saturating_sub(1);
        if is_good {
            self.settle(number, Self::write_back);
        }
    }

    /// The flushes in flight will never end: none of them is known to have had any effect.
    pub fn flushes_forgotten(&mut self) {
        self.flushing = 0;
    }

    /// The flush with this number has failed, and the device treats the sectors that it covered as written all the
    /// same.
    pub fn give_up(&mut self, number: u64) {
        self.settle(number, |medium, sector| {
            medium.given_up.insert(sector);
        });
    }

    /// Removes all writes up to `number` from the cache; calls `what` for each of their sectors.
    fn settle(&mut self, number: u64, what: impl Fn(&mut Self, u64)) {
        for (sector, version) in self.cache.covered(&Covered::up_to(number)) {
            self.cache.settle(sector, version.id);
            what(self, sector);
        }
    }

    fn write_back(&mut self, sector: u64) {
        self.durable[bytes_of(sector)].copy_from_slice(&self.seen[bytes_of(sector)]);
    }

    /// The power fails: `pattern` chooses which sectors of the cache survive.
    pub fn power_cut(&mut self, pattern: Pattern, random: &mut Random) {
        for (sector, _) in choose(&self.cache, pattern, random) {
            self.write_back(sector);
        }
        let lost = self.cache.all().map(|(sector, _)| sector).chain(std::mem::take(&mut self.given_up));
        for sector in lost {
            if self.seen[bytes_of(sector)] != self.durable[bytes_of(sector)] {
                self.seen[bytes_of(sector)].copy_from_slice(&self.durable[bytes_of(sector)]);
                self.lost.insert(sector);
            }
        }
        self.cache.clear();
        self.flushing = 0;
    }

    /// A write that was in flight when the power failed: each of its sectors is written with the chance `keep` in
    /// 256.
    pub fn tear(&mut self, offset_bytes: usize, bytes: &[u8], keep: u64, random: &mut Random) {
        for (sector, content) in ((offset_bytes / SECTOR_BYTES) as u64..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            if random.chance(keep, 256) {
                self.durable[bytes_of(sector)].copy_from_slice(content);
                self.seen[bytes_of(sector)].copy_from_slice(content);
                self.lost.remove(&sector);
            } else if self.seen[bytes_of(sector)] != *content {
                self.lost.insert(sector);
            }
        }
    }

    /// Whether a power cut lost the newest write of a sector: a reader finds the older content there.
    #[must_use]
    pub fn is_lost(&self, sector: u64) -> bool {
        self.lost.contains(&sector)
    }

    /// Flips a bit of a byte, on the medium and in the cache: simulates bit rot.
    pub fn flip(&mut self, offset_bytes: usize, bit: u32) {
        self.durable[offset_bytes] ^= 1 << (bit % 8);
        self.seen[offset_bytes] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector(fill: u8) -> [u8; SECTOR_BYTES] {
        [fill; SECTOR_BYTES]
    }

    #[test]
    fn what_was_flushed_survives_also_under_a_newer_version() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut medium = Medium::new(4096);
            medium.write(0, &sector(1), &mut random);
            let number = medium.flush_begins();
            medium.write(0, &sector(2), &mut random);
            medium.flush_ends(number, true);
            medium.power_cut(Pattern::Newest { survive: 128 }, &mut random);
            assert!([1, 2].contains(&medium.read(0, 1)[0]), "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_flushed_may_be_any_version() {
        let mut found = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut medium = Medium::new(4096);
            medium.write(0, &sector(1), &mut random);
            medium.write(0, &sector(2), &mut random);
            medium.power_cut(Pattern::Newest { survive: 128 }, &mut random);
            found.insert(medium.read(0, 1)[0]);
        }
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_failed_flush_makes_nothing_durable() {
        let mut random = Random::new(1);
        let mut medium = Medium::new(4096);
        medium.write(512, &sector(9), &mut random);
        let number = medium.flush_begins();
        medium.flush_ends(number, false);
        medium.power_cut(Pattern::NothingSurvives, &mut random);
        assert_eq!(medium.read(512, 1)[0], 0);
    }

    #[test]
    fn what_a_failed_flush_gave_up_is_seen_until_the_power_fails_and_no_later_flush_saves_it() {
        let mut random = Random::new(1);
        let mut medium = Medium::new(4096);
        medium.write(512, &sector(9), &mut random);
        let number = medium.flush_begins();
        medium.flush_ends(number, false);
        medium.give_up(number);
        let later = medium.flush_begins();
        medium.flush_ends(later, true);
        assert_eq!(medium.read(512, 1)[0], 9);
        medium.power_cut(Pattern::EverythingSurvives, &mut random);
        assert_eq!(medium.read(512, 1)[0], 0);
    }

    #[test]
    fn writing_through_needs_no_flush() {
        let mut random = Random::new(1);
        let mut medium = Medium::new(4096);
        medium.write(0, &sector(1), &mut random);
        medium.write_through(0, &sector(2));
        medium.power_cut(Pattern::NothingSurvives, &mut random);
        assert_eq!((medium.read(0, 1)[0], medium.cache.sector_count()), (2, 0));
    }
}
