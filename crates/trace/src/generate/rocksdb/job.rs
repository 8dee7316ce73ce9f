//! The job of one background thread: it alternates between reading and writing until its merge is done.

use super::tree::{File, Merge, lifetime};
use crate::generate::parts::{BLOCK_BYTES, REQUEST_BYTES};
use crate::{Flags, Lifetime, Op, Request};

/// The position of the next transfer in a list of files.
#[derive(Default)]
struct Cursor {
    file: usize,
    extent: usize,
    block: u64,
    done_blocks: u64,
}

impl Cursor {
    /// The next blocks of the files, at most a request's length: file, first block, number of blocks.
    fn next<'a>(&mut self, files: &'a [File]) -> Option<(&'a File, u64, u64)> {
        loop {
            let file = files.get(self.file)?;
            let Some(extent) = file.extents.get(self.extent) else {
                (self.file, self.extent, self.block) = (self.file + 1, 0, 0);
                continue;
            };
            let here = (extent.blocks - self.block).min(REQUEST_BYTES / BLOCK_BYTES);
            if here == 0 {
                (self.extent, self.block) = (self.extent + 1, 0);
                continue;
            }
            let begin = extent.begin_block + self.block;
            self.block += here;
            self.done_blocks += here;
            return Some((file, begin, here));
        }
    }
}

/// A merge in progress.
pub(super) struct Job {
    merge: Merge,
    read: Cursor,
    written: Cursor,
    read_blocks: u64,
    write_blocks: u64,
}

fn stored_blocks(files: &[File]) -> u64 {
    files.iter().flat_map(|file| &file.extents).map(|extent| extent.blocks).sum()
}

impl Job {
    pub fn new(merge: Merge) -> Self {
        let (read_blocks, write_blocks) = (stored_blocks(&merge.inputs), stored_blocks(&merge.outputs));
        Self { merge, read: Cursor::default(), written: Cursor::default(), read_blocks, write_blocks }
    }

    /// The next request, as far as the job knows it; `None` when all is done.
    pub fn next(&mut self, now_ns: u64) -> Option<Request> {
        // Reads stay a request ahead of writes, since written data comes from them.
        let read = u128::from(self.read.done_blocks);
        let wanted = u128::from(self.written.done_blocks + REQUEST_BYTES / BLOCK_BYTES);
        let reads_next = read < u128::from(self.read_blocks)
            && read * u128::from(self.write_blocks) <= wanted * u128::from(self.read_blocks);
        let (op, (file, begin, blocks)) = if reads_next {
            (Op::Read, self.read.next(&self.merge.inputs)?)
        } else {
            (Op::Write, self.written.next(&self.merge.outputs)?)
        };
        let (flags, lifetime) = match op {
            Op::Read => (Flags::DIRECT, Lifetime::NotSet),
            _ => (Flags::SYNC, lifetime(self.merge.level)),
        };
        Some(Request {
            path: file.path,
            inode: file.inode,
            flags,
            lifetime,
            ..Request::new(now_ns, op, begin * BLOCK_BYTES, blocks * BLOCK_BYTES)
        })
    }

    /// Whether everything was read and written.
    pub fn is_done(&self) -> bool {
        self.read.done_blocks >= self.read_blocks && self.written.done_blocks >= self.write_blocks
    }

    /// The merge, after everything is done.
    pub fn into_merge(self) -> Merge {
        self.merge
    }
}
