//! What lies on the devices, byte by byte; `docs/format.md` is the specification.

pub mod array_label;
pub mod array_shape;
pub mod band_summary;
pub mod base;
pub mod batch;
pub mod capacity_area;
pub mod capacity_root;
pub mod codec;
pub mod member_label;
pub mod moved;
pub mod packed;
pub mod page;
pub mod parity_entry;
pub mod plan;
pub mod policy_state;
pub mod record;
pub mod root;
pub mod root_blob;
pub mod scrub_record;
pub mod sections;
pub mod stored;
pub mod stream;
pub mod superblock;
pub mod tier_page;
pub mod unwritten_groups;
pub mod warm_list;
pub mod watermark;

/// Identifier of a pool or a device, 16 random bytes chosen by the caller.
pub type Id = [u8; 16];

/// Writes an identifier as 32 hexadecimal digits in the usual groups.
#[must_use]
pub fn format_id(id: &Id) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in id.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Puts the CRC of everything after byte 8 into bytes 4..8.
pub fn seal(bytes: &mut [u8]) -> u32 {
    let crc = forebay_block::checksum::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// Whether bytes 4..8 hold the CRC of everything after byte 8 and the magic is right.
#[must_use]
pub fn is_sealed(bytes: &[u8], magic: [u8; 4]) -> bool {
    bytes.len() > 8 && bytes[..4] == magic && bytes[4..8] == forebay_block::checksum::crc32c(&bytes[8..]).to_le_bytes()
}
