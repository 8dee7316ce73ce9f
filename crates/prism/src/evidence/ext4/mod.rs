//! ext2, ext3, ext4. Layouts from the Linux kernel, `fs/ext4/ext4.h`, `fs/ext4/ext4_extents.h`,
//! `include/linux/jbd2.h`, and its `Documentation/filesystems/ext4/`.
//!
//! Bitmaps and inode tables contain nothing that identifies them, so that they are recognised by address: from the
//! group descriptors once these have been seen, until then from where mke2fs places them. The journal is recognised
//! from the copy of its inode's block map in the superblock; without that copy, by following descriptor blocks to
//! their commit block.

mod content;
mod extents;
mod geometry;
pub(super) mod geometry_codec;
mod learned;

pub(super) use extents::{EXTENTS_LIMIT, Extents};
pub(super) use geometry::Geometry;

use super::kind::{BLOCK, Found, Role};
use crate::bytes::be32;

/// Most index blocks of a journal's extent tree that are remembered.
pub(super) const JOURNAL_INDEX_LIMIT: usize = 16;
/// Most extents of a journal.
pub(super) const JOURNAL_EXTENTS_LIMIT: usize = 64;
/// Most blocks of a journal: mke2fs makes none above 10,240,000.
const JOURNAL_LIMIT_BLOCKS: u64 = 1 << 24;
/// Longest part of a transaction after one descriptor block, in blocks: a 4 KiB descriptor names at most 510 blocks
/// with tags of 8 bytes (`journal_block_tag_t`); for 64 KiB this is the limit.
const DESCRIPTOR_RUN_LIMIT: u32 = 1024;
const JBD2_MAGIC: u32 = 0xc03b_3998;

/// A file system of the ext family.
#[derive(Debug)]
pub(super) struct Ext4 {
    pub geometry: Geometry,
    /// Bitmaps and inode tables, in file-system blocks.
    pub tables: Extents,
    /// Number of groups, from the first on, whose descriptors are in `tables`.
    pub learned_groups: u32,
    /// The journal, in file-system blocks.
    pub journal: Extents,
    /// Blocks of the journal's extent tree that have not been seen yet.
    pub journal_index: Vec<u64>,
    /// Where the next block of the followed transaction is expected, and how many more may come.
    run_next: u64,
    run_left: u32,
}

impl Ext4 {
    pub fn parse(block: &[u8], room: u64) -> Option<Self> {
        let geometry = Geometry::parse(block, room)?;
        let mut found = Self::bare(geometry);
        found.learn_journal(block);
        Some(found)
    }

    /// A file system of which only the geometry is known.
    pub fn bare(geometry: Geometry) -> Self {
        Self {
            geometry,
            tables: Extents::default(),
            learned_groups: 0,
            journal: Extents::default(),
            journal_index: Vec::new(),
            run_next: 0,
            run_left: 0,
        }
    }

    /// Whether descriptors or the journal's map have not been seen completely.
    pub fn is_incomplete(&self) -> bool {
        !self.geometry.external_journal && (self.learned_groups < self.geometry.groups || self.journal_is_vague())
    }

    /// Whether the journal is inside the file system and its place is not (or not completely) known.
    fn journal_is_vague(&self) -> bool {
        self.geometry.has_journal && (self.journal.is_empty() || !self.journal_index.is_empty())
    }

    /// The role of the 4 KiB at `at` (relative to the file system). Also learns from them.
    #[inline]
    pub fn judge(&mut self, at: u64, rest: &[u8]) -> Found {
        let log = self.geometry.block_log;
        if self.geometry.external_journal {
            return (if at == 0 { Role::Superblock } else { Role::Journal }, BLOCK);
        }
        if log >= 12 {
            // One block, or a part of a larger one: structures begin at the start of a block.
            let number = at >> log;
            let whole = at.trailing_zeros() >= log;
            return (self.judge_block(number, if whole { rest } else { &[] }), BLOCK);
        }
        let mut strongest = Role::Data;
        for sub in (0..BLOCK).step_by(1 << log) {
            let Some(part) = rest.get(sub as usize..) else {
                break;
            };
            let role = self.judge_block((at + sub) >> log, part);
            strongest = rank(strongest, role);
        }
        (strongest, BLOCK)
    }

    fn judge_block(&mut self, number: u64, rest: &[u8]) -> Role {
        if self.journal.contains(number) {
            return Role::Journal;
        }
        if self.journal_is_vague() {
            self.learn_journal_leaf(number, rest);
            if self.follow_transaction(number, rest) {
                return Role::Journal;
            }
        }
        let Some((group, within)) = self.geometry.group_of(number) else {
            return Role::Superblock;
        };
        if within < self.geometry.widest_overhead {
            if within == 0 && self.geometry.has_superblock(group) {
                return Role::Superblock;
            }
            if within < self.geometry.overhead(group) {
                self.learn_descriptors(group, within, rest);
                return Role::Metadata;
            }
        }
        if self.tables.contains(number) {
            return Role::Metadata;
        }
        if group >= self.learned_groups && self.geometry.expects_tables_at(group, number) {
            return Role::Metadata;
        }
        let block = rest.get(..1 << self.geometry.block_log).unwrap_or_default();
        if content::is_metadata(&self.geometry, number, block) { Role::Metadata } else { Role::Data }
    }

    /// Follows a transaction by its blocks if the place of the journal is unknown.
    fn follow_transaction(&mut self, number: u64, rest: &[u8]) -> bool {
        let header = be32(rest, 0) == JBD2_MAGIC;
        let kind = if header { be32(rest, 4) } else { 0 };
        match kind {
            // Descriptor: the blocks that it names follow.
            1 => (self.run_next, self.run_left) = (number + 1, DESCRIPTOR_RUN_LIMIT),
            // Commit ends the run.
            2 => self.run_left = 0,
            // Journal superblock versions 1 and 2, revocation.
            3..=5 => {}
            _ if self.run_left > 0 && number == self.run_next => {
                self.run_next += 1;
                self.run_left -= 1;
            }
            _ => return false,
        }
        true
    }
}

/// The role of a 4 KiB block that consists of several smaller ones: that of the one written most often.
fn rank(left: Role, right: Role) -> Role {
    let weight = |role| match role {
        Role::Journal => 3,
        Role::Superblock => 2,
        Role::Metadata => 1,
        Role::Swap | Role::Data => 0,
    };
    if weight(right) > weight(left) { right } else { left }
}
