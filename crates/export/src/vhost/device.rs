//! Features and configuration space of a virtio block device (Virtual I/O Device, 5.2.3 and 5.2.4;
//! include/uapi/linux/virtio_blk.h).

/// Most queues that a machine may use. One thread serves them all.
pub const QUEUES_MAX: usize = 16;
/// Most entries of a queue; a power of two.
pub const QUEUE_SIZE_MAX: u16 = 1024;
/// Most segments of a request's data, and bytes of each. Their product is the most that the server accepts in one
/// request.
const SEGMENTS_MAX: u32 = 126;
const SEGMENT_BYTES_MAX: u32 = 64 << 10;
/// Longest data of one request, in bytes.
pub const PAYLOAD_BYTES_MAX: u64 = SEGMENTS_MAX as u64 * SEGMENT_BYTES_MAX as u64;
/// Most bytes of one discard or write-zeroes.
pub const ZEROES_BYTES_MAX: u32 = 1 << 30;
/// Unit of offsets, whatever the block size is.
pub const SECTOR_BYTES: u64 = 512;
/// Lengths of the configuration space: the used part, and the part that the protocol can transfer.
const CONFIG_BYTES: usize = 60;
const CONFIG_BYTES_MAX: usize = 256;

/// `VIRTIO_BLK_F_*`, `VIRTIO_RING_F_*` and `VIRTIO_F_*`, by bit.
const SIZE_MAX: u64 = 1 << 1;
const SEG_MAX: u64 = 1 << 2;
const RO: u64 = 1 << 5;
const BLK_SIZE: u64 = 1 << 6;
pub const FLUSH: u64 = 1 << 9;
const TOPOLOGY: u64 = 1 << 10;
const MQ: u64 = 1 << 12;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;
/// Header, data and status may be split as the driver likes.
const ANY_LAYOUT: u64 = 1 << 27;
const INDIRECT_DESC: u64 = 1 << 28;
pub const EVENT_IDX: u64 = 1 << 29;
/// `VHOST_USER_F_PROTOCOL_FEATURES`.
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
const VERSION_1: u64 = 1 << 32;

/// The features offered.
pub fn features(read_only: bool) -> u64 {
    let always = SIZE_MAX | SEG_MAX | BLK_SIZE | FLUSH | TOPOLOGY | MQ;
    let ring = ANY_LAYOUT | INDIRECT_DESC | EVENT_IDX | PROTOCOL_FEATURES | VERSION_1;
    always | ring | if read_only { RO } else { DISCARD | WRITE_ZEROES }
}

/// Part of `struct virtio_blk_config`; `None` beyond its end.
pub fn config_space(size_bytes: u64, offset: u32, len: u32) -> Option<Vec<u8>> {
    let mut all = [0; CONFIG_BYTES_MAX];
    let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
    let zeroes = (ZEROES_BYTES_MAX / SECTOR_BYTES as u32).to_le_bytes();
    put(0, &(size_bytes / SECTOR_BYTES).to_le_bytes());
    put(8, &SEGMENT_BYTES_MAX.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // Topology: blocks of the pool have 4 KiB, eight sectors; least and optimal I/O are one block.
    put(24, &[3, 0]);
    put(26, &8u16.to_le_bytes());
    put(28, &8u32.to_le_bytes());
    // There is a volatile cache, so that the guest sends flushes.
    put(32, &[1]);
    put(34, &(QUEUES_MAX as u16).to_le_bytes());
    // Discards, then write-zeroes: most sectors, most segments, and the alignment or whether they may unmap.
    put(36, &zeroes);
    put(40, &1u32.to_le_bytes());
    put(44, &8u32.to_le_bytes());
    put(48, &zeroes);
    put(52, &1u32.to_le_bytes());
    put(56, &[1]);
    debug_assert!(all[CONFIG_BYTES..].iter().all(|&byte| byte == 0));
    let (offset, len) = (offset as usize, len as usize);
    Some(all.get(offset..offset.checked_add(len)?)?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_the_header_s() {
        let all = config_space(1 << 30, 0, 60).unwrap();
        assert_eq!(all[..8], (1u64 << 21).to_le_bytes());
        assert_eq!(config_space(1 << 30, 34, 2).unwrap(), 16u16.to_le_bytes());
        assert_eq!(config_space(1 << 30, 252, 5), None);
        assert_eq!(config_space(1 << 30, u32::MAX, u32::MAX), None);
        assert_eq!(PAYLOAD_BYTES_MAX, 126 * 65536);
    }

    #[test]
    fn a_disk_for_reading_says_so() {
        assert_ne!(features(true) & RO, 0);
        assert_eq!(features(true) & (DISCARD | WRITE_ZEROES), 0);
        assert_eq!(features(false) & RO, 0);
        assert_ne!(features(false) & ANY_LAYOUT, 0);
    }
}
