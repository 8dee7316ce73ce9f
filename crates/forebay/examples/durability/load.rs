//! One connection under load: random changes, flushes and checked reads, pipelined, until the server dies.

use crate::history::{Mask, WHOLE};
use crate::ledger::Ledger;
use crate::part::{Part, STRIPE_BLOCKS, sectors_of};
use crate::random::Random;
use crate::sector::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, fill};
use anyhow::{Result, anyhow, bail};
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri, Reply, ZeroFlags};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(60);
/// Payload under way at most, in bytes.
const IN_FLIGHT_MAX_BYTES: usize = 4 << 20;

/// What was sent, for the summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    /// Writes of whole blocks.
    pub writes: u64,
    /// Writes that begin or end within a block.
    pub unaligned: u64,
    /// Trims.
    pub trims: u64,
    /// Write-zeroes.
    pub zeroes: u64,
    /// Of all these, durable by themselves.
    pub forced: u64,
    /// Flushes.
    pub flushes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Sent {
    /// Sums up.
    pub fn add(&mut self, other: &Self) {
        self.writes += other.writes;
        self.unaligned += other.unaligned;
        self.trims += other.trims;
        self.zeroes += other.zeroes;
        self.forced += other.forced;
        self.flushes += other.flushes;
        self.reads += other.reads;
        self.written_bytes += other.written_bytes;
    }
}

enum Waiting {
    Change {
        blocks: Vec<(usize, u32)>,
        forced: bool,
        len_bytes: usize,
    },
    Flush {
        mark: usize,
    },
    /// Newest acknowledged change of each block when the read was sent.
    Read {
        first: usize,
        oldest: Vec<u32>,
    },
}

/// A connection, its part of the disk, and what is under way.
pub struct Connection<'a> {
    client: NbdClient,
    part: &'a mut Part,
    ledger: &'a Ledger,
    random: Random,
    waiting: BTreeMap<u64, Waiting>,
    in_flight_bytes: usize,
    cursor: u64,
    /// What was sent.
    pub sent: Sent,
}

/// Connects.
pub fn connect(uri: &NbdUri) -> Result<NbdClient> {
    let options = ClientOptions { timeout: PATIENCE, ..ClientOptions::default() };
    Ok(NbdClient::connect(&uri.endpoint, &uri.export, &options)?)
}

/// Sectors of a block that a range of disk sectors covers.
fn mask_of(sectors: &Range<u64>, disk_block: u64) -> Mask {
    let first = disk_block * BLOCK_SECTORS as u64;
    let covered = (0..BLOCK_SECTORS as u64).filter(|at| sectors.contains(&(first + at)));
    covered.fold(0, |mask, at| mask | 1 << at)
}

impl<'a> Connection<'a> {
    /// Connects to the export.
    pub fn open(uri: &NbdUri, part: &'a mut Part, ledger: &'a Ledger, seed: u64) -> Result<Self> {
        let client = connect(uri)?;
        let random = Random::new(seed);
        let (waiting, sent) = (BTreeMap::new(), Sent::default());
        Ok(Self { client, part, ledger, random, waiting, in_flight_bytes: 0, cursor: 0, sent })
    }

    /// Goes on until the connection breaks, which it must not before `dying` is set.
    pub fn run(&mut self, depth: usize, dying: &AtomicBool) -> Result<()> {
        loop {
            let outcome = self.step(depth);
            // A killed server's last replies may still lie in the socket: what they acknowledge counts.
            if let Err(error) = outcome {
                if error.downcast_ref::<Finding>().is_some() || !dying.load(Ordering::SeqCst) {
                    return Err(error);
                }
                while let Ok(Some(reply)) = self.client.try_next() {
                    self.take(reply)?;
                }
                return Ok(());
            }
        }
    }

