//! The grid of granules and units of a job's region.

use crate::job::model::{Job, Pattern, SizeMix};
use forebay_block::OpKind;

/// Most memory of a map in bytes: enough for 32 Mi granules, which are 128 GiB in granules of 4096 bytes.
pub const MAP_BYTES_MAX: u64 = 256 << 20;

/// Longest unit in bytes; a unit has one header.
const UNIT_BYTES_MAX: u64 = 4096;
/// Bytes that targets write atomically.
const SECTOR_BYTES: u64 = 512;

/// Why a job cannot be verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The I/Os do not lie on a common grid of sectors.
    #[error(
        "verifying needs sizes, alignment and stride that are multiples of 512 bytes, their greatest common divisor is \
         {granule_bytes}: change them or do not verify"
    )]
    Grid {
        /// Greatest common divisor of sizes, alignment and stride.
        granule_bytes: u64,
    },
    /// The map would take too much memory.
    #[error(
        "verifying {region_bytes} bytes in granules of {granule_bytes} takes {need_bytes} bytes of memory, the limit is \
         {max}: give a region of at most {region_max_bytes} bytes, or larger I/Os",
        max = MAP_BYTES_MAX
    )]
    TooLarge {
        /// Length of the region.
        region_bytes: u64,
        /// Length of a granule.
        granule_bytes: u64,
        /// Memory that the map would take.
        need_bytes: u64,
        /// Longest region for granules of this length.
        region_max_bytes: u64,
    },
}

/// The grid of a job's I/Os. Every I/O covers a granule as a whole or not at all; a granule is made of units, which
/// have one header each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    origin_bytes: u64,
    granule_bytes: u64,
    unit_bytes: u32,
}

impl Layout {
    /// The layout of a job on a region (offset and length in bytes). The granule is the greatest common divisor of all
    /// I/O sizes, the alignment and the stride.
    ///
    /// # Errors
    /// The granule is no multiple of 512 bytes.
    pub fn of(job: &Job, region: (u64, u64)) -> Result<Self, VerifyError> {
        let mut granule = 0;
        let uses = |kinds: &[OpKind]| job.mix.weights.iter().any(|(kind, weight)| *weight > 0 && kinds.contains(kind));
        let mut add = |mix: &SizeMix, kinds: &[OpKind]| {
            let sizes = mix.choices.iter().filter(|&&(_, weight)| weight > 0 && uses(kinds));
            granule = sizes.fold(granule, |granule, &(bytes, _)| divisor(granule, u64::from(bytes)));
        };
        add(&job.sizes.read, &[OpKind::Read]);
        add(&job.sizes.write, &[OpKind::Write, OpKind::WriteFua]);
        add(&job.sizes.trim, &[OpKind::Trim]);
        let mut origin = region.0;
        let parts = job.pattern.parts();
        for pattern in parts {
            match *pattern {
                Pattern::Random { align_bytes, skew_bytes } => {
                    granule = divisor(granule, align_bytes);
                    if parts.len() == 1 {
                        origin = origin.saturating_add(skew_bytes);
                    } else {
                        // The other patterns begin without this skew, so it must be a multiple of the granule instead
                        // of moving the origin.
                        granule = divisor(granule, skew_bytes);
                    }
                }
                Pattern::Zones { align_bytes, .. } => granule = divisor(granule, align_bytes),
                Pattern::Strided { stride_bytes } => granule = divisor(granule, stride_bytes.unsigned_abs()),
                _ => {}
            }
        }
        Self::new(origin, granule)
    }

    /// A layout with granules of `granule_bytes`, from `origin_bytes` on.
    ///
    /// # Errors
    /// `granule_bytes` is 0 or no multiple of 512.
    pub fn new(origin_bytes: u64, granule_bytes: u64) -> Result<Self, VerifyError> {
        if granule_bytes == 0 || !granule_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(VerifyError::Grid { granule_bytes });
        }
        Ok(Self { origin_bytes, granule_bytes, unit_bytes: divisor(granule_bytes, UNIT_BYTES_MAX) as u32 })
    }

    /// Byte offset of the first granule on the target.
    #[must_use]
    pub fn origin_bytes(&self) -> u64 {
        self.origin_bytes
    }

    /// Length of a granule in bytes: a multiple of 512.
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        self.granule_bytes
    }

    /// Length of a unit: 512, 1024, 2048 or 4096 bytes, a divisor of the granule.
    #[must_use]
    pub fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }
}

/// Greatest common divisor. If one number is 0, the result is the other.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    // Euclid's algorithm: at most about 90 steps for 64 bits.
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::model::{Mix, Sizes};

    fn layout(pattern: Pattern, choices: &[(u32, u32)]) -> Result<Layout, VerifyError> {
        let mix = SizeMix { choices: choices.to_vec() };
        let sizes = Sizes { read: mix.clone(), write: mix, trim: SizeMix::fixed(7) };
        Layout::of(&Job { pattern, sizes, mix: Mix::reads_percent(50), ..Job::default() }, (1000, 1 << 20))
    }

    #[test]
    fn granules_divide_everything() {
        let of = |pattern, choices: &[(u32, u32)]| {
            layout(pattern, choices).map(|layout| (layout.origin_bytes, layout.granule_bytes, layout.unit_bytes))
        };
        let random = |align_bytes, skew_bytes| Pattern::Random { align_bytes, skew_bytes };
        assert_eq!(of(random(0, 0), &[(131_072, 1)]), Ok((1000, 131_072, 4096)));
        assert_eq!(of(random(0, 24), &[(4096, 1), (6144, 1), (5, 0)]), Ok((1024, 2048, 2048)));
        assert_eq!(of(random(512, 0), &[(4096, 1)]), Ok((1000, 512, 512)));
        assert_eq!(of(Pattern::Strided { stride_bytes: -1536 }, &[(4608, 1)]), Ok((1000, 1536, 512)));
        assert_eq!(of(Pattern::Strided { stride_bytes: 0 }, &[(4096, 1)]), Ok((1000, 4096, 4096)));
        assert_eq!(of(Pattern::Shuffled, &[(5000, 1)]), Err(VerifyError::Grid { granule_bytes: 5000 }));
        assert_eq!(of(random(8, 0), &[(4096, 1)]), Err(VerifyError::Grid { granule_bytes: 8 }));
    }
}
