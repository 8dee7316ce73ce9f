//! The streams: blocks that hosts write and discard.

use crate::traces::{self, Blocks, What};
use anyhow::{Context, Result, bail};
use forebay_placement::log::Op;
use std::collections::HashMap;

/// The streams that always run: Zipf writes on an empty log, as in the published figures, and on a full one; a changing hot set; a
/// log-structured merge tree; databases.
pub const BUILT_IN: [&str; 10] = [
    "zipf:?alpha=0.8",
    "zipf:?alpha=1",
    "zipf:?alpha=1.2",
    "zipf:?alpha=0.8&fill=1",
    "zipf:?alpha=1&fill=1",
    "zipf:?alpha=1.2&fill=1",
    "zipf:?alpha=1&fill=1&shift=0.1",
    "rocksdb:?scale=0.001",
    "mongodb:?scale=0.0005",
    "ycsb:?workload=a&records=131072&operations=2600000",
];

/// Maximum number of blocks that a stream touches, and of its writes and discards.
const BLOCKS_MAX: usize = 1 << 24;
const OPS_MAX: usize = 1 << 26;

/// A stream.
pub struct Stream {
    pub name: String,
    pub ops: Vec<Op>,
    /// For each write, how many blocks hosts write until its block is overwritten or discarded; `u64::MAX` where that never happens.
    pub dies_after: Vec<u64>,
    /// Number of distinct blocks.
    pub blocks: usize,
    /// Upper bound of the block numbers; some numbers have no block.
    pub addresses: usize,
    pub written_blocks: u64,
}

impl Stream {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// The trace cannot be read, has no writes, or is too large.
    pub fn read(text: &str) -> Result<Self> {
        let mut found = Self {
            name: traces::short_name(text),
            ops: Vec::new(),
            dies_after: Vec::new(),
            blocks: 0,
            addresses: 0,
            written_blocks: 0,
        };
        let mut numbers: HashMap<(u32, u64), u32> = HashMap::new();
        let mut is_too_large = false;
        traces::read_blocks(text, |blocks| {
            found.take(blocks, &mut numbers);
            is_too_large = numbers.len() > BLOCKS_MAX || found.ops.len() > OPS_MAX;
            !is_too_large
        })?;
        if is_too_large {
            bail!("trace {text}: over {BLOCKS_MAX} blocks or {OPS_MAX} writes and discards: take a part of it");
        }
        if found.written_blocks == 0 {
            bail!("trace {text}: no writes; nothing is amplified");
        }
        found.blocks = numbers.len();
        found.number_by_address(numbers)?;
        found.look_ahead().with_context(|| format!("trace {text}"))?;
        Ok(found)
    }

    fn take(&mut self, blocks: Blocks, numbers: &mut HashMap<(u32, u64), u32>) {
        match blocks.what {
            What::Read => {}
            What::Write => {
                for block in blocks.first..blocks.end {
                    let next = numbers.len() as u32;
                    let number = *numbers.entry((blocks.volume, block)).or_insert(next);
                    self.ops.push(Op::Write(number));
                    self.written_blocks += 1;
                    if numbers.len() > BLOCKS_MAX {
                        return;
                    }
                }
            }
            What::Discard => {
                // Only written blocks are in the log.
                let known = (blocks.first..blocks.end).filter_map(|block| numbers.get(&(blocks.volume, block)));
                self.ops.extend(known.map(|&number| Op::Discard(number)));
            }
        }
    }

    /// Renumbers the blocks, which were numbered in order of appearance, so that consecutive numbers mean consecutive addresses.
    fn number_by_address(&mut self, numbers: HashMap<(u32, u64), u32>) -> Result<()> {
        let mut by_address: Vec<_> = numbers.into_iter().collect();
        by_address.sort_unstable();
        let mut renumbered = vec![0; by_address.len()];
        let (mut next, mut before) = (0, None);
        for ((volume, block), met) in by_address {
            if before != Some((volume, block)) {
                next += 1;
            }
            *renumbered.get_mut(met as usize).context("a block without a number")? = next;
            next += 1;
            before = block.checked_add(1).map(|follows| (volume, follows));
        }
        for Op::Write(block) | Op::Discard(block) in &mut self.ops {
            *block = *renumbered.get(*block as usize).context("a block without a number")?;
        }
        self.addresses = next as usize;
        Ok(())
    }

    /// Computes when each version dies.
    fn look_ahead(&mut self) -> Result<()> {
        let mut next = vec![u64::MAX; self.addresses];
        self.dies_after = vec![u64::MAX; self.ops.len()];
        let mut now = self.written_blocks;
        for (op, dies_after) in self.ops.iter().zip(&mut self.dies_after).rev() {
            let (Op::Write(block) | Op::Discard(block)) = *op;
            let next = next.get_mut(block as usize).context("a block without a number")?;
            if let Op::Write(_) = op {
                now -= 1;
                *dies_after = next.saturating_sub(now);
                if *next == u64::MAX {
                    *dies_after = u64::MAX;
                }
            }
            *next = now;
        }
        Ok(())
    }
}
