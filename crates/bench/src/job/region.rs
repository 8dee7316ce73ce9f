//! Regions on a target of known size.

use super::error::JobError;
use super::model::{Extent, Region};

impl Region {
    /// Offset and length in bytes on a target of `target_bytes` whose smallest I/O has `logical_block` bytes (0 counts as 1).
    ///
    /// Shares are rounded down to whole blocks. Bytes are used as given: an offset between two blocks is an error. A size beyond the end,
    /// in bytes or as a share, is an error too, so that nothing else is measured unnoticed. A length that is no multiple of the block loses
    /// its last, partial block.
    ///
    /// # Errors
    /// [`JobError::Region`]: nothing is left, or more is asked for than there is.
    pub fn resolve(&self, target_bytes: u64, logical_block: u32) -> Result<(u64, u64), JobError> {
        let block = u64::from(logical_block.max(1));
        let wrong = |reason: String| JobError::Region { reason };
        let offset = match self.offset {
            Extent::Bytes(bytes) if !bytes.is_multiple_of(block) => {
                return Err(wrong(format!("its offset {bytes} is not a multiple of the target's {block}-byte blocks")));
            }
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => whole_blocks(share(target_bytes, percent)?, block),
        };
        if offset >= target_bytes {
            return Err(wrong(format!(
                "it begins at byte {offset}, and the target ends at {target_bytes}: choose a smaller offset"
            )));
        }
        let rest = target_bytes - offset;
        let len = match self.size {
            Extent::Bytes(0) => rest,
            Extent::Bytes(bytes) if bytes > rest => {
                return Err(wrong(format!(
                    "{bytes} bytes from byte {offset} on, but the target has only {rest} bytes there: \
                     choose a smaller size, or a share in percent"
                )));
            }
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => {
                let bytes = share(target_bytes, percent)?;
                // Shares that sum to the whole may be a byte more in floating point.
                if bytes.saturating_sub(rest) > target_bytes >> 50 {
                    return Err(wrong(format!(
                        "{percent} percent of the target are {bytes} bytes, but from byte {offset} on it has only {rest}: \
                         choose a smaller size, or leave it out for all behind the offset"
                    )));
                }
                bytes.min(rest)
            }
        };
        let len = whole_blocks(len, block);
        if len == 0 {
            return Err(wrong(format!(
                "it holds no whole block of {block} bytes (target: {target_bytes} bytes): choose a larger size"
            )));
        }
        Ok((offset, len))
    }
}

fn whole_blocks(bytes: u64, block: u64) -> u64 {
    bytes - bytes % block
}

/// A share in bytes, at most the whole target.
fn share(target_bytes: u64, percent: f64) -> Result<u64, JobError> {
    if !(0.0..=100.0).contains(&percent) {
        return Err(JobError::Region { reason: format!("{percent} percent: shares go from 0 to 100") });
    }
    // Whole percentages are computed exactly in integers; a double has only 53 bits and would lose blocks of large targets.
    if percent.fract() == 0.0 {
        return Ok((u128::from(target_bytes) * percent as u128 / 100) as u64);
    }
    Ok(((target_bytes as f64 * (percent / 100.0)) as u64).min(target_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn region(offset: Extent, size: Extent) -> Region {
        Region { offset, size }
    }

    #[test]
    fn the_default_is_all_of_the_target() {
        assert_eq!(Region::default().resolve(1 << 30, 512).unwrap(), (0, 1 << 30));
        assert_eq!(Region::default().resolve(1000, 512).unwrap(), (0, 512));
    }

    #[test]
    fn shares_are_rounded() {
        let last_half = region(Extent::Percent(50.0), Extent::Percent(50.0));
        assert_eq!(last_half.resolve(10_000, 4096).unwrap(), (4096, 4096));
        let last_part = region(Extent::Percent(33.3), Extent::Percent(66.7));
        let (offset, len) = last_part.resolve(u64::MAX, 1).unwrap();
        assert!(u64::MAX - (offset + len) < 1 << 14, "{offset} {len}");
        let tenth = region(Extent::Bytes(0), Extent::Percent(12.5));
        assert_eq!(tenth.resolve(1 << 20, 4096).unwrap(), (0, 131_072));
        assert_eq!(region(Extent::Bytes(0), Extent::Percent(100.0)).resolve(u64::MAX, 1).unwrap(), (0, u64::MAX));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (offset, size) in [
            (Extent::Bytes(1 << 20), Extent::Bytes(0)),
            (Extent::Bytes(100), Extent::Bytes(0)),
            (Extent::Bytes(4096), Extent::Bytes(1 << 20)),
            (Extent::Bytes(0), Extent::Bytes(511)),
            (Extent::Bytes(0), Extent::Percent(0.01)),
            (Extent::Percent(100.0), Extent::Bytes(0)),
            (Extent::Percent(f64::NAN), Extent::Bytes(0)),
            (Extent::Bytes(0), Extent::Percent(-1.0)),
            // The region was cut to half without notice.
            (Extent::Percent(50.0), Extent::Percent(60.0)),
            (Extent::Bytes(4096), Extent::Percent(100.0)),
        ] {
            assert!(region(offset, size).resolve(1 << 20, 512).is_err(), "{offset:?} {size:?}");
        }
        assert!(Region::default().resolve(0, 512).is_err());
    }

    proptest! {
        #[test]
        fn what_is_resolved_lies_on_the_target(
            target in 0u64..=u64::MAX, block in 0u32..70_000, offset in -1.0..101.0f64, size in -1.0..101.0f64,
        ) {
            if let Ok((from, len)) = region(Extent::Percent(offset), Extent::Percent(size)).resolve(target, block) {
                prop_assert!(len > 0 && from.checked_add(len).is_some_and(|end| end <= target));
                prop_assert!(from % u64::from(block.max(1)) == 0 && len % u64::from(block.max(1)) == 0);
            }
        }
    }
}
