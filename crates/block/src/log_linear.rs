//! Log-linear buckets of whole numbers, as HdrHistogram lays them out: each value below 2^BITS has its own, and each octave above has 2^BITS of equal width. So a
//! bucket is at most a 2^BITS-th as wide as its values are large. Of all values there are `(65 - BITS) << BITS` buckets.

/// The bucket of a value.
#[inline]
#[must_use]
pub const fn bucket<const BITS: u32>(value: u64) -> usize {
    let octave = (value | (1 << BITS)).ilog2() - BITS;
    (((octave as u64) << BITS) + (value >> octave)) as usize
}

/// The smallest and the largest value of a bucket.
#[inline]
#[must_use]
pub const fn bounds<const BITS: u32>(bucket: usize) -> (u64, u64) {
    let octave = (bucket >> BITS).saturating_sub(1);
    let smallest = (bucket as u64 - ((octave as u64) << BITS)) << octave;
    (smallest, smallest + ((1 << octave) - 1))
}

/// The middle of a bucket, rounded up.
#[inline]
#[must_use]
pub const fn middle<const BITS: u32>(bucket: usize) -> u64 {
    let (smallest, largest) = bounds::<BITS>(bucket);
    smallest + (largest - smallest).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fits<const BITS: u32>(value: u64) -> Result<(), TestCaseError> {
        let at = bucket::<BITS>(value);
        prop_assert!(at < (65 - BITS as usize) << BITS);
        let (smallest, largest) = bounds::<BITS>(at);
        prop_assert!(smallest <= value && value <= largest, "{value} in {smallest} to {largest}");
        prop_assert!(largest - smallest <= smallest >> BITS, "{smallest} to {largest}");
        prop_assert_eq!((bucket::<BITS>(smallest), bucket::<BITS>(largest)), (at, at));
        match largest.checked_add(1) {
            Some(next) => prop_assert_eq!(bucket::<BITS>(next), at + 1),
            None => prop_assert_eq!(at + 1, (65 - BITS as usize) << BITS),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn each_value_has_one_bucket_and_they_follow_one_another(value: u64, shift in 0_u32..64) {
            for value in [value >> shift, 1 << shift, (1 << shift) - 1, u64::MAX] {
                fits::<0>(value)?;
                fits::<4>(value)?;
                fits::<7>(value)?;
                fits::<9>(value)?;
            }
        }
    }

    #[test]
    fn small_values_have_buckets_of_their_own() {
        assert!(
            (0..512).all(|value| bucket::<9>(value) == value as usize && bounds::<9>(value as usize) == (value, value))
        );
        assert_eq!((bucket::<4>(32), bucket::<4>(33), bounds::<4>(32)), (32, 32, (32, 33)));
        assert_eq!([31, 32, 48, 64].map(middle::<4>), [31, 33, 66, 132]);
    }
}
