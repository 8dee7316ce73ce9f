//! Overwrites per 64 KiB region, in a direct-mapped table of fixed size.
//!
//! Counts are halved for every [`EPOCH_BLOCKS`] written to the pool, so that "often" means often compared with the
//! rest of the load. A region that is overwritten at least [`REWRITES`] times within about one epoch is
//! * `log` if the writes are small and pass through the region in order, again and again (a recycled write-ahead
//!   log),
//! * `temp` if they are large,
//! * `hot` otherwise.
//!
//! A region that was twice discarded soon after it was written is also `temp`; one that is read repeatedly is also
//! `hot`.

use forebay_block::DiskId;

/// Size of a region in 4 KiB blocks.
pub(crate) const REGION_BLOCKS: u64 = 16;
/// Number of regions tracked: 512 MiB, in 192 KiB of memory.
const SLOTS: usize = 8192;
/// After this many written blocks, the counts are halved: 1 GiB.
const EPOCH_BLOCKS: u64 = 262_144;
/// Fewest overwrites of a region for a guess.
const REWRITES: u16 = 3;
/// Fewest reads of a whole region for `hot` without overwrites.
const READS: u16 = 8;
/// A longer request is no log append: half a region, so that a region rewritten whole is not mistaken for a log.
const APPEND_LIMIT_BYTES: u64 = 32 << 10;

/// The class that a region's history suggests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guess {
    Nothing,
    Log,
    Temp,
    Hot,
}

/// A write (or the part of it in one region), in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub disk: DiskId,
    pub first_block: u64,
    /// Number of blocks, at most up to the end of the region.
    pub blocks: u64,
    /// Length of the whole request.
    pub request_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Disk and region number, plus one so that 0 means empty.
    key: u64,
    epoch: u32,
    /// Blocks written.
    written: u16,
    /// Blocks read.
    read: u16,
    requests: u16,
    /// Requests that continued at the end of the last one (or wrote its last block again).
    appends: u16,
    large: u16,
    /// Number of passes through the region from its start to its end, in order.
    passes: u8,
    /// Number of discards of the region after it had been written.
    died: u8,
    /// Where the last write ended, 0 to 16.
    end: u8,
}

/// The table of regions.
#[derive(Debug, Default)]
pub(crate) struct Overwrites {
    /// Allocated with the first write.
    slots: Vec<Region>,
    written_blocks: u64,
}

fn key(disk: DiskId, block: u64) -> u64 {
    (u64::from(disk.0) << 48 | (block / REGION_BLOCKS) & 0xffff_ffff_ffff) + 1
}

/// Fibonacci hashing: neighbours spread, and the result depends on nothing but the key.
fn index(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())) as usize
}

impl Region {
    #[inline]
    fn age(&mut self, epoch: u32) {
        let passed = epoch.wrapping_sub(self.epoch);
        if passed > 0 {
            let shift = passed.min(15);
            for count in [&mut self.written, &mut self.read, &mut self.requests, &mut self.appends, &mut self.large] {
                *count >>= shift;
            }
            let shift = passed.min(7);
            self.passes >>= shift;
            self.died >>= shift;
            self.epoch = epoch;
        }
    }

    fn guess(&self) -> Guess {
        let often = self.written >= (REWRITES + 1) * REGION_BLOCKS as u16;
        let mostly = |count: u16| u32::from(count) * 8 >= u32::from(self.requests) * 7;
        if often && u16::from(self.passes) >= REWRITES && mostly(self.appends) && self.large == 0 {
            Guess::Log
        } else if self.died >= 2 || (often && self.large >= self.requests / 2) {
            Guess::Temp
        } else if often || self.read >= READS * REGION_BLOCKS as u16 {
            Guess::Hot
        } else {
            Guess::Nothing
        }
    }
}

impl Overwrites {
    fn epoch(&self) -> u32 {
        (self.written_blocks / EPOCH_BLOCKS) as u32
    }

    /// The region's slot; the counts of another region in it must fade first, so that a scan does not wipe the table.
    fn slot(&mut self, key: u64, claim: bool) -> Option<&mut Region> {
        let epoch = self.epoch();
        if self.slots.is_empty() {
            if !claim {
                return None;
            }
            self.slots = vec![Region::default(); SLOTS];
        }
        let slot = self.slots.get_mut(index(key))?;
        slot.age(epoch);
        if slot.key != key {
            if !claim {
                return None;
            }
            if slot.written >= 2 * REGION_BLOCKS as u16 {
                slot.written -= 1;
                return None;
            }
            *slot = Region { key, epoch, ..Region::default() };
        }
        Some(slot)
    }

    /// Reads a part of the slot of a block's region, so that the processor fetches it into its cache; the value has
    /// no meaning.
    pub fn look(&self, disk: DiskId, block: u64) -> u64 {
        self.slots.get(index(key(disk, block))).map_or(0, |region| region.key)
    }

    /// Notes a write within one region and returns the guess that its history suggests.
    pub fn write(&mut self, write: Write) -> Guess {
        self.written_blocks = self.written_blocks.wrapping_add(write.blocks);
        let Some(region) = self.slot(key(write.disk, write.first_block), true) else {
            return Guess::Nothing;
        };
        let first = (write.first_block % REGION_BLOCKS) as u8;
        let wrapped = first == 0 && region.end >= REGION_BLOCKS as u8 - 1;
        let goes_on = first == region.end || first + 1 == region.end;
        region.written = region.written.saturating_add(write.blocks as u16);
        region.requests = region.requests.saturating_add(1);
        region.appends = region.appends.saturating_add(u16::from(wrapped || goes_on));
        region.large = region.large.saturating_add(u16::from(write.request_bytes > APPEND_LIMIT_BYTES));
        region.passes = region.passes.saturating_add(u8::from(wrapped));
        region.end = first + write.blocks.min(REGION_BLOCKS) as u8;
        region.guess()
    }

