//! Checksums of small foreign structures, whose seed or polynomial differs from the fast CRC32C. Not on the data
//! path.

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 != 0 { (value >> 1) ^ polynomial } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

static CASTAGNOLI: [u32; 256] = table(0x82f6_3b78);
static IEEE: [u32; 256] = table(0xedb8_8320);

fn update(table: &[u32; 256], state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| (state >> 8) ^ table[usize::from(state as u8 ^ byte)])
}

/// CRC32C without initial or final inversion, as ext4 chains it.
pub(super) fn crc32c_raw(state: u32, bytes: &[u8]) -> u32 {
    update(&CASTAGNOLI, state, bytes)
}

/// CRC-32 as in GPT and zlib.
pub(super) fn crc32_ieee(bytes: &[u8]) -> u32 {
    !update(&IEEE, !0, bytes)
}

/// CRC-16 (reflected 0x8005), as in `lib/crc16.c` of the Linux kernel.
pub(super) fn crc16(state: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(state, |state, byte| {
        (0..8).fold(
            state ^ u16::from(*byte),
            |state, _| {
                if state & 1 != 0 { (state >> 1) ^ 0xa001 } else { state >> 1 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_catalogue() {
        // Check values of CRC-32/ISCSI, CRC-32/ISO-HDLC and CRC-16/ARC for "123456789".
        assert_eq!(!crc32c_raw(!0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32_ieee(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc16(0, b"123456789"), 0xbb3d);
    }
}
