//! Blocks of the capacity tier that hosts have read, in memory: in front of their copies on the fast tier, and of any device.
//!
//! Each is kept with what the map named for it when it was read: its place, and the checksum there. Whoever is served from here has looked the block up, and is
//! served if the map names the same now.

use crate::layout::page::Span;
use forebay_block::{BLOCK_BYTES as BLOCK, DiskId};
use forebay_placement::cache::{Key, S3Fifo};

/// Memory for each block: the block, 44 bytes of the policy, and what the map named.
pub(super) const BYTES_PER_BLOCK: u64 = (BLOCK + 44 + size_of::<Named>()) as u64;

/// What the map says of a block that is stored somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub span: Span,
    pub checksum: u32,
}

/// The blocks. All memory is allocated at the beginning; the kernel provides what is not used yet when it is.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// None where nothing is to be kept in memory.
    policy: Option<Box<S3Fifo>>,
    /// By the policy's places.
    named: Vec<Named>,
    bytes: Vec<u8>,
    hit_blocks: u64,
    /// Those of them that had a copy, too.
    copied_blocks: u64,
}

impl Recent {
    /// Allocates memory for so many blocks, where there is none. `seed` is for the policy's hashes.
    pub fn begin(&mut self, blocks: u32, seed: u64) {
        if blocks > 0 && self.policy.is_none() {
            self.policy = Some(Box::new(S3Fifo::of_all_reads(blocks, seed)));
            self.named = vec![Named { span: Span::whole(0), checksum: 0 }; blocks as usize];
            self.bytes = vec![0; blocks as usize * BLOCK];
        }
    }

    /// Gives the memory back.
    pub fn end(&mut self) {
        (self.policy, self.named, self.bytes) = (None, Vec::new(), Vec::new());
    }

    /// Whether blocks may be kept.
    pub fn is_on(&self) -> bool {
        self.policy.is_some()
    }

    /// Number of blocks that are kept.
    pub fn len(&self) -> u64 {
        self.policy.as_ref().map_or(0, |policy| policy.held().into())
    }

    /// Blocks that were read from here, and those of them that had a copy, too.
    pub fn hits(&self) -> (u64, u64) {
        (self.hit_blocks, self.copied_blocks)
    }

    /// Whether a block is here that lies where the map says; it does not count as read.
    pub fn holds(&self, disk: DiskId, block: u64, span: Span) -> bool {
        let place = self.policy.as_ref().zip(Key::new(disk.0, block)).and_then(|(policy, key)| policy.place_of(key));
        place.is_some_and(|place| self.named[place as usize].span == span)
    }

    /// A host reads a block; called in the order in which reads come. Returns the place where the block is kept. A block that the map names otherwise by now is
    /// dropped. `has_copy`: there is one on the fast tier.
    pub fn seen(&mut self, disk: DiskId, block: u64, named: Named, has_copy: bool) -> Option<u32> {
        let (policy, key) = self.policy.as_mut().zip(Key::new(disk.0, block))?;
        if policy.place_of(key).is_some_and(|place| self.named[place as usize] != named) {
            policy.remove(key);
        }
        // In memory it does not matter whether the block is worth a copy.
        policy.seen(key);
        let place = policy.place_of(key);
        self.hit_blocks += u64::from(place.is_some());
        self.copied_blocks += u64::from(place.is_some() && has_copy);
        place
    }

    /// The bytes in a place.
    pub fn bytes(&self, place: u32) -> &[u8] {
        &self.bytes[place as usize * BLOCK..][..BLOCK]
    }

    /// A block was read, and is what the map names: it is kept.
    pub fn keep(&mut self, disk: DiskId, block: u64, named: Named, bytes: &[u8]) {
        let Some((policy, key)) = self.policy.as_mut().zip(Key::new(disk.0, block)) else { return };
        if policy.place_of(key).is_some_and(|place| self.named[place as usize] != named) {
            policy.remove(key);
        }
        if let Some(admitted) = policy.admit(key) {
            let place = admitted.place as usize;
            self.named[place] = named;
            self.bytes[place * BLOCK..][..BLOCK].copy_from_slice(bytes);
        }
    }

    /// A block was written, discarded or damaged: it is dropped.
    pub fn remove(&mut self, disk: DiskId, block: u64) {
        if let Some((policy, key)) = self.policy.as_mut().zip(Key::new(disk.0, block)) {
            policy.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(version: u64) -> Named {
        Named { span: Span::whole(version * 8), checksum: version as u32 }
    }

    proptest! {
        /// Whatever is read, moved and written: what is served was kept under what the map names, and no more is held than there is room for.
        #[test]
        fn what_is_served_is_what_the_map_names(
            steps in prop::collection::vec((0u64..24, 0u8..10), 1..400),
            room in 0u32..12,
        ) {
            let disk = DiskId(1);
            let mut recent = Recent::default();
            recent.begin(room, 1);
            let mut versions = [1u64; 24];
            for (block, step) in steps {
                let version = &mut versions[block as usize];
                match step {
                    0 => {
                        // Written: the engine reports that.
                        *version += 100;
                        recent.remove(disk, block);
                    }
                    // Moved: it does not report that.
                    1 => *version += 1,
                    _ => {
                        let content = [*version as u8; BLOCK];
                        let was_held = recent.holds(disk, block, named(*version).span);
                        let place = recent.seen(disk, block, named(*version), false);
                        prop_assert_eq!(place.is_some(), was_held);
                        match place {
                            Some(place) => prop_assert!(recent.bytes(place) == content),
                            None => recent.keep(disk, block, named(*version), &content),
                        }
                    }
                }
                prop_assert!(recent.len() <= u64::from(room));
            }
        }
    }
}