    /// Notes a read of blocks of a tracked region; other regions are ignored, or a scan would fill the table.
    pub fn read(&mut self, disk: DiskId, first_block: u64, blocks: u64) {
        let mut at = first_block;
        // A long read does not show heat.
        let end = first_block.saturating_add(blocks.min(REGION_BLOCKS));
        while at < end {
            let next = ((at / REGION_BLOCKS + 1) * REGION_BLOCKS).min(end);
            if let Some(region) = self.slot(key(disk, at), false) {
                region.read = region.read.saturating_add((next - at) as u16);
            }
            at = next;
        }
    }

    /// Notes that blocks were discarded.
    pub fn discard(&mut self, disk: DiskId, first_block: u64, blocks: u64) {
        let first = first_block.div_ceil(REGION_BLOCKS);
        let end = first_block.saturating_add(blocks) / REGION_BLOCKS;
        let died = |region: &mut Region| {
            if region.written > 0 {
                region.died = region.died.saturating_add(1);
                (region.written, region.end) = (0, 0);
            }
        };
        if end.saturating_sub(first) > SLOTS as u64 {
            let epoch = self.epoch();
            let keys = key(disk, first * REGION_BLOCKS)..key(disk, 0).saturating_add(end);
            for region in self.slots.iter_mut().filter(|region| keys.contains(&region.key)) {
                region.age(epoch);
                died(region);
            }
            return;
        }
        for number in first..end {
            if let Some(region) = self.slot(key(disk, number * REGION_BLOCKS), false) {
                died(region);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(table: &mut Overwrites, block: u64, blocks: u64, request_bytes: u64) -> Guess {
        table.write(Write { disk: DiskId(3), first_block: block, blocks, request_bytes })
    }

    #[test]
    fn a_single_fill_is_nothing() {
        let mut table = Overwrites::default();
        for block in 0..100_000 {
            assert_eq!(write(&mut table, block, 1, 4096), Guess::Nothing);
        }
    }

    #[test]
    fn a_log_that_goes_round_is_a_log_also_with_its_tail_block_rewritten() {
        for tail in [false, true] {
            let mut table = Overwrites::default();
            let mut last = Guess::Nothing;
            for _ in 0..8 {
                for block in 0..16 * REGION_BLOCKS {
                    last = write(&mut table, block, 1, 4096);
                    if tail {
                        last = write(&mut table, block, 1, 4096);
                    }
                }
            }
            assert_eq!(last, Guess::Log, "tail {tail}");
        }
    }

    #[test]
    fn random_overwrites_are_hot_and_large_ones_temp() {
        let mut table = Overwrites::default();
        let mut last = Guess::Nothing;
        for i in 0..200u64 {
            last = write(&mut table, (i * 7) % REGION_BLOCKS, 1, 4096);
        }
        assert_eq!(last, Guess::Hot);
        for _ in 0..6 {
            last = write(&mut table, 1600, REGION_BLOCKS, 1 << 20);
        }
        assert_eq!(last, Guess::Temp);
    }

    #[test]
    fn what_dies_young_twice_is_temp() {
        let mut table = Overwrites::default();
        for _ in 0..2 {
            assert_eq!(write(&mut table, 0, REGION_BLOCKS, 1 << 20), Guess::Nothing);
            table.discard(DiskId(3), 0, REGION_BLOCKS);
        }
        assert_eq!(write(&mut table, 0, REGION_BLOCKS, 1 << 20), Guess::Temp);
        // A discard of terabytes reaches the same regions without walking the address space.
        table.discard(DiskId(3), 0, 1 << 40);
        assert_eq!(table.slot(key(DiskId(3), 0), false).map(|region| region.died), Some(3));
    }

    #[test]
    fn heat_is_forgotten_as_others_write() {
        let mut table = Overwrites::default();
        for _ in 0..100 {
            write(&mut table, 0, 1, 4096);
        }
        assert_eq!(write(&mut table, 0, 1, 4096), Guess::Hot);
        table.written_blocks += 8 * EPOCH_BLOCKS;
        assert_eq!(write(&mut table, 0, 1, 4096), Guess::Nothing);
    }

    #[test]
    fn a_scan_does_not_wipe_the_table() {
        let mut table = Overwrites::default();
        for _ in 0..10 {
            write(&mut table, 0, REGION_BLOCKS, 65536);
        }
        for region in 1..20_000 {
            write(&mut table, region * REGION_BLOCKS, REGION_BLOCKS, 1 << 20);
        }
        assert_eq!(write(&mut table, 0, 1, 4096), Guess::Temp);
    }

    #[test]
    fn re_read_blocks_are_hot() {
        let mut table = Overwrites::default();
        write(&mut table, 0, REGION_BLOCKS, 65536);
        for _ in 0..8 {
            table.read(DiskId(3), 0, REGION_BLOCKS);
        }
        assert_eq!(write(&mut table, 0, 1, 4096), Guess::Hot);
    }
}