    fn step(&mut self, depth: usize) -> Result<()> {
        while self.waiting.len() >= depth || self.in_flight_bytes > IN_FLIGHT_MAX_BYTES {
            let reply = self.client.wait()?;
            self.take(reply)?;
        }
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        let forced = self.random.chance(1, 24);
        match self.random.below(100) {
            0..=34 => {
                let blocks = 1 + self.random.below(8);
                let sectors = self.somewhere(blocks * 8, 8);
                self.write(sectors, forced)
            }
            35..=44 => {
                let sectors = self.onward();
                self.write(sectors, forced)
            }
            45..=64 => {
                let len = 1 + self.random.below(20);
                let sectors = self.somewhere(len, 1);
                self.write(sectors, forced)
            }
            65..=70 => {
                let blocks = if self.random.chance(1, 20) { STRIPE_BLOCKS } else { 1 + self.random.below(64) };
                let sectors = self.somewhere(blocks * 8, 8);
                self.clear(sectors, forced, true)
            }
            71..=76 => {
                let (len, align) = if self.random.chance(1, 2) { (8, 8) } else { (1, 1) };
                let len = len * (1 + self.random.below(32));
                let sectors = self.somewhere(len, align);
                self.clear(sectors, forced, false)
            }
            77..=95 => self.read(),
            _ => self.flush(),
        }
    }

    /// A range of disk sectors within a stripe of this part; half of the time among its first blocks, so that changes
    /// overlap.
    fn somewhere(&mut self, len: u64, align: u64) -> Range<u64> {
        let stripe_sectors = STRIPE_BLOCKS * BLOCK_SECTORS as u64;
        let stripe = self.random.below(self.part.stripes());
        let room = stripe_sectors - len;
        let within = if self.random.chance(1, 2) { room.min(128) } else { room };
        let at = self.random.below(within / align + 1) * align;
        let start = self.part.disk_block((stripe * STRIPE_BLOCKS) as usize) * BLOCK_SECTORS as u64 + at;
        start..start + len
    }

    /// The next piece of a sequential run.
    fn onward(&mut self) -> Range<u64> {
        let blocks = 32.min(STRIPE_BLOCKS - self.cursor % STRIPE_BLOCKS);
        let start = self.part.disk_block(self.cursor as usize) * BLOCK_SECTORS as u64;
        self.cursor = (self.cursor + blocks) % self.part.blocks.len() as u64;
        start..start + blocks * BLOCK_SECTORS as u64
    }

    /// Notes a change in the history of every block that it touches.
    fn issue(&mut self, sectors: &Range<u64>, zero: bool) -> Result<Vec<(usize, u32)>> {
        let per_block = BLOCK_SECTORS as u64;
        let mut blocks = Vec::new();
        for disk_block in sectors.start / per_block..sectors.end.div_ceil(per_block) {
            let local = self.part.local(disk_block).ok_or_else(|| anyhow!("a block of somebody else"))?;
            let mask = mask_of(sectors, disk_block);
            blocks.push((local, self.part.blocks[local].issue(mask, zero)));
        }
        Ok(blocks)
    }

