//! A device's bytes in memory: those that survive a power cut, those that reads see, and the sectors in which they differ.
//!
//! A volatile cache may write a sector back at any time, in any order, and a power cut keeps any set of the sectors that
//! it has not written back. Both images hold the whole device; simulated devices are some megabytes large.

use crate::cache::{Covered, SectorCache, Version};
use crate::stamp::SECTOR_BYTES;
use crate::survival::{Pattern, choose};
use forebay_block::Random;
use std::collections::BTreeSet;
use std::ops::Range;

/// A device's bytes.
#[derive(Debug)]
pub struct Medium {
    durable: Vec<u8>,
    seen: Vec<u8>,
    /// Sectors whose newest content is in the cache only; `seen` has it. The version below it is settled, one way or the
    /// other, when a sector is written again.
    cache: SectorCache<()>,
    writes: u64,
    /// Flushes in flight: what they cover is written back before it is overwritten.
    flushing: u32,
    /// Sectors that a failed flush gave up: reads see them from the cache until the power fails, and no later flush
    /// writes them back. Linux does so with dirty pages (LWN 752063, "PostgreSQL's fsync() surprise").
    given_up: BTreeSet<u64>,
    /// Sectors of writes that a power cut lost, until they are written again: what lies there is from before.
    lost: BTreeSet<u64>,
}

fn bytes_of(sector: u64) -> Range<usize> {
    let at = sector as usize * SECTOR_BYTES;
    at..at + SECTOR_BYTES
}

impl Medium {
    /// All zeros.
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

    /// What a read of the range sees.
    #[must_use]
    pub fn read(&self, offset_bytes: usize, len_bytes: usize) -> &[u8] {
        &self.seen[offset_bytes..offset_bytes + len_bytes]
    }

    /// Writes whole sectors into the cache.
    pub fn write(&mut self, offset_bytes: usize, bytes: &[u8], random: &mut Random) {
        self.writes += 1;
        for (sector, content) in ((offset_bytes / SECTOR_BYTES) as u64..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            if self.cache.contains(sector) {
                // The version that is overwritten may have reached the medium before: always where a flush is in flight
                // that may cover it, else at the device's whim.
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

    /// Writes whole sectors past the cache.
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

    /// A flush begins; what was written before it has this number or a lower one.
    pub fn flush_begins(&mut self) -> u64 {
        self.flushing += 1;
        self.writes
    }

    /// A flush ends, with success or not. With success everything up to `number` is durable.
    pub fn flush_ends(&mut self, number: u64, is_good: bool) {
        self.flushing = self.flushing.saturating_sub(1);
        if is_good {
            self.settle(number, Self::write_back);
        }
    }

    /// Nobody waits for the flushes in flight any more: none of them is known to have done anything.
    pub fn flushes_forgotten(&mut self) {
        self.flushing = 0;
    }

    /// The flush with this number has failed, and what it covered is taken for written all the same.
    pub fn give_up(&mut self, number: u64) {
        self.settle(number, |medium, sector| {
            medium.given_up.insert(sector);
        });
    }

    /// Nothing up to write `number` is in the cache any more; `what` becomes of each of its sectors.
    fn settle(&mut self, number: u64, what: impl Fn(&mut Self, u64)) {
        for (sector, version) in self.cache.covered(&Covered::up_to(number)) {
            self.cache.settle(sector, version.id);
            what(self, sector);
        }
    }

    fn write_back(&mut self, sector: u64) {
        self.durable[bytes_of(sector)].copy_from_slice(&self.seen[bytes_of(sector)]);
    }

    /// The power fails: of what is only in the cache, `pattern` survives.
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

    /// A write that was in flight when the power failed: any of its sectors made it.
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

    /// Whether a power cut lost the newest write of a sector: who looks for that write finds what was there before it.
    #[must_use]
    pub fn is_lost(&self, sector: u64) -> bool {
        self.lost.contains(&sector)
    }

    /// Flips a bit of a byte, on the medium and in the cache: rot.
    pub fn flip(&mut self, offset_bytes: usize, bit: u32) {
        self.durable[offset_bytes] ^= 1 << (bit % 8);
        self.seen[offset_bytes] ^= 1 << (bit % 8);
    }

    /// Sectors that a power cut could lose.
    #[must_use]
    pub fn dirty_sectors(&self) -> usize {
        self.cache.sector_count()
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
        assert_eq!((medium.read(0, 1)[0], medium.dirty_sectors()), (2, 0));
    }
}
