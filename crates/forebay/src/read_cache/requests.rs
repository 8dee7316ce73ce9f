//! The streams: which blocks the hosts read, write and discard.

use crate::traces::{self, Blocks, What};
use anyhow::{Context, Result, bail};
use forebay_placement::cache::Key;
use forebay_trace::generate;
use std::collections::{BTreeSet, VecDeque};

/// The streams that always run: Zipf reads, in one of them with a changing hot set; YCSB's six workloads; a log-structured merge tree with
/// readers.
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

/// Maximum number of blocks read and written by a stream, counting repeated accesses.
const ACCESSES_MAX: u64 = 1 << 25;
/// A read counts as continuing another within a block only if at most this many reads lie between them.
const CONTINUED_WITHIN: usize = 64;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub what: What,
    pub first: Key,
    pub blocks: u64,
    /// Whether the read begins inside the block in which one of the last reads ended: a reader with unaligned requests.
    pub goes_on_inside: bool,
}

impl Access {
    /// A read of `blocks` blocks.
    pub fn read(first: Key, blocks: u64) -> Self {
        Self { what: What::Read, first, blocks, goes_on_inside: false }
    }

    pub fn last(self) -> Key {
        Key::from_bits(self.first.bits() + (self.blocks - 1))
    }

    pub fn keys(self) -> impl Iterator<Item = Key> {
        (0..self.blocks).map(move |at| Key::from_bits(self.first.bits() + at))
    }
}

/// Origin of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A recorded file of a real load.
    Recorded,
    /// A generator.
    Generated,
    /// Made for exactly this cache size.
    Made,
}

/// A stream.
pub struct Stream {
    pub name: String,
    pub origin: Origin,
    pub accesses: Vec<Access>,
    /// Distinct blocks that are read or written, sorted.
    pub known: Vec<Key>,
    /// Number of distinct blocks that are read.
    pub read_blocks: u64,
}

impl Stream {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// The trace cannot be read, has no reads, or is too large.
    pub fn read(text: &str) -> Result<Self> {
        let (mut accesses, mut last_reads) = (Vec::new(), VecDeque::new());
        let (mut count, mut outside) = (0, None);
        traces::read_blocks(text, |blocks| {
            match access(blocks, &mut last_reads) {
                Ok(access) => {
                    // A discard counts as one, because only its known blocks are looked at.
                    count += if access.what == What::Discard { 1 } else { access.blocks };
                    accesses.push(access);
                }
                Err(error) => outside = Some(error),
            }
            outside.is_none() && count <= ACCESSES_MAX
        })?;
        if let Some(error) = outside {
            return Err(error).with_context(|| format!("trace {text}"));
        }
        if count > ACCESSES_MAX {
            bail!("trace {text}: over {ACCESSES_MAX} blocks are accessed: take a part of it");
        }
        let origin = if generate::open(text).is_some() { Origin::Generated } else { Origin::Recorded };
        let found = Self::of(traces::short_name(text), origin, accesses);
        if found.read_blocks == 0 {
            bail!("trace {text}: no reads; a read cache has nothing to do");
        }
        Ok(found)
    }

    /// A stream of these accesses.
    pub fn of(name: String, origin: Origin, accesses: Vec<Access>) -> Self {
        let different = |of: &[What]| -> BTreeSet<Key> {
            accesses.iter().filter(|access| of.contains(&access.what)).flat_map(|access| access.keys()).collect()
        };
        let read_blocks = different(&[What::Read]).len() as u64;
        let known = different(&[What::Read, What::Write]).into_iter().collect();
        Self { name, origin, accesses, known, read_blocks }
    }

    /// Number of reads that begin inside the block of an earlier read's end.
    pub fn going_on_inside(&self) -> u64 {
        self.accesses.iter().filter(|access| access.goes_on_inside).count() as u64
    }
}

/// Converts a request. `last_reads`: the blocks in which the last reads ended.
fn access(blocks: Blocks, last_reads: &mut VecDeque<Key>) -> Result<Access> {
    let disk = u16::try_from(blocks.volume).context("more volumes than a pool may have disks, 65,536")?;
    let key = |block| Key::new(disk, block).with_context(|| format!("block {block} is above 2^48"));
    let (first, last) = (key(blocks.first)?, key(blocks.end - 1)?);
    let is_read = blocks.what == What::Read;
    let goes_on_inside = is_read && blocks.begins_inside && last_reads.contains(&first);
    if is_read {
        last_reads.push_back(last);
        if last_reads.len() > CONTINUED_WITHIN {
            last_reads.pop_front();
        }
    }
    Ok(Access { what: blocks.what, first, blocks: blocks.end - blocks.first, goes_on_inside })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn stream(lines: &str) -> Result<Stream> {
        let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
        std::fs::write(file.path(), format!("time_ns,op,offset_bytes,len_bytes,latency_ns,volume\n{lines}")).unwrap();
        Stream::read(file.path().to_str().unwrap())
    }

    /// A discard of a whole disk is one line of a trace.
    #[test]
    fn regression_a_large_discard_is_no_reason_to_refuse_a_trace() {
        let found = stream("0,discard,0,1099511627776,,\n1,read,0,8192,,\n2,write,65536,4096,,\n").unwrap();
        assert_eq!((found.read_blocks, found.known.len(), found.accesses.len()), (2, 3, 3));
        assert_eq!(found.origin, Origin::Recorded);
        let error = stream("0,read,0,1099511627776,,\n").err().unwrap();
        assert!(error.to_string().contains("33554432 blocks"), "{error}");
    }

    #[test]
    fn reads_that_go_on_inside_a_block_are_known() {
        // Two interleaved readers, one of them aligned; then one that begins inside a block that nobody read.
        let found = stream(
            "0,read,512,65536,,\n1,read,1048576,65536,,\n2,read,66048,65536,,\n3,read,1114112,65536,,\n4,read,9000000,512,,\n",
        )
        .unwrap();
        let inside: Vec<bool> = found.accesses.iter().map(|access| access.goes_on_inside).collect();
        assert_eq!(inside, [false, false, true, false, false]);
        assert_eq!(found.going_on_inside(), 1);
    }
}
