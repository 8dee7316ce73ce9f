//! Every signature is found at its place and nowhere else; file systems made by real tools are recognised.

use super::*;
use crate::file::{FileDevice, FileOptions, OpenMode};
use crate::instant::Store;
use crate::{Image, ImageDevice};
use forebay_block::Random;
use std::process::Command;

const SIZE: u64 = 8 << 20;

fn detect_with(parts: &[(u64, &[u8])]) -> Vec<Signature> {
    let mut image = Image::zeroed(SIZE);
    for (offset, bytes) in parts {
        image.write(*offset, bytes);
    }
    detect(&mut ImageDevice::new(image)).unwrap()
}

#[test]
fn zeros_hold_nothing_on_any_size() {
    for size in [512, 1024, 4096, 8192, 65536, 66048, 1 << 20, (1 << 20) + 512, SIZE] {
        assert_eq!(detect(&mut ImageDevice::new(Image::zeroed(size))).unwrap(), [], "{size}");
    }
    assert_eq!(detect(&mut ImageDevice::new(Image::zeroed(0))).unwrap(), []);
}

#[test]
fn each_fixed_magic_is_found_at_each_of_its_places() {
    for entry in table::FIXED {
        for &offset in entry.offsets_bytes {
            if offset + entry.magic.len() as u64 > SIZE {
                continue;
            }
            let found = detect_with(&[(offset, entry.magic)]);
            assert_eq!(found, [Signature { name: entry.name, offset_bytes: offset }]);
            // One byte off the magic is something else.
            let shifted = detect_with(&[(offset + 1, entry.magic)]);
            assert!(!shifted.iter().any(|s| s.offset_bytes == offset), "{} at {offset}", entry.name);
        }
    }
}

