//! What a device holds: the bytes that survive a power cut, those that reads see, and the sectors in which they differ.
//!
//! A volatile cache may write a sector back at any time, in any order, and a power cut keeps any set of the sectors that
//! it has not written back. Both images hold the whole device; simulated devices are some megabytes large.

use forebay_block::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Unit in which writes are torn, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// A device's bytes.
#[derive(Debug)]
pub struct Medium {
    durable: Vec<u8>,
    seen: Vec<u8>,
    /// Sectors whose newest content is in the cache only, and the number of the write that put it there.
    dirty: BTreeMap<u32, u64>,
    writes: u64,
    /// Flushes under way: what they cover is written back before it is overwritten.
    flushing: u32,
    /// Sectors that a failed flush gave up: reads see them from the cache until the power fails, and no later flush
    /// writes them back. Linux does so with dirty pages (LWN 752063, "PostgreSQL's fsync() surprise").
    given_up: BTreeSet<u32>,
}

impl Medium {
    /// All zeros.
    #[must_use]
    pub fn new(size_bytes: usize) -> Self {
        Self {
            durable: vec![0; size_bytes],
            seen: vec![0; size_bytes],
            dirty: BTreeMap::new(),
            writes: 0,
            flushing: 0,
            given_up: BTreeSet::new(),
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
        for (sector, content) in (offset_bytes / SECTOR_BYTES..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            // The version that is overwritten may have reached the medium before: always where a flush is under way
            // that may cover it, else at the device's whim.
            if self.dirty.contains_key(&(sector as u32)) && (self.flushing > 0 || random.chance(1, 2)) {
                self.write_back(sector);
            }
            let at = sector * SECTOR_BYTES;
            self.seen[at..at + SECTOR_BYTES].copy_from_slice(content);
            self.dirty.insert(sector as u32, self.writes);
            self.given_up.remove(&(sector as u32));
        }
    }

    /// Writes whole sectors past the cache.
    pub fn write_through(&mut self, offset_bytes: usize, bytes: &[u8]) {
        let end = offset_bytes + bytes.len();
        self.seen[offset_bytes..end].copy_from_slice(bytes);
        self.durable[offset_bytes..end].copy_from_slice(bytes);
        for sector in offset_bytes / SECTOR_BYTES..end / SECTOR_BYTES {
            self.dirty.remove(&(sector as u32));
            self.given_up.remove(&(sector as u32));
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
        if !is_good {
            return;
        }
        let (durable, seen) = (&mut self.durable, &self.seen);
        self.dirty.retain(|&sector, write| {
            let covered = *write <= number;
            if covered {
                let at = sector as usize * SECTOR_BYTES;
                durable[at..at + SECTOR_BYTES].copy_from_slice(&seen[at..at + SECTOR_BYTES]);
            }
            !covered
        });
    }

    /// The flush with this number has failed, and what it covered is taken for written all the same.
    pub fn give_up(&mut self, number: u64) {
        let given_up = &mut self.given_up;
        self.dirty.retain(|&sector, write| {
            let covered = *write <= number;
            if covered {
                given_up.insert(sector);
            }
            !covered
        });
    }

    fn write_back(&mut self, sector: usize) {
        let at = sector * SECTOR_BYTES;
        self.durable[at..at + SECTOR_BYTES].copy_from_slice(&self.seen[at..at + SECTOR_BYTES]);
    }

    /// The power fails: of what is only in the cache, any sectors survive. `keep` is the chance in 256 of each.
    pub fn power_cut(&mut self, keep: u64, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty).into_keys() {
            let at = sector as usize * SECTOR_BYTES;
            let range = at..at + SECTOR_BYTES;
            if random.chance(keep, 256) {
                self.durable[range.clone()].copy_from_slice(&self.seen[range]);
            } else {
                self.seen[range.clone()].copy_from_slice(&self.durable[range]);
            }
        }
        for sector in std::mem::take(&mut self.given_up) {
            let at = sector as usize * SECTOR_BYTES;
            let range = at..at + SECTOR_BYTES;
            self.seen[range.clone()].copy_from_slice(&self.durable[range]);
        }
        self.flushing = 0;
    }

    /// A write that was under way when the power failed: any of its sectors made it.
    pub fn tear(&mut self, offset_bytes: usize, bytes: &[u8], keep: u64, random: &mut Random) {
        for (sector, content) in (offset_bytes / SECTOR_BYTES..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            if random.chance(keep, 256) {
                let at = sector * SECTOR_BYTES;
                self.durable[at..at + SECTOR_BYTES].copy_from_slice(content);
                self.seen[at..at + SECTOR_BYTES].copy_from_slice(content);
            }
        }
    }

    /// Flips a bit of a byte, on the medium and in the cache: rot.
    pub fn flip(&mut self, offset_bytes: usize, bit: u32) {
        self.durable[offset_bytes] ^= 1 << (bit % 8);
        self.seen[offset_bytes] ^= 1 << (bit % 8);
    }

    /// Sectors that a power cut could lose.
    #[must_use]
    pub fn dirty_sectors(&self) -> usize {
        self.dirty.len()
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
            medium.power_cut(128, &mut random);
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
            medium.power_cut(128, &mut random);
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
        medium.power_cut(0, &mut random);
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
        medium.power_cut(256, &mut random);
        assert_eq!(medium.read(512, 1)[0], 0);
    }

    #[test]
    fn writing_through_needs_no_flush() {
        let mut random = Random::new(1);
        let mut medium = Medium::new(4096);
        medium.write(0, &sector(1), &mut random);
        medium.write_through(0, &sector(2));
        medium.power_cut(0, &mut random);
        assert_eq!((medium.read(0, 1)[0], medium.dirty_sectors()), (2, 0));
    }
}
