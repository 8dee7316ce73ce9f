//! Numbered writes of one block each, and the check of their results.

use super::case::{Case, LEAF_BLOCKS};
use crate::load::{Finding, connect};
use anyhow::{Result, bail};
use forebay_block::{BLOCK_BYTES, Random};
use forebay_device::nbd_client::{NbdClient, NbdUri, Reply};
use forebay_proof::oracle::Oracle;
use forebay_proof::stamp::{BLOCK_SECTORS, Content, content_of, fill_all};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DEPTH: usize = 128;
/// Writes between two flushes.
const FLUSH_EVERY: u32 = 4096;

/// All writes: write number n, from 1 on, was to block `blocks[n - 1]`.
pub struct Written {
    seed: u64,
    blocks: Vec<u64>,
    /// Numbers of writes in the order of their acknowledgement.
    acknowledged: Vec<u32>,
    /// How many of them are covered by completed flushes.
    covered: usize,
}

/// The content of write number n.
fn content(number: u32) -> Content {
    std::array::from_fn(|sector| (number - 1) * BLOCK_SECTORS as u32 + 1 + sector as u32)
}

/// The progress of the writer, for the thread that watches.
#[derive(Debug, Default)]
pub struct Progress {
    /// Number of leaves touched so far.
    pub leaves: AtomicU64,
    /// Number of writes acknowledged so far.
    pub writes: AtomicU64,
    /// Whether the server is about to be killed: a broken connection is no finding then.
    pub dying: AtomicBool,
}

enum Waiting {
    Write(u32),
    Flush(usize),
}

impl Written {
    /// A writer that has written nothing yet.
    pub fn new(seed: u64) -> Self {
        Self { seed, blocks: Vec::new(), acknowledged: Vec::new(), covered: 0 }
    }

