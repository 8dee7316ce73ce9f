//! Compressing and decompressing blocks: which data is worth the attempt, and the contexts for it.

use crate::layout::packed::Packer;
use forebay_block::{Buf, ClassId, DiskId, SharedBuf};
use forebay_prism::{Compress, Place, Prism};
use std::collections::BTreeMap;

/// After this many blocks of a class in a row that did not shrink, only some are tried.
const FAILURES_MAX: u32 = 16;
/// Then this part of the blocks since the last that shrank is passed over between two tries: what follows a stretch of data that does not shrink is noticed
/// within a sixteenth of its length.
const PASSED_SHARE: u32 = 16;
/// Most blocks that are passed over between two tries.
const PASSED_MAX: u32 = 255;

/// What is known of a class's data.
#[derive(Clone, Copy, Debug, Default)]
struct Luck {
    /// Blocks in a row that were not made smaller, tried or not.
    failures: u32,
    /// Blocks to be passed over before the next try.
    pass_over: u32,
}

/// Contexts of compressors, and which classes are worth the attempt.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    packer: Packer,
    by_class: BTreeMap<u8, Luck>,
}

impl Packing {
    /// How blocks of a class are compressed.
    pub fn of_class(prism: &Prism, class: ClassId) -> Compress {
        let spec = prism.table().get(class);
        // A class on both tiers is not compressed: its copies on the fast tier are known by the checksum of what is
        // stored.
        spec.filter(|spec| spec.place != Place::Both).map_or(Compress::Off, |spec| spec.compress)
    }

    /// Whether blocks of a class are compressed, and have shrunk of late.
    pub fn shrinks(&self, prism: &Prism, class: ClassId) -> bool {
        let failures = self.by_class.get(&class.0).map_or(0, |luck| luck.failures);
        Self::of_class(prism, class) != Compress::Off && failures < FAILURES_MAX
    }

    /// The compressed form of a block; `None` where it is not smaller, or where it was not tried because blocks before
    /// it did not shrink.
    pub fn pack(
        &mut self,
        (class, compress): (ClassId, Compress),
        whose: (DiskId, u64),
        block: &[u8],
    ) -> Option<SharedBuf> {
        if compress == Compress::Off || !self.may_try(class) {
            return None;
        }
        let packed = self.packer.pack(compress, whose, block).map(|stored| Buf::copy_of(stored).freeze());
        self.tried(class, packed.is_some());
        packed
    }

    /// Fills a block from its compressed form; false where the bytes are none.
    pub fn unpack(&mut self, stored: &[u8], block: &mut [u8]) -> bool {
        self.packer.unpack(stored, block)
    }

    fn may_try(&mut self, class: ClassId) -> bool {
        let luck = self.by_class.entry(class.0).or_default();
        let passes = luck.pass_over > 0;
        luck.pass_over = luck.pass_over.saturating_sub(1);
        luck.failures = luck.failures.saturating_add(u32::from(passes));
        !passes
    }

    fn tried(&mut self, class: ClassId, has_shrunk: bool) {
        let luck = self.by_class.entry(class.0).or_default();
        luck.failures = if has_shrunk { 0 } else { luck.failures.saturating_add(1) };
        luck.pass_over = (luck.failures / PASSED_SHARE).min(PASSED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_does_not_shrink_is_tried_ever_again_and_seldom() {
        let (mut packing, class) = (Packing::default(), ClassId(3));
        let mut tries = |shrinks: bool, blocks: u32| {
            let mut tries = 0;
            for _ in 0..blocks {
                if packing.may_try(class) {
                    tries += 1;
                    packing.tried(class, shrinks);
                }
            }
            tries
        };
        assert_eq!(tries(true, 100), 100);
        assert_eq!(tries(false, 15), 15, "some blocks of any data do not shrink");
        // 16 to 31 in a row: each second; then each third, and so on.
        assert_eq!(tries(false, 17), 9);
        assert_eq!(tries(false, 4096 - 32), 75);
        assert_eq!(tries(false, 256 * 10), 10);
        // Within 255 blocks it is noticed that others have come.
        assert!(tries(true, 255 + 100) >= 100);
        assert_eq!(
            (tries(false, 64), tries(true, 5)),
            (33, 4),
            "behind 64 that do not shrink at most four more are passed over"
        );
        assert!(Packing::default().may_try(class));
    }
}
