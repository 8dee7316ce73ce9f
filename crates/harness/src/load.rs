//! One connection under load: random changes, flushes and checked reads, pipelined, until the server dies.

use crate::part::{Part, STRIPE_BLOCKS};
use anyhow::{Result, bail};
use forebay_block::{BLOCK_BYTES, Random, lock};
use forebay_device::nbd_client::{ClientOptions, NbdClient, NbdUri, Reply, ZeroFlags};
use forebay_proof::oracle::{Made, Oracle};
use forebay_proof::stamp::{BLOCK_SECTORS, Content, SECTOR_BYTES, content_of, fill_all};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Longest time without an answer from the server.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of payload in flight.
const IN_FLIGHT_MAX_BYTES: usize = 4 << 20;

/// Counts of requests sent, for the summary.
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
    /// Of all these, the requests with FUA.
    pub forced: u64,
    /// Completed flushes.
    pub flushes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl Sent {
    /// Adds the counts of another connection.
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
        made: Made,
        forced: bool,
        len_bytes: usize,
    },
    Flush {
        event: u64,
    },
    /// The oldest version of each block that the read may see.
    Read {
        disk_block: u64,
        since: Vec<usize>,
    },
}

/// A connection, its part of the disk, and its requests in flight.
pub struct Connection<'a> {
    client: NbdClient,
    part: &'a Part,
    /// The oracle of the whole disk: a completed flush covers every write acknowledged before the flush was sent, on
    /// any connection.
    oracle: &'a Mutex<Oracle>,
    random: Random,
    waiting: BTreeMap<u64, Waiting>,
    in_flight_bytes: usize,
    cursor: u64,
    /// Counts of requests sent.
    pub sent: Sent,
}

/// Locks the oracle; a panic of another thread cannot have left a change in it half done.
pub fn ask(oracle: &Mutex<Oracle>) -> MutexGuard<'_, Oracle> {
    lock(oracle)
}

/// Connects to an export.
pub fn connect(uri: &NbdUri) -> Result<NbdClient> {
    let options = ClientOptions { timeout: TIMEOUT, ..ClientOptions::default() };
    Ok(NbdClient::connect(&uri.endpoint, &uri.export, &options)?)
}

impl<'a> Connection<'a> {
    /// Connects to the export.
    pub fn open(uri: &NbdUri, part: &'a Part, oracle: &'a Mutex<Oracle>, seed: u64) -> Result<Self> {
        let client = connect(uri)?;
        let random = Random::new(seed);
        let (waiting, sent) = (BTreeMap::new(), Sent::default());
        Ok(Self { client, part, oracle, random, waiting, in_flight_bytes: 0, cursor: 0, sent })
    }

    /// Sends requests until the connection breaks, which is an error before `dying` is set.
    pub fn run(&mut self, depth: usize, dying: &AtomicBool) -> Result<()> {
        loop {
            let outcome = self.step(depth);
            // The last replies of a killed server may still be in the socket: they count as acknowledgements.
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

    /// A range of disk sectors within a stripe of this part; half of the time among the stripe's first blocks, so
    /// that changes overlap.
    fn somewhere(&mut self, len: u64, align: u64) -> Range<u64> {
        let stripe_sectors = STRIPE_BLOCKS * BLOCK_SECTORS as u64;
        let stripe = self.random.below(self.part.stripes());
        let room = stripe_sectors - len;
        let within = if self.random.chance(1, 2) { room.min(128) } else { room };
        let at = self.random.below(within / align + 1) * align;
        let start = self.part.disk_block(stripe * STRIPE_BLOCKS) * BLOCK_SECTORS as u64 + at;
        start..start + len
    }

    /// The next range of a sequential run.
    fn onward(&mut self) -> Range<u64> {
        let blocks = 32.min(STRIPE_BLOCKS - self.cursor % STRIPE_BLOCKS);
        let start = self.part.disk_block(self.cursor) * BLOCK_SECTORS as u64;
        self.cursor = (self.cursor + blocks) % self.part.blocks();
        start..start + blocks * BLOCK_SECTORS as u64
    }

    fn write(&mut self, sectors: Range<u64>, forced: bool) -> Result<()> {
        let (tags, made) = {
            let mut oracle = ask(self.oracle);
            let tags = oracle.new_tags((sectors.end - sectors.start) as usize);
            let made = oracle.change(0, sectors.start, &tags);
            (tags, made)
        };
        let mut bytes = vec![0; tags.len() * SECTOR_BYTES];
        fill_all(&tags, &mut bytes);
        let whole = (sectors.start | sectors.end).is_multiple_of(BLOCK_SECTORS as u64);
        *(if whole { &mut self.sent.writes } else { &mut self.sent.unaligned }) += 1;
        self.sent.forced += u64::from(forced);
        self.sent.written_bytes += bytes.len() as u64;
        self.in_flight_bytes += bytes.len();
        let cookie = self.client.submit_write(sectors.start * SECTOR_BYTES as u64, &bytes, forced)?;
        self.waiting.insert(cookie, Waiting::Change { made, forced, len_bytes: bytes.len() });
        Ok(())
    }

    fn clear(&mut self, sectors: Range<u64>, forced: bool, trim: bool) -> Result<()> {
        let made = ask(self.oracle).change(0, sectors.start, &vec![0; (sectors.end - sectors.start) as usize]);
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
        self.waiting.insert(cookie, Waiting::Change { made, forced, len_bytes: 0 });
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let blocks = 1 + self.random.below(16);
        let sectors = self.somewhere(blocks * 8, 8);
        let disk_block = sectors.start / BLOCK_SECTORS as u64;
        let since = {
            let oracle = ask(self.oracle);
            (disk_block..disk_block + blocks).map(|block| oracle.read_begins((0, block))).collect()
        };
        self.sent.reads += 1;
        let offset_bytes = sectors.start * SECTOR_BYTES as u64;
        let cookie = self.client.submit_read(offset_bytes, blocks as u32 * BLOCK_BYTES as u32)?;
        self.waiting.insert(cookie, Waiting::Read { disk_block, since });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let event = ask(self.oracle).flush_begins();
        let cookie = self.client.submit_flush()?;
        self.waiting.insert(cookie, Waiting::Flush { event });
        Ok(())
    }

    fn take(&mut self, reply: Reply) -> Result<()> {
        let Some(waiting) = self.waiting.remove(&reply.cookie) else { bail!(Finding("a reply to nothing".to_owned())) };
        if let Err(error) = reply.result {
            let (command, offset_bytes) = (reply.command, reply.offset_bytes);
            bail!(Finding(format!("a {command:?} at byte {offset_bytes} failed: {error}")));
        }
        match waiting {
            Waiting::Flush { event } => {
                self.sent.flushes += 1;
                ask(self.oracle).flushed(event);
            }
            Waiting::Change { made, forced, len_bytes } => {
                self.in_flight_bytes -= len_bytes;
                ask(self.oracle).acknowledge(&made, forced);
            }
            Waiting::Read { disk_block, since } => {
                let found: Vec<Option<Content>> = reply.data.chunks_exact(BLOCK_BYTES).map(content_of).collect();
                let oracle = ask(self.oracle);
                for ((block, content), since) in (disk_block..).zip(found).zip(since) {
                    if let Err(objection) = oracle.saw_block((0, block), content, since) {
                        bail!(Finding(format!("while serving, {objection}")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A violation by the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Finding(pub String);
