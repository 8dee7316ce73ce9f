//! XFS beside the database: its log, and metadata written in place.

use super::plan::Plan;
use crate::generate::parts::{BLOCK_BYTES, Carry};
use crate::{Flags, Names, Op, Request};
use forebay_block::Random;

const LOG_PID: u32 = 301;
const METADATA_PID: u32 = 302;
/// Of four writes, this many go to the log.
const LOG_OF_FOUR: u64 = 3;

/// Writes caused by creating and removing files.
pub(super) struct Metadata {
    begin_block: u64,
    blocks: u64,
    log_blocks: u64,
    /// Next block of the log, which is a ring.
    log_at: u64,
    share: f64,
    owed: Carry,
    owed_blocks: u64,
    due_blocks: u64,
}

impl Metadata {
    pub fn new(plan: &Plan, begin_block: u64) -> Self {
        Self {
            begin_block,
            blocks: plan.metadata_blocks,
            log_blocks: plan.log_blocks,
            log_at: 0,
            share: plan.metadata_share,
            owed: Carry::default(),
            owed_blocks: 0,
            due_blocks: 0,
        }
    }

    /// The block behind the last.
    pub fn end_block(&self) -> u64 {
        self.begin_block + self.blocks + self.log_blocks
    }

    /// Counts that `blocks` blocks of files were written.
    pub fn owe(&mut self, blocks: u64) {
        self.owed_blocks += self.owed.take(blocks as f64 * self.share);
    }

    /// Called when a file was created, closed or removed: the metadata owed so far is written from now on.
    pub fn fall_due(&mut self) {
        self.due_blocks += std::mem::take(&mut self.owed_blocks);
    }

    pub fn is_due(&self) -> bool {
        self.due_blocks > 0
    }

    pub fn next(&mut self, now_ns: u64, random: &mut Random, names: &mut Names) -> Request {
        self.due_blocks = self.due_blocks.saturating_sub(1);
        let is_log = random.below(4) < LOG_OF_FOUR;
        let (block, flags, process, pid) = if is_log {
            let block = self.blocks + self.log_at;
            self.log_at = (self.log_at + 1) % self.log_blocks;
            let flags = Flags::META.with(Flags::SYNC).with(Flags::PREFLUSH).with(Flags::FUA);
            (block, flags, "kworker/u16:2", LOG_PID)
        } else {
            (random.below(self.blocks), Flags::META, "xfsaild/nvme0n1", METADATA_PID)
        };
        Request {
            flags,
            process: names.processes.number(process),
            pid,
            ..Request::new(now_ns, Op::Write, (self.begin_block + block) * BLOCK_BYTES, BLOCK_BYTES)
        }
    }
}
