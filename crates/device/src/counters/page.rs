//! Reads little-endian fields of a log page of 512 bytes. Any bytes give a value; none cause a panic.

/// Length of both log pages read here, in bytes.
pub const PAGE_BYTES: usize = 512;

/// A log page as the drive sent it.
pub type Page = [u8; PAGE_BYTES];

/// The little-endian number in `len` bytes (at most 16) from `at`; u64::MAX where it is larger.
pub(super) fn number(page: &Page, at: usize, len: usize) -> u64 {
    let wide = page.iter().skip(at).take(len.min(16)).rev().fold(0_u128, |sum, &byte| (sum << 8) | u128::from(byte));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// Whether all bytes are equal: an emulator that fills in nothing (zeros), or a drive that fell off the bus (ones).
pub(super) fn says_nothing(page: &Page) -> bool {
    page.iter().all(|&byte| byte == page[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_little_endian_and_saturate() {
        let mut page = [0; PAGE_BYTES];
        page[32..40].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
        assert_eq!(number(&page, 32, 16), 0x0102_0304_0506_0708);
        assert_eq!(number(&page, 33, 2), 0x0607);
        page[40] = 1;
        assert_eq!(number(&page, 32, 16), u64::MAX);
        assert_eq!(number(&page, 32, 8), 0x0102_0304_0506_0708);
    }

    #[test]
    fn a_uniform_page_says_nothing() {
        assert!(says_nothing(&[0; PAGE_BYTES]) && says_nothing(&[0xFF; PAGE_BYTES]));
        let mut page = [0; PAGE_BYTES];
        page[511] = 1;
        assert!(!says_nothing(&page));
    }

    proptest! {
        #[test]
        fn any_place_reads(byte in 1_u8.., at in 0_usize..600, len in 0_usize..20) {
            // Bytes beyond the page count as zero.
            let inside = PAGE_BYTES.saturating_sub(at).min(len).min(16);
            prop_assert_eq!(number(&[byte; PAGE_BYTES], at, len) == 0, inside == 0);
        }
    }
}
