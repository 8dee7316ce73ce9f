//! The SMART / Health Information Extended log page (C0h) of the Open Compute Project: what reached the medium.
//!
//! Layout: OCP Datacenter NVMe SSD Specification 2.0, "SMART / Health Information Extended (Log Identifier C0h)",
//! SMART-1 (bytes written to the medium, the drive's own included) and SMART-2 (bytes read from it); the same offsets
//! as `SCAO_*` in nvme-cli's plugins/ocp/ocp-smart-extended-log.h. C0h is among the vendors' own numbers, so another
//! vendor's page may lie there: only the GUID tells.

use super::page::{Page, number};

/// AFD514C97C6F4F9CA4F2BFEA2810AFC5h as it lies in bytes 496 to 511, least significant first (nvme-cli `scao_guid`).
const GUID: [u8; 16] = [0xC5, 0xAF, 0x10, 0x28, 0xEA, 0xBF, 0xF2, 0xA4, 0x9C, 0x4F, 0x6F, 0x7C, 0xC9, 0x14, 0xD5, 0xAF];
const GUID_AT: usize = 496;

/// Data that the drive moved to and from its medium, for hosts and for itself. Numbers of 128 bits that do not fit
/// are u64::MAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    /// Bytes written to the medium: hosts' data, metadata and the drive's own garbage collection.
    pub written_bytes: u64,
    /// Bytes read from the medium.
    pub read_bytes: u64,
    /// Version of the page's layout. The fields read here are the same in all versions.
    pub page_version: u16,
}

impl Media {
    /// Parses the page; `None` where its GUID is not that of this log.
    #[must_use]
    pub fn parse(page: &Page) -> Option<Self> {
        (page.get(GUID_AT..) == Some(&GUID[..])).then(|| Self {
            written_bytes: number(page, 0, 16),
            read_bytes: number(page, 16, 16),
            page_version: u16::try_from(number(page, 494, 2)).unwrap_or(u16::MAX),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::page::PAGE_BYTES;
    use super::*;

    pub(crate) fn known_page() -> Page {
        let mut page = [0x5A; PAGE_BYTES];
        page[0..16].copy_from_slice(&48_196_878_213_120_u128.to_le_bytes());
        page[16..32].copy_from_slice(&77_u128.to_le_bytes());
        page[494..496].copy_from_slice(&3_u16.to_le_bytes());
        page[496..].copy_from_slice(&0xAFD5_14C9_7C6F_4F9C_A4F2_BFEA_2810_AFC5_u128.to_le_bytes());
        page
    }

    #[test]
    fn the_fields_come_from_their_places() {
        let expected = Media { written_bytes: 48_196_878_213_120, read_bytes: 77, page_version: 3 };
        assert_eq!(Media::parse(&known_page()), Some(expected));
    }

    #[test]
    fn another_guid_is_another_page() {
        for at in GUID_AT..PAGE_BYTES {
            let mut page = known_page();
            page[at] ^= 0x10;
            assert_eq!(Media::parse(&page), None, "byte {at}");
        }
        assert_eq!(Media::parse(&[0; PAGE_BYTES]), None);
        assert_eq!(Media::parse(&[0xFF; PAGE_BYTES]), None);
        // The GUID in reverse byte order must not match.
        let mut page = known_page();
        page[GUID_AT..].reverse();
        assert_eq!(Media::parse(&page), None);
    }

    #[test]
    fn hostile_numbers_saturate() {
        let mut page = known_page();
        page[0..32].fill(0xFF);
        let media = Media::parse(&page).expect("the GUID is right");
        assert_eq!((media.written_bytes, media.read_bytes), (u64::MAX, u64::MAX));
    }
}
