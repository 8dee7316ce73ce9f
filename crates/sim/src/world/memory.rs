//! What is remembered of a pool from round to round.

use super::administered_states::AdministeredDisk;
use crate::base::BaseImage;
use crate::oracle::Oracle;
use crate::stamp::noise_words;
use std::collections::BTreeMap;

/// Name of the first disk, which is always there.
pub const FIRST: &str = "disk";
/// Name of the second, which comes and goes.
pub const SECOND: &str = "two";

/// What is known of the second disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// Its number.
    pub id: u16,
    /// Its size in blocks.
    pub blocks: u64,
}

/// What outlives a round.
pub struct Memory {
    /// What may be read.
    pub oracle: Oracle,
    /// The next tag.
    pub next_tag: u32,
    /// Only tags are given of which nearly nothing is left when they are compressed.
    pub is_packed: bool,
    /// The second disk as it durably is.
    pub second: Option<Second>,
    /// As it may be instead: the change was not durable when the power failed.
    pub maybe: Option<Option<Second>>,
    /// Number of the checkpoint that was the last as that change was made, where nobody waited for it.
    pub changed_at: u64,
    /// The administered disk, and those that had its name.
    pub administered: AdministeredDisk,
    /// What disks lie over, or lay, by their numbers.
    pub bases: BTreeMap<u16, BaseImage>,
}

impl Memory {
    /// Of an empty pool.
    pub fn new() -> Self {
        Self {
            oracle: Oracle::default(),
            next_tag: 1,
            is_packed: false,
            second: None,
            maybe: None,
            changed_at: 0,
            administered: AdministeredDisk::new(),
            bases: BTreeMap::new(),
        }
    }

    /// Tags for a write that begins.
    pub fn new_tags(&mut self, sectors: usize) -> Vec<u32> {
        let is_given = |&tag: &u32| !self.is_packed || noise_words(tag) == 0;
        let tags: Vec<u32> = (self.next_tag..).filter(is_given).take(sectors).collect();
        self.next_tag = tags.last().map_or(self.next_tag, |last| last + 1);
        tags
    }

    /// The second disk as it is used: as the last change made it, durable or not.
    pub(super) fn used_second(&self) -> Option<Second> {
        self.maybe.flatten().or(self.second)
    }
}
