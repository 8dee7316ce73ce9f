//! Hashes of 64 bits; not for secrets. Seeds, samples, the keys of YCSB and the sums of tier pages depend on their values.

/// The 64-bit finaliser of MurmurHash3 (public domain), a one-to-one function. The hash of 0 is 0.
#[inline]
#[must_use]
pub const fn murmur64(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// The finaliser of SplitMix64 (Steele and others, 2014), a one-to-one function. The hash of 0 is 0.
#[inline]
#[must_use]
pub const fn splitmix64(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

/// YCSB's hash (`Utils.fnvhash64`): FNV-1a over the eight bytes of `value`, and its absolute value as a signed number.
#[inline]
#[must_use]
pub fn ycsb64(value: u64) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    value.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325_u64, add).cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_published_functions() {
        // fmix64 of MurmurHash3's sources, and the first output of SplitMix64 for seed 0.
        assert_eq!([0, 1].map(murmur64), [0, 0xb456_bcfc_34c2_cb2c]);
        assert_eq!([0, 0x9e37_79b9_7f4a_7c15].map(splitmix64), [0, 0xe220_a839_7b1d_cdaf]);
        // Math.abs of a Java long, for a value whose FNV-1a hash is negative.
        assert_eq!(ycsb64(0), 0xa8c7_f832_281a_39c5_u64.wrapping_neg());
    }
}