#[test]
fn places_that_depend_on_the_size_are_found() {
    let md = [0xa92b_4efc_u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let big_endian = 0x00ba_b10c_u64.to_be_bytes();
    let cases: &[(&str, u64, &[u8])] = &[
        ("Linux RAID member (0.90)", SIZE - 0x1_0000, &md),
        ("Linux RAID member (1.0)", SIZE - 0x2000, &md),
        ("Linux RAID member (1.1)", 0, &md),
        ("Linux RAID member (1.2)", 0x1000, &md),
        ("ZFS pool member", 132 << 10, &uberblock),
        ("ZFS pool member", (256 + 128) << 10, &big_endian),
        ("ZFS pool member", SIZE - (128 << 10), &uberblock),
        ("GPT partition table (backup)", SIZE - 512, b"EFI PART"),
        ("GPT partition table (backup)", SIZE - 4096, b"EFI PART"),
        ("Forebay pool", SIZE - 4096, b"FOREBAY1"),
        ("LUKS1 encrypted volume", 0, b"LUKS\xba\xbe\0\x01"),
        ("LUKS2 encrypted volume", 0, b"LUKS\xba\xbe\0\x02"),
    ];
    for (name, offset_bytes, bytes) in cases {
        assert_eq!(detect_with(&[(*offset_bytes, bytes)]), [Signature { name, offset_bytes: *offset_bytes }]);
    }
}

#[test]
fn content_is_found_at_both_ends_and_in_between() {
    let mut random = Random::new(5);
    for size in [512, 4096, 1 << 20, (1 << 20) + 512, 3 << 20, 16 << 20] {
        assert_eq!(first_content(&mut ImageDevice::new(Image::zeroed(size))).unwrap(), None, "{size}");
        for at in [0, size / 2, size - 1].into_iter().chain((0..8).map(|_| random.next_u64() % size)) {
            // Between the ends of a large device only samples are read, so a single byte may be missed.
            if size > 4 << 20 && (1 << 20..size - (1 << 20)).contains(&at) {
                continue;
            }
            let mut image = Image::zeroed(size);
            image.write(at, &[7]);
            assert_eq!(first_content(&mut ImageDevice::new(image)).unwrap(), Some(at), "{size}");
        }
    }
    // Data worth keeping is larger than a block: a fiftieth of the device is found anywhere.
    for start in [2u64, 20, 47, 62] {
        let mut image = Image::zeroed(64 << 20);
        image.write(start << 20, &vec![7; 2 << 20]);
        let found = first_content(&mut ImageDevice::new(image)).unwrap().unwrap();
        assert!((start << 20..(start + 2) << 20).contains(&found), "{found}");
    }
}

#[test]
fn content_that_cannot_be_read_is_an_error() {
    use crate::faulty::{Fault, FaultyDevice, Target};
    let mut device = FaultyDevice::new(ImageDevice::new(Image::zeroed(SIZE)));
    device.plan(Fault::range(Target::Reads, SIZE - 512..SIZE));
    assert!(first_content(&mut device).is_err());
}

#[test]
fn boot_sectors_are_distinguished() {
    let mut table = [0u8; 512];
    table[446 + 4] = 0x83;
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(detect_with(&[(0, &table)])[0].name, "MBR partition table");
    table[446 + 4] = 0;
    assert_eq!(detect_with(&[(0, &table)])[0].name, "boot sector");
    let mut fat = [0u8; 512];
    fat[0x0b..0x0d].copy_from_slice(&512u16.to_le_bytes());
    fat[0x0d] = 8;
    fat[0x0e] = 32;
    fat[0x10] = 2;
    fat[0x15] = 0xf8;
    fat[0x52..0x5a].copy_from_slice(b"FAT32   ");
    fat[510..].copy_from_slice(&[0x55, 0xaa]);
    assert_eq!(detect_with(&[(0, &fat)]), [Signature { name: "FAT file system", offset_bytes: 0x52 }]);
}

#[test]
fn several_findings_do_not_hide_each_other() {
    let names: Vec<&str> =
        detect_with(&[(0, b"XFSB"), (0x1_0040, b"_BHRfS_M"), (512, b"EFI PART")]).iter().map(|s| s.name).collect();
    assert_eq!(names, ["XFS file system", "GPT partition table", "btrfs file system"]);
}

#[test]
fn noise_is_hardly_ever_taken_for_something() {
    let mut random = Random::new(11);
    let alarms = (0..64).filter(|_| {
        let bytes: Vec<u8> = (0..(2 << 20) / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        !detect(&mut ImageDevice::new(Image::from_bytes(&bytes))).unwrap().is_empty()
    });
    assert!(alarms.count() <= 1);
}

#[test]
fn a_place_that_cannot_be_read_is_an_error() {
    use crate::faulty::{Fault, FaultyDevice, Target};
    let mut device = FaultyDevice::new(ImageDevice::new(Image::zeroed(SIZE)));
    device.plan(Fault::range(Target::Reads, SIZE - 512..SIZE));
    assert!(detect(&mut device).is_err());
    let (found, unread) = detect_where_readable(&mut device).unwrap();
    assert!(found.is_empty() && unread.is_some());
}

#[test]
fn one_place_that_cannot_be_read_hides_no_other_and_many_are_an_error() {
    use crate::faulty::{Fault, FaultyDevice, Target};
    let mut image = Image::zeroed(SIZE);
    image.write(0, b"LUKS\xba\xbe\0\x02");
    image.write(SIZE - 512, b"EFI PART");
    let mut device = FaultyDevice::new(ImageDevice::new(image));
    device.plan(Fault::range(Target::Reads, 4096..8192));
    let names = |found: &[Signature]| found.iter().map(|found| found.name).collect::<Vec<_>>();
    let (found, unread) = detect_where_readable(&mut device).unwrap();
    assert_eq!(names(&found), ["LUKS2 encrypted volume", "GPT partition table (backup)"]);
    assert_eq!(unread.unwrap().offset_bytes, 4096);
    device.plan(Fault::range(Target::Reads, 0..SIZE));
    assert!(detect_where_readable(&mut device).is_err());
}

/// Formats a file with a real tool, where it is installed, and returns the signatures found.
fn formatted_by(tool: &str, arguments: &[&str]) -> Option<Vec<&'static str>> {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("image");
    FileDevice::create_file(&path, 512 << 20).unwrap();
    let output = Command::new(tool).args(arguments).arg(&path).output().ok()?;
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
    let mut device = FileDevice::open(&path, &FileOptions::new(OpenMode::ReadOnly)).unwrap();
    Some(detect(&mut device).unwrap().iter().map(|signature| signature.name).collect())
}

#[test]
fn what_real_tools_write_is_recognised() {
    for (tool, arguments, expected) in [
        ("mkfs.xfs", &["-q"][..], &["XFS file system"][..]),
        ("mkfs.ext4", &["-q", "-F"], &["ext4 file system"]),
        ("mkfs.ext3", &["-q", "-F"], &["ext3 file system"]),
        ("mkfs.ext2", &["-q", "-F"], &["ext2 file system"]),
        ("mkfs.btrfs", &["-q"], &["btrfs file system", "btrfs file system"]),
        ("mkswap", &[], &["swap"]),
        ("sgdisk", &["-n", "1"], &["MBR partition table", "GPT partition table", "GPT partition table (backup)"]),
    ] {
        if let Some(found) = formatted_by(tool, arguments) {
            assert_eq!(found, expected, "{tool}");
        }
    }
}