    fn write(&mut self, sectors: Range<u64>, forced: bool) -> Result<()> {
        let blocks = self.issue(&sectors, false)?;
        let mut bytes = vec![0; ((sectors.end - sectors.start) as usize) * SECTOR_BYTES];
        let first_block = sectors.start / BLOCK_SECTORS as u64;
        for (sector, chunk) in sectors.clone().zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
            let (_, version) = blocks[(sector / BLOCK_SECTORS as u64 - first_block) as usize];
            fill(chunk, self.part.seed, sector, version);
        }
        let whole = mask_of(&sectors, first_block) == WHOLE && sectors.end.is_multiple_of(BLOCK_SECTORS as u64);
        *(if whole { &mut self.sent.writes } else { &mut self.sent.unaligned }) += 1;
        self.sent.forced += u64::from(forced);
        self.sent.written_bytes += bytes.len() as u64;
        self.in_flight_bytes += bytes.len();
        let cookie = self.client.submit_write(sectors.start * SECTOR_BYTES as u64, &bytes, forced)?;
        self.waiting.insert(cookie, Waiting::Change { blocks, forced, len_bytes: bytes.len() });
        Ok(())
    }

    fn clear(&mut self, sectors: Range<u64>, forced: bool, trim: bool) -> Result<()> {
        let blocks = self.issue(&sectors, true)?;
        let offset_bytes = sectors.start * SECTOR_BYTES as u64;
        let len_bytes = (sectors.end - sectors.start) as u32 * SECTOR_BYTES as u32;
        self.sent.forced += u64::from(forced);
        let cookie = if trim {
            self.sent.trims += 1;
            self.client.submit_trim(offset_bytes, len_bytes, forced)?
        } else {
            self.sent.zeroes += 1;
            let flags = ZeroFlags { fua: forced, no_hole: self.random.chance(1, 2), fast: false };
            self.client.submit_write_zeroes(offset_bytes, len_bytes, flags)?
        };
        self.waiting.insert(cookie, Waiting::Change { blocks, forced, len_bytes: 0 });
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let blocks = 1 + self.random.below(16);
        let sectors = self.somewhere(blocks * 8, 8);
        let first = self.part.local(sectors.start / 8).ok_or_else(|| anyhow!("a block of somebody else"))?;
        let touched = &self.part.blocks[first..first + blocks as usize];
        let oldest = touched.iter().map(|block| block.acknowledged()).collect();
        self.sent.reads += 1;
        let offset_bytes = sectors.start * SECTOR_BYTES as u64;
        let cookie = self.client.submit_read(offset_bytes, blocks as u32 * BLOCK_BYTES as u32)?;
        self.waiting.insert(cookie, Waiting::Read { first, oldest });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sent.flushes += 1;
        let mark = self.ledger.mark();
        let cookie = self.client.submit_flush()?;
        self.waiting.insert(cookie, Waiting::Flush { mark });
        Ok(())
    }

    fn take(&mut self, reply: Reply) -> Result<()> {
        let Some(waiting) = self.waiting.remove(&reply.cookie) else { bail!(Finding("a reply to nothing".to_owned())) };
        if let Err(error) = reply.result {
            let (command, offset_bytes) = (reply.command, reply.offset_bytes);
            bail!(Finding(format!("a {command:?} at byte {offset_bytes} failed: {error}")));
        }
        match waiting {
            Waiting::Flush { mark } => self.ledger.flushed(mark),
            Waiting::Change { blocks, forced, len_bytes } => {
                self.in_flight_bytes -= len_bytes;
                for &(local, version) in &blocks {
                    self.part.blocks[local].acknowledge(version);
                }
                let part = &*self.part;
                let named = blocks.iter().map(|&(local, version)| (part.disk_block(local) as u32, version));
                self.ledger.acknowledge(named, forced);
            }
            Waiting::Read { first, oldest } => {
                for (at, (bytes, &oldest)) in reply.data.chunks_exact(BLOCK_BYTES).zip(&oldest).enumerate() {
                    let disk_block = self.part.disk_block(first + at);
                    let found = sectors_of(bytes, self.part.seed, disk_block);
                    let block = &self.part.blocks[first + at];
                    // What was sent after the read may be seen by it already.
                    let newest = block.newest();
                    if block.judge(&found, oldest, newest).is_none() {
                        let why = block.explain(&found, oldest, newest);
                        bail!(Finding(format!("while serving, block {disk_block} {why}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Something that the server must not do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Finding(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_the_covered_sectors() {
        assert_eq!(mask_of(&(0..8), 0), WHOLE);
        assert_eq!(mask_of(&(3..17), 0), 0b1111_1000);
        assert_eq!(mask_of(&(3..17), 1), WHOLE);
        assert_eq!(mask_of(&(3..17), 2), 1);
    }
}
