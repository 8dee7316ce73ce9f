//! The part of a target that an experiment uses.

use crate::job::JobError;
use crate::job::model::Region;

/// Regions are cut down to a multiple of this, in bytes, so that sequential writes reach all of the region.
const REGION_UNIT_BYTES: u64 = 128 << 10;

/// The region as offset and length in bytes. The smallest I/O of the target is not known here, so offsets and lengths
/// are multiples of 4 KiB, or of smaller blocks where the user's own values require it.
pub(super) fn resolve(region: &Region, target_bytes: u64) -> Result<(u64, u64), JobError> {
    let mut found = region.resolve(target_bytes, 4096);
    for block in [512, 1] {
        found = found.or_else(|error| region.resolve(target_bytes, block).map_err(|_| error));
    }
    let (offset, len) = found?;
    Ok((offset, if len >= REGION_UNIT_BYTES { len - len % REGION_UNIT_BYTES } else { len }))
}
