//! Tests of superblocks.

use super::*;
use crate::layout::plan::{PoolOptions, plan};
use forebay_block::Geometry;

fn superblock() -> Superblock {
    superblock_over(512)
}

/// The superblock of a pool over devices with logical blocks of this size.
fn superblock_over(logical_block_bytes: u32) -> Superblock {
    let options = PoolOptions {
        name: "p".to_owned(),
        band_bytes: Some(65536),
        journal_bytes: None,
        is_mirrored: false,
        bands_offset_bytes: None,
    };
    let device = |size_bytes| Geometry {
        size_bytes,
        logical_block_bytes,
        optimal_band_bytes: None,
        volatile_cache: true,
        durable_writes: true,
        discards: true,
    };
    let (fast, slow) = (device(8 << 20), device(16 << 20));
    plan(&options, &fast, &[slow], [1; 16], &[[2; 16], [3; 16]]).unwrap()
}

/// `create` made pools over devices with logical blocks of 1024 or 2048 bytes that no start could read.
#[test]
fn regression_a_pool_over_devices_with_blocks_of_2048_bytes_can_be_read() {
    for (logical, sector) in [(512, 512), (1024, 4096), (2048, 4096), (4096, 4096)] {
        let made = superblock_over(logical);
        assert_eq!(made.journal_sector_bytes, sector);
        assert_eq!(Superblock::decode(&made.encode()).unwrap(), made);
    }
}

/// Changes bytes of an encoded superblock, with a right checksum.
fn forged(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut block = superblock().encode();
    block[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    block
}

#[test]
fn feature_words_that_are_unknown_and_harmless_survive_a_rewrite() {
    let mut block = forged(16, &0xf00d_u64.to_le_bytes());
    let read = Superblock::decode(&block).unwrap();
    assert_eq!((read.compatible, read.unknown_read_only()), (0xf00d, 0));
    assert_eq!(read.encode(), block);
    block = forged(24, &0x8000_0000_0000_0001_u64.to_le_bytes());
    let read = Superblock::decode(&block).unwrap();
    assert_eq!(read.unknown_read_only(), 0x8000_0000_0000_0001);
    assert_eq!(Superblock { epoch: read.epoch, ..read }.encode(), block);
}

#[test]
fn other_versions_and_unknown_incompatible_features_are_refused_by_name() {
    let error = Superblock::decode(&forged(32, &8u64.to_le_bytes())).unwrap_err();
    assert_eq!(error, SuperblockError::Features(8));
    for before in 1..VERSION {
        let error = Superblock::decode(&forged(12, &before.to_le_bytes())).unwrap_err();
        assert_eq!(error, SuperblockError::Version(before));
        assert!(error.to_string().contains(&format!("version {before} was never released")), "{error}");
    }
    let error = Superblock::decode(&forged(12, &(VERSION + 1).to_le_bytes())).unwrap_err();
    assert!(error.to_string().contains("newer"), "{error}");
}

#[test]
fn impossible_geometry_is_damage() {
    // Slots, epoch, band size, journal length.
    for (at, value) in
        [(168, u64::MAX), (88, u64::MAX), (112, 1 << 41), (112, 4096), (112, 65536 + 4096), (120, 131_073), (152, 512)]
    {
        let error = Superblock::decode(&forged(at, &u64::to_le_bytes(value))).unwrap_err();
        assert!(matches!(error, SuperblockError::Damaged(_)), "{at} {value}");
    }
}
