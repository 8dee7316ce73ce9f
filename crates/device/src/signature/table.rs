//! Magics at fixed places that suffice alone.

/// A magic and its offsets from the start of the device.
pub(super) struct Fixed {
    pub(super) name: &'static str,
    pub(super) magic: &'static [u8],
    pub(super) offsets_bytes: &'static [u64],
}

const fn fixed(name: &'static str, magic: &'static [u8], offsets_bytes: &'static [u64]) -> Fixed {
    Fixed { name, magic, offsets_bytes }
}

/// The last ten bytes of the first page, for pages of 4 to 64 KiB (swap.c).
const SWAP: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
/// Labels lie in one of the first four sectors, the type 24 bytes into each (lvm.c).
const LVM: &[u64] = &[0x018, 0x218, 0x418, 0x618];

pub(super) const FIXED: &[Fixed] = &[
    // xfs.c
    fixed("XFS file system", b"XFSB", &[0]),
    // btrfs.c: 0x40 into the superblock at 64 KiB; its mirrors at 64 MiB and 256 GiB are btrfs's own
    // (btrfs_sb_offset, fs/btrfs/disk-io.h).
    fixed("btrfs file system", b"_BHRfS_M", &[0x1_0040, (64 << 20) + 0x40, (256 << 30) + 0x40]),
    // f2fs.c: two copies.
    fixed("F2FS file system", b"\x10\x20\xf5\xf2", &[0x400, 0x1400]),
    fixed("swap", b"SWAPSPACE2", SWAP),
    fixed("swap", b"SWAP-SPACE", SWAP),
    fixed("suspended system (swap)", b"S1SUSPEND", SWAP),
    fixed("suspended system (swap)", b"S2SUSPEND", SWAP),
    fixed("suspended system (swap)", b"ULSUSPEND", SWAP),
    fixed("suspended system (swap)", b"LINHIB0001", SWAP),
    fixed("LVM physical volume", b"LVM2 001", LVM),
    // lvm.c
    fixed("device-mapper snapshot", b"SnAp", &[0]),
    fixed("dm-verity", b"verity\0\0", &[0]),
    fixed("dm-integrity", b"integrt\0", &[0]),
    // luks.c: the second header of LUKS2 lies at one of these, by the size of the first.
    fixed(
        "LUKS2 encrypted volume (second header)",
        b"SKUL\xba\xbe",
        &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000],
    ),
    // bcache.c: superblock at 4 KiB, the magic 24 bytes into it; bcachefs has another copy at 2 MiB.
    fixed("bcache", b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", &[0x1018]),
    fixed("bcachefs", b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", &[0x1018, (2 << 20) + 24]),
    // Open CAS Framework, src/metadata/metadata_superblock.h: CACHE_MAGIC_NUMBER 0x187E1CA6, little-endian on the
    // machines it runs on, after clean_shutdown (u8), dirty_flushed (u8) and curr_core_seq_no (u16), whose places
    // the header fixes for all versions; the superblock is the first page (metadata_segment_sb_config = 0).
    fixed("Open CAS cache", &0x187e_1ca6_u32.to_le_bytes(), &[4]),
    // ntfs.c, exfat.c
    fixed("NTFS file system", b"NTFS    ", &[3]),
    fixed("exFAT file system", b"EXFAT   ", &[3]),
    // iso9660.c
    fixed("ISO 9660 file system", b"CD001", &[0x8001]),
    // zonefs.c
    fixed("zonefs file system", b"SFOZ", &[0]),
    // bluestore.c, stratis.c (the magic 4 bytes after a CRC, in sectors 1 and 9)
    fixed("Ceph BlueStore", b"bluestore block device", &[0]),
    fixed("Stratis pool member", b"!Stra0tis\x86\xff\x02^\x41rh", &[512 + 4, 9 * 512 + 4]),
    // gpt.c: the primary header is in block 1, of 512 or 4096 bytes, whatever the block of this device.
    fixed("GPT partition table", b"EFI PART", &[512, 4096]),
    // Files that a user may name by mistake as a target: packed files (RFC 1952 with its only method; RFC 8878),
    // Parquet (file format, README), and Forebay's own recordings (docs/record.md, docs/telemetry.md).
    fixed("gzip data", b"\x1f\x8b\x08", &[0]),
    fixed("zstd data", b"\x28\xb5\x2f\xfd", &[0]),
    fixed("Parquet file", b"PAR1", &[0]),
    fixed("Forebay recording", b"FOREBAYR", &[0]),
    fixed("Forebay records of I/Os", b"FOREBAYT", &[0]),
    // Files that hold other data: databases (sqlite.org/fileformat2.html, 1.3; LMDB and Berkeley DB as in file(1),
    // magic/Magdir/database), disk images (QEMU, docs/interop/qcow2.rst and block/{vmdk,vdi,vhdx,vpc,qed}.c),
    // archives (POSIX ustar; APPNOTE.TXT of ZIP; 7zFormat.txt; xz-file-format.txt; bzip2), programs (ELF) and
    // documents (ISO 32000).
    fixed("SQLite database", b"SQLite format 3\0", &[0]),
    fixed("LMDB database", b"\xde\xc0\xef\xbe", &[16]),
    fixed("Berkeley DB", b"\x62\x31\x05\x00", &[12]),
    fixed("qcow2 image", b"QFI\xfb", &[0]),
    fixed("QED image", b"QED\0", &[0]),
    fixed("VMDK image", b"KDMV", &[0]),
    fixed("VDI image", b"\x7f\x10\xda\xbe", &[64]),
    fixed("VHDX image", b"vhdxfile", &[0]),
    fixed("VHD image", b"conectix", &[0]),
    fixed("tar archive", b"ustar", &[257]),
    fixed("ZIP archive", b"PK\x03\x04", &[0]),
    fixed("7-Zip archive", b"7z\xbc\xaf\x27\x1c", &[0]),
    fixed("xz data", b"\xfd7zXZ\0", &[0]),
    fixed("bzip2 data", b"BZh", &[0]),
    fixed("ELF program", b"\x7fELF", &[0]),
    fixed("PDF document", b"%PDF-", &[0]),
    // reiserfs.c, jfs.c, ocfs.c, gfs.c, squashfs.c, erofs.c, hfs.c, apfs.c, bitlocker.c, vmfs.c
    fixed("ReiserFS file system", b"ReIsEr", &[0x1_0034, 0x2034]),
    fixed("JFS file system", b"JFS1", &[0x8000]),
    fixed("OCFS2 file system", b"OCFSV2", &[0x400, 0x800, 0x1000, 0x2000]),
    fixed("GFS2 file system", b"\x01\x16\x19\x70", &[0x1_0000]),
    fixed("squashfs file system", b"hsqs", &[0]),
    fixed("EROFS file system", b"\xe2\xe1\xf5\xe0", &[0x400]),
    fixed("HFS+ file system", b"H+\x00\x04", &[0x400]),
    fixed("APFS container", b"NXSB", &[32]),
    fixed("BitLocker volume", b"-FVE-FS-", &[3]),
    fixed("VMFS volume", b"\x0d\xd0\x01\xc0", &[0x10_0000]),
    // A pool of Forebay: docs/format.md. `places` looks for the last copy of its superblock.
    fixed(super::places::FOREBAY_NAME, super::places::FOREBAY_MAGIC, &[0, 64 << 10]),
];
