//! The streams: which blocks hosts read, write and discard.

use crate::traces;
use anyhow::{Context, Result, bail};
use forebay_placement::cache::Key;
use forebay_trace::format::parquet::Wanted;
use forebay_trace::{Op, Request};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// What is always run: reads by Zipf's law, in one stream with changes of what is hot; YCSB's six workloads; a log-structured merge
/// tree with users that read.
pub const BUILT_IN: [&str; 11] = [
    "zipf:?alpha=0.8&reads=1",
    "zipf:?alpha=1&reads=1",
    "zipf:?alpha=1.2&reads=1",
    "zipf:?alpha=1&reads=1&shift=0.1",
    "ycsb:?workload=a&records=131072&operations=2600000",
    "ycsb:?workload=b&records=131072&operations=2600000",
    "ycsb:?workload=c&records=131072&operations=2600000",
    "ycsb:?workload=d&records=131072&operations=2600000",
    "ycsb:?workload=e&records=131072&operations=100000",
    "ycsb:?workload=f&records=131072&operations=2600000",
    "rocksdb:?scale=0.001&reads=0.5",
];

const BLOCK_BYTES: u64 = 4096;
/// Blocks that requests of a stream may have, each counted as often as it is accessed.
const ACCESSES_MAX: u64 = 1 << 25;

/// What a request does with its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Read,
    Write,
    /// They are zeros from now on: discarded, or written as zeros, which the pool keeps no data of.
    Discard,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub what: What,
    pub first: Key,
    pub blocks: u32,
}

impl Access {
    pub fn keys(self) -> impl Iterator<Item = Key> {
        (0..u64::from(self.blocks)).map(move |at| Key::from_bits(self.first.bits() + at))
    }
}

/// A stream.
pub struct Stream {
    pub name: String,
    pub accesses: Vec<Access>,
    /// Different blocks that are read.
    pub read_blocks: u64,
}

impl Stream {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// It cannot be read, tells no reads, or is too large.
    pub fn read(text: &str) -> Result<Self> {
        let mut found = Self { name: traces::short_name(text), accesses: Vec::new(), read_blocks: 0 };
        let (mut disks, mut count) = (HashMap::new(), 0);
        for trace in traces::named(text, None)? {
            let mut outside = None;
            let read = traces::read(&trace, None, Wanted::ALL, None, traces::Order::Recorded, |requests, _, _| {
                for request in requests {
                    match access(request, &mut disks) {
                        Ok(Some(access)) => {
                            count += u64::from(access.blocks);
                            found.accesses.push(access);
                        }
                        Ok(None) => {}
                        Err(error) => outside = Some(error),
                    }
                }
                outside.is_none() && count <= ACCESSES_MAX
            })?;
            read.whole()?;
            if let Some(error) = outside {
                return Err(error).with_context(|| format!("trace {text}"));
            }
        }
        if count > ACCESSES_MAX {
            bail!("trace {text}: over {ACCESSES_MAX} blocks are accessed: take a part of it");
        }
        let reads = found.accesses.iter().filter(|access| access.what == What::Read);
        let different: BTreeSet<Key> = reads.flat_map(|access| access.keys()).collect();
        if different.is_empty() {
            bail!("trace {text}: no reads; a read cache has nothing to do");
        }
        found.read_blocks = different.len() as u64;
        Ok(found)
    }
}

/// What a request does, if it concerns a cache. An access of which the trace does not tell what it was is taken as a read.
fn access(request: &Request, disks: &mut HashMap<u32, u16>) -> Result<Option<Access>> {
    let (first, end) = (request.offset_bytes / BLOCK_BYTES, request.end_bytes().div_ceil(BLOCK_BYTES));
    let (what, first, end) = match request.op {
        Op::Read | Op::Access => (What::Read, first, end),
        Op::Write => (What::Write, first, end),
        // Whole blocks only.
        Op::Discard | Op::WriteZeroes => {
            (What::Discard, request.offset_bytes.div_ceil(BLOCK_BYTES), request.end_bytes() / BLOCK_BYTES)
        }
        Op::Flush => return Ok(None),
    };
    if first >= end {
        return Ok(None);
    }
    let next = disks.len();
    let disk = match disks.entry(request.volume) {
        Entry::Occupied(known) => *known.get(),
        Entry::Vacant(new) => {
            *new.insert(u16::try_from(next).context("more volumes than a pool may have disks, 65,536")?)
        }
    };
    let key = |block| Key::new(disk, block).with_context(|| format!("block {block} is above 2^48"));
    let blocks = u32::try_from(end - first).ok().filter(|&blocks| u64::from(blocks) <= ACCESSES_MAX);
    let blocks = blocks.with_context(|| format!("a request of {} blocks", end - first))?;
    key(end - 1)?;
    Ok(Some(Access { what, first: key(first)?, blocks }))
}
