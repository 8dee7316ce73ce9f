//! Trace requests in whole 4 KiB blocks, for comparisons of policies block by block.

use super::read::{Order, read};
use super::{Named, named};
use anyhow::Result;
use forebay_block::BLOCK_BYTES_U64 as BLOCK_BYTES;
use forebay_trace::format::parquet::Wanted;
use forebay_trace::{Op, Request};
use std::collections::HashMap;

/// Effect of a request on its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A read, or an access whose direction the trace does not contain.
    Read,
    Write,
    /// The blocks read as zeros from now on: discarded or written as zeros, for which the pool stores no data.
    Discard,
}

/// The blocks of a request, at least one: reads and writes include partly touched blocks, discards only fully covered ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    pub what: What,
    /// Number of the volume, unique over all traces and their volumes.
    pub volume: u32,
    pub first: u64,
    /// Behind the last block.
    pub end: u64,
    /// Whether the request begins inside its first block.
    pub begins_inside: bool,
}

/// Volume numbers by trace and the number within it: numbers of different traces are unrelated.
#[derive(Debug, Default)]
struct Volumes {
    numbers: HashMap<(usize, u32), u32>,
}

impl Volumes {
    fn number(&mut self, trace: usize, volume: u32) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry((trace, volume)).or_insert(next)
    }
}

/// Reads all traces that `text` names to their ends, or until `take` returns `false`.
///
/// # Errors
/// A trace cannot be read to its end.
pub fn read_blocks(text: &str, take: impl FnMut(Blocks) -> bool) -> Result<()> {
    read_all(&named(text, None)?, take)
}

fn read_all(traces: &[Named], mut take: impl FnMut(Blocks) -> bool) -> Result<()> {
    let (mut volumes, mut wants_more) = (Volumes::default(), true);
    for (at, trace) in traces.iter().enumerate() {
        let found = read(trace, None, Wanted::ALL, None, Order::Recorded, |requests, _, _| {
            let mut blocks = requests.iter().filter_map(|request| blocks(request, volumes.number(at, request.volume)));
            wants_more = blocks.all(&mut take);
            wants_more
        })?;
        found.whole()?;
        if !wants_more {
            break;
        }
    }
    Ok(())
}

fn blocks(request: &Request, volume: u32) -> Option<Blocks> {
    let (start, end) = (request.offset_bytes, request.end_bytes());
    let touched = (start / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
    let (what, (first, end)) = match request.op {
        Op::Read | Op::Access => (What::Read, touched),
        Op::Write => (What::Write, touched),
        Op::Discard | Op::WriteZeroes => (What::Discard, (start.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES)),
        Op::Flush => return None,
    };
    let begins_inside = !start.is_multiple_of(BLOCK_BYTES);
    (first < end).then_some(Blocks { what, volume, first, end, begins_inside })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const HEAD: &str = "time_ns,op,offset_bytes,len_bytes,latency_ns,volume\n";

    fn of(files: &[&str]) -> Vec<Blocks> {
        let directory = tempfile::TempDir::new().unwrap();
        for (at, lines) in files.iter().enumerate() {
            std::fs::write(directory.path().join(format!("{at}.csv")), format!("{HEAD}{lines}")).unwrap();
        }
        let mut found = Vec::new();
        read_blocks(directory.path().to_str().unwrap(), |blocks| {
            found.push(blocks);
            true
        })
        .unwrap();
        found
    }

    #[test]
    fn requests_touch_blocks_and_discards_cover_them() {
        let found =
            of(&["0,read,512,4096,,\n1,write,4096,4096,,\n2,discard,512,12288,,\n3,discard,0,512,,\n4,flush,0,0,,\n"]);
        let known: Vec<_> = found.iter().map(|blocks| (blocks.what, blocks.first, blocks.end)).collect();
        assert_eq!(known, [(What::Read, 0, 2), (What::Write, 1, 2), (What::Discard, 1, 3)]);
        assert_eq!(found.iter().map(|blocks| blocks.begins_inside).collect::<Vec<_>>(), [true, false, true]);
    }

    /// Each file numbers its own volumes from the same first number.
    #[test]
    fn regression_volumes_of_two_traces_are_two() {
        let found = of(&["0,read,0,4096,,a\n1,read,0,4096,,b\n", "0,read,0,4096,,c\n1,read,0,4096,,d\n"]);
        assert_eq!(found.iter().map(|blocks| blocks.volume).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_read_after_enough() {
        let mut count = 0;
        read_blocks("zipf:?size=1MiB", |_| {
            count += 1;
            count < 5
        })
        .unwrap();
        assert_eq!(count, 5);
    }
}
