//! A log of bands in memory: which blocks are valid where, and which blocks collection moves.

use crate::grouping::{Collected, Grouping, Move, Placed, Version, Write};
use crate::victim::{Candidate, Choice};

/// The place of a block that is not valid. Other places are the number of a band and of a block in it.
const NOWHERE: u64 = u64::MAX;

#[derive(Clone, Debug, Default)]
struct Band {
    blocks: Vec<u32>,
    valid: u32,
    group: u8,
    opened_at: u64,
}

/// An operation of a host on a block, by the block's number in the log: consecutive numbers are consecutive
/// addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes the block.
    Write(u32),
    /// Discards the block.
    Discard(u32),
}

/// Counters of written blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Blocks written by hosts.
    pub host_blocks: u64,
    /// Blocks moved by collection.
    pub moved_blocks: u64,
}

impl Written {
    /// Blocks written for each block written by hosts; NaN before the first.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        (self.host_blocks + self.moved_blocks) as f64 / self.host_blocks as f64
    }
}

/// A log: bands of blocks, each written from its first block to its last, one open band for each group. A full band
/// is collected while more than the spare share of the used space is invalid: space is unlimited, as in the published
/// simulations.
#[derive(Debug)]
pub struct Log<G> {
    grouping: G,
    choice: Choice,
    band_blocks: u32,
    /// Share of the space that may be free or invalid before a band is collected.
    spare: f64,
    bands: Vec<Band>,
    free: Vec<u32>,
    open: Vec<Option<u32>>,
    places: Vec<u64>,
    written_at: Vec<u64>,
    dies_at: Vec<u64>,
    notes: Vec<u8>,
    valid: u64,
    stored: u64,
    written: Written,
}

impl<G: Grouping> Log<G> {
    /// A log for addresses below `addresses`.
    ///
    /// # Panics
    /// [`Self::write`] and [`Self::discard`] panic if the address is not below `addresses`.
    pub fn new(grouping: G, choice: Choice, addresses: usize, band_blocks: u32, spare: f64) -> Self {
        let open = vec![None; usize::from(grouping.groups())];
        Self {
            grouping,
            choice,
            band_blocks,
            spare,
            bands: Vec::new(),
            free: Vec::new(),
            open,
            places: vec![NOWHERE; addresses],
            written_at: vec![0; addresses],
            dies_at: vec![u64::MAX; addresses],
            notes: vec![0; addresses],
            valid: 0,
            stored: 0,
            written: Written::default(),
        }
    }

    /// Number of blocks that hosts have written and not discarded.
    pub fn valid_blocks(&self) -> u64 {
        self.valid
    }

    /// Number of blocks of used space: valid or not, in full or open bands.
    pub fn stored_blocks(&self) -> u64 {
        self.stored
    }

    /// Whether a block is valid.
    pub fn holds(&self, address: u32) -> bool {
        self.places.get(address as usize).is_some_and(|place| *place != NOWHERE)
    }

    /// The counters up to now.
    pub fn written(&self) -> Written {
        self.written
    }

    fn version(&self, address: u32) -> Option<Version> {
        let place = self.places[address as usize];
        (place != NOWHERE).then(|| Version {
            group: self.bands[(place >> 32) as usize].group,
            age: self.written.host_blocks - self.written_at[address as usize],
            note: Some(self.notes[address as usize]),
        })
    }

    /// A host discards a block.
    pub fn discard(&mut self, address: u32) {
        if let Some(version) = self.version(address) {
            self.grouping.died(&version);
            self.invalidate(address);
        }
    }

    fn invalidate(&mut self, address: u32) {
        let place = std::mem::replace(&mut self.places[address as usize], NOWHERE);
        if place != NOWHERE {
            self.bands[(place >> 32) as usize].valid -= 1;
            self.valid -= 1;
        }
    }

    /// A host writes a block; it will be overwritten or discarded after `dies_after` further blocks are written, if
    /// that is known.
    pub fn write(&mut self, address: u32, dies_after: Option<u64>) {
        let over = self.version(address);
        let below = address.checked_sub(1).and_then(|below| self.version(below));
        if let Some(version) = over {
            self.grouping.died(&version);
        }
        self.invalidate(address);
        let write = Write { over, below, dies_after, valid_blocks: self.valid, blocks: 1 };
        let placed = self.grouping.of_write(&write);
        self.written.host_blocks += 1;
        self.written_at[address as usize] = self.written.host_blocks;
        self.dies_at[address as usize] = dies_after.map_or(u64::MAX, |after| self.written.host_blocks + after);
        self.append(address, placed);
        while (self.stored - self.valid) as f64 > self.spare * self.stored as f64 {
            if !self.collect() {
                break;
            }
        }
    }

    fn append(&mut self, address: u32, placed: Placed) {
        let Placed { group, note } = placed;
        self.notes[address as usize] = note;
        let band = match self.open[usize::from(group)] {
            Some(band) => band,
            None => {
                let band = self.free.pop().unwrap_or_else(|| {
                    self.bands.push(Band::default());
                    self.bands.len() as u32 - 1
                });
                let room = &mut self.bands[band as usize];
                (room.group, room.opened_at) = (group, self.written.host_blocks);
                self.open[usize::from(group)] = Some(band);
                band
            }
        };
        let room = &mut self.bands[band as usize];
        self.places[address as usize] = u64::from(band) << 32 | room.blocks.len() as u64;
        room.blocks.push(address);
        room.valid += 1;
        self.valid += 1;
        self.stored += 1;
        if room.blocks.len() as u32 == self.band_blocks {
            self.open[usize::from(group)] = None;
        }
    }

    fn collect(&mut self) -> bool {
        let now = self.written.host_blocks;
        let full = self.bands.iter().zip(0..).filter(|(band, _)| band.blocks.len() as u32 == self.band_blocks);
        let candidates = full.map(|(band, number)| Candidate {
            band: number,
            group: band.group,
            valid: band.valid,
            blocks: self.band_blocks,
            age: now - band.opened_at,
            log_valid: self.valid,
        });
        let Some(victim) = self.choice.best(candidates.filter(|candidate| candidate.valid < candidate.blocks)) else {
            return false;
        };
        let room = &mut self.bands[victim as usize];
        let (group, opened_at, valid) = (room.group, room.opened_at, room.valid);
        let blocks = std::mem::take(&mut room.blocks);
        self.grouping.collected(&Collected { group, age: now - opened_at, valid });
        for (address, at) in blocks.iter().zip(0u64..) {
            if self.places[*address as usize] != u64::from(victim) << 32 | at {
                continue;
            }
            let version = Version {
                group,
                age: now - self.written_at[*address as usize],
                note: Some(self.notes[*address as usize]),
            };
            let dies_at = self.dies_at[*address as usize];
            let dies_after = (dies_at != u64::MAX).then(|| dies_at.saturating_sub(now));
            let to = self.grouping.of_move(&Move { version, dies_after });
            self.valid -= 1;
            self.append(*address, to);
            self.written.moved_blocks += 1;
        }
        self.stored -= u64::from(self.band_blocks);
        self.bands[victim as usize].valid = 0;
        self.free.push(victim);
        true
    }
}