    /// Number of writes sent.
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Writes until the server dies.
    pub fn write(&mut self, case: &Case, uri: &NbdUri, progress: &Progress) -> Result<()> {
        let mut client = connect(uri)?;
        let mut random = Random::new(self.seed);
        let mut seen = vec![0_u64; (case.blocks() / LEAF_BLOCKS / 64 + 1) as usize];
        let mut waiting = BTreeMap::new();
        loop {
            let outcome = self.step(case, &mut client, &mut random, &mut waiting, progress);
            match outcome {
                Ok(block) => {
                    let leaf = block / LEAF_BLOCKS;
                    let bit = 1 << (leaf % 64);
                    if seen[(leaf / 64) as usize] & bit == 0 {
                        seen[(leaf / 64) as usize] |= bit;
                        progress.leaves.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Err(error) if error.is::<Finding>() || !progress.dying.load(Ordering::SeqCst) => return Err(error),
                Err(_) => return Ok(()),
            }
        }
    }

    fn step(
        &mut self,
        case: &Case,
        client: &mut NbdClient,
        random: &mut Random,
        waiting: &mut BTreeMap<u64, Waiting>,
        progress: &Progress,
    ) -> Result<u64> {
        while waiting.len() >= DEPTH {
            let reply = client.wait()?;
            self.take(&reply, waiting, progress)?;
        }
        let number = self.blocks.len() as u32 + 1;
        if number.is_multiple_of(FLUSH_EVERY) {
            let mark = self.acknowledged.len();
            waiting.insert(client.submit_flush()?, Waiting::Flush(mark));
        }
        let swept = u64::from(number - 1) * LEAF_BLOCKS;
        let block = if case.sweep && swept < case.blocks() { swept } else { random.below(case.blocks()) };
        self.blocks.push(block);
        let mut bytes = [0; BLOCK_BYTES];
        fill_all(&content(number), &mut bytes);
        waiting.insert(client.submit_write(block * BLOCK_BYTES as u64, &bytes, false)?, Waiting::Write(number));
        Ok(block)
    }

    fn take(&mut self, reply: &Reply, waiting: &mut BTreeMap<u64, Waiting>, progress: &Progress) -> Result<()> {
        if let Err(error) = &reply.result {
            bail!(Finding(format!("a {:?} at byte {} failed: {error}", reply.command, reply.offset_bytes)));
        }
        match waiting.remove(&reply.cookie) {
            Some(Waiting::Write(number)) => {
                progress.writes.fetch_add(1, Ordering::Relaxed);
                self.acknowledged.push(number);
            }
            Some(Waiting::Flush(mark)) => self.covered = self.covered.max(mark),
            None => bail!(Finding("a reply to nothing".to_owned())),
        }
        Ok(())
    }

    /// Reads about `check_max` of the written blocks at most, and a thousand random ones; returns the number of blocks
    /// read, and the number of written ones among them without a flushed write.
    pub fn check(&self, case: &Case, uri: &NbdUri) -> Result<(u64, u64)> {
        let history = History::of(self);
        let mut blocks: Vec<u64> = history.writes.iter().map(|&(block, _)| block).collect();
        blocks.dedup();
        let keep_all_from = self.len().saturating_sub(case.check_max / 2) as usize;
        let newest: BTreeSet<u64> = self.blocks[keep_all_from..].iter().copied().collect();
        let every = (blocks.len() as u64).div_ceil(case.check_max / 2).max(1);
        let mut nth = 0;
        blocks.retain(|block| {
            nth += 1;
            nth % every == 0 || newest.contains(block)
        });
        let open = blocks.iter().filter(|&&block| !history.has_durable(block)).count() as u64;
        let mut random = Random::new(self.seed ^ 1);
        blocks.extend((0..1000).map(|_| random.below(case.blocks())));
        let mut client = connect(uri)?;
        let mut in_flight = BTreeMap::new();
        for &block in &blocks {
            if in_flight.len() >= DEPTH {
                history.judge(&client.wait()?, &mut in_flight)?;
            }
            let cookie = client.submit_read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32)?;
            in_flight.insert(cookie, block);
        }
        while !in_flight.is_empty() {
            history.judge(&client.wait()?, &mut in_flight)?;
        }
        client.disconnect()?;
        Ok((blocks.len() as u64, open))
    }
}

/// All writes, by block: too many blocks for one oracle, so that each gets its own when it is judged.
struct History {
    /// Block and number of each write, sorted.
    writes: Vec<(u64, u32)>,
    /// For each number, whether a flush covers the write.
    is_durable: Vec<bool>,
}

impl History {
    fn of(written: &Written) -> Self {
        let mut writes: Vec<(u64, u32)> = written.blocks.iter().copied().zip(1..).collect();
        writes.sort_unstable();
        let mut is_durable = vec![false; written.blocks.len() + 1];
        written.acknowledged[..written.covered].iter().for_each(|&number| is_durable[number as usize] = true);
        Self { writes, is_durable }
    }

    /// The writes of a block in the order of sending, and whether each was flushed.
    fn of_block(&self, block: u64) -> impl Iterator<Item = (u32, bool)> {
        let first = self.writes.partition_point(|&(other, _)| other < block);
        let of_block = self.writes[first..].iter().take_while(move |&&(other, _)| other == block);
        of_block.map(|&(_, number)| (number, self.is_durable[number as usize]))
    }

    fn has_durable(&self, block: u64) -> bool {
        self.of_block(block).any(|(_, is_durable)| is_durable)
    }

    fn judge(&self, reply: &Reply, in_flight: &mut BTreeMap<u64, u64>) -> Result<()> {
        let Some(block) = in_flight.remove(&reply.cookie) else {
            bail!(Finding("a reply to nothing".to_owned()));
        };
        if let Err(error) = &reply.result {
            bail!(Finding(format!("after recovery, a read of block {block} failed: {error}")));
        }
        let mut oracle = Oracle::default();
        for (number, is_durable) in self.of_block(block) {
            let made = oracle.change(0, block * BLOCK_SECTORS as u64, &content(number));
            if is_durable {
                oracle.acknowledge(&made, true);
            }
        }
        oracle.survived((0, block), content_of(&reply.data)).map_err(|objection| Finding(objection).into()).map(drop)
    }
}
