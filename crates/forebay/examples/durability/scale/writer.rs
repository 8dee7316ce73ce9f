//! Numbered writes of one block each, and the check of what they left.

use super::case::{Case, LEAF_BLOCKS};
use crate::ledger::Ledger;
use crate::load::{Finding, connect};
use crate::part::sectors_of;
use crate::random::{Random, mix};
use crate::sector::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, WRONG, ZERO, fill};
use anyhow::{Result, bail};
use forebay_device::nbd_client::{NbdClient, NbdUri, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DEPTH: usize = 128;
/// Writes between two flushes.
const FLUSH_EVERY: u32 = 4096;

/// Everything written: write number n, from 1 on, went to `blocks[n - 1]`.
pub struct Written {
    seed: u64,
    blocks: Vec<u64>,
}

/// Where the writer is, for whoever watches.
#[derive(Debug, Default)]
pub struct Progress {
    /// Leaves touched so far.
    pub leaves: AtomicU64,
    /// Writes acknowledged so far.
    pub writes: AtomicU64,
    /// The server is about to be killed: a broken connection is no finding.
    pub dying: AtomicBool,
}

enum Waiting {
    Write(u32),
    Flush(usize),
}

impl Written {
    /// Nothing yet.
    pub fn new(seed: u64) -> Self {
        Self { seed: mix(seed), blocks: Vec::new() }
    }

    /// Number of writes sent.
    pub fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Writes until the server dies.
    pub fn write(&mut self, case: &Case, uri: &NbdUri, ledger: &Ledger, progress: &Progress) -> Result<()> {
        let mut client = connect(uri)?;
        let mut random = Random::new(self.seed);
        let mut seen = vec![0_u64; (case.blocks() / LEAF_BLOCKS / 64 + 1) as usize];
        let mut waiting = BTreeMap::new();
        loop {
            let outcome = self.step(case, &mut client, &mut random, &mut waiting, ledger, progress);
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
        ledger: &Ledger,
        progress: &Progress,
    ) -> Result<u64> {
        while waiting.len() >= DEPTH {
            let reply = client.wait()?;
            self.take(&reply, waiting, ledger, progress)?;
        }
        let number = self.blocks.len() as u32 + 1;
        if number.is_multiple_of(FLUSH_EVERY) {
            let mark = ledger.mark();
            waiting.insert(client.submit_flush()?, Waiting::Flush(mark));
        }
        let swept = u64::from(number - 1) * LEAF_BLOCKS;
        let block = if case.sweep && swept < case.blocks() { swept } else { random.below(case.blocks()) };
        self.blocks.push(block);
        let mut bytes = [0; BLOCK_BYTES];
        for (index, chunk) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            fill(chunk, self.seed, block * BLOCK_SECTORS as u64 + index as u64, number);
        }
        waiting.insert(client.submit_write(block * BLOCK_BYTES as u64, &bytes, false)?, Waiting::Write(number));
        Ok(block)
    }

    fn take(
        &self,
        reply: &Reply,
        waiting: &mut BTreeMap<u64, Waiting>,
        ledger: &Ledger,
        progress: &Progress,
    ) -> Result<()> {
        if let Err(error) = &reply.result {
            bail!(Finding(format!("a {:?} at byte {} failed: {error}", reply.command, reply.offset_bytes)));
        }
        match waiting.remove(&reply.cookie) {
            Some(Waiting::Write(number)) => {
                progress.writes.fetch_add(1, Ordering::Relaxed);
                let block = self.blocks[number as usize - 1];
                ledger.acknowledge([(block as u32, number)].into_iter(), false);
            }
            Some(Waiting::Flush(mark)) => ledger.flushed(mark),
            None => bail!(Finding("a reply to nothing".to_owned())),
        }
        Ok(())
    }

    /// Reads what was written, and a thousand blocks that were not; gives the number of blocks read, and of those
    /// whose only writes were never flushed.
    pub fn check(&self, case: &Case, uri: &NbdUri, durable: &[(u32, u32)]) -> Result<(u64, u64)> {
        let mut floors: BTreeMap<u64, u32> = BTreeMap::new();
        for &block in &self.blocks {
            floors.insert(block, 0);
        }
        for &(block, number) in durable {
            let floor = floors.entry(u64::from(block)).or_default();
            *floor = number.max(*floor);
        }
        let keep_all_from = self.len().saturating_sub(case.check_max / 2) as usize;
        let newest: BTreeSet<u64> = self.blocks[keep_all_from..].iter().copied().collect();
        let every = (floors.len() as u64).div_ceil(case.check_max / 2).max(1);
        let mut nth = 0;
        floors.retain(|block, _| {
            nth += 1;
            nth % every == 0 || newest.contains(block)
        });
        let open = floors.values().filter(|&&floor| floor == 0).count() as u64;
        let mut random = Random::new(self.seed ^ 1);
        for _ in 0..1000 {
            floors.entry(random.below(case.blocks())).or_insert(0);
        }
        let mut client = connect(uri)?;
        let mut under_way = BTreeMap::new();
        for (&block, &floor) in &floors {
            if under_way.len() >= DEPTH {
                self.judge(&client.wait()?, &mut under_way)?;
            }
            let cookie = client.submit_read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32)?;
            under_way.insert(cookie, (block, floor));
        }
        while !under_way.is_empty() {
            self.judge(&client.wait()?, &mut under_way)?;
        }
        client.disconnect()?;
        Ok((floors.len() as u64, open))
    }

    fn judge(&self, reply: &Reply, under_way: &mut BTreeMap<u64, (u64, u32)>) -> Result<()> {
        let Some((block, floor)) = under_way.remove(&reply.cookie) else {
            bail!(Finding("a reply to nothing".to_owned()));
        };
        if let Err(error) = &reply.result {
            bail!(Finding(format!("after recovery, a read of block {block} failed: {error}")));
        }
        let found = sectors_of(&reply.data, self.seed, block);
        let number = found[0];
        let whole = found.iter().all(|&other| other == number) && number != WRONG;
        let ours = number == ZERO || self.blocks.get(number as usize - 1) == Some(&block);
        if !whole || !ours || number < floor {
            bail!(Finding(format!("block {block} holds {found:?}; write {floor} of it was flushed")));
        }
        Ok(())
    }
}
