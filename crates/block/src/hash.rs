//! Hashes of 64 bits, each a one-to-one function; not for secrets.
//! Seeds, samples and the sums of tier pages depend on their values.

/// The 64-bit finaliser of MurmurHash3 (public domain). The hash of 0 is 0.
#[inline]
#[must_use]
pub const fn murmur64(key: u64) -> u64 {
    let key = (key ^ key >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let key = (key ^ key >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ key >> 33
}

/// The finaliser of SplitMix64 (Steele and others, 2014). The hash of 0 is 0.
#[inline]
#[must_use]
pub const fn splitmix64(key: u64) -> u64 {
    let key = (key ^ key >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ key >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ key >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_published_functions() {
        // fmix64 of MurmurHash3's sources, and the first output of SplitMix64 for seed 0.
        assert_eq!([0, 1].map(murmur64), [0, 0xb456_bcfc_34c2_cb2c]);
        assert_eq!([0, 0x9e37_79b9_7f4a_7c15].map(splitmix64), [0, 0xe220_a839_7b1d_cdaf]);
    }
}
