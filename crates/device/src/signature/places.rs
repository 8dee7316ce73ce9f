//! Magics whose place depends on the size of the device, or that are too short to suffice alone.

use super::probe::Probe;
use forebay_block::IoError;

pub(super) const FOREBAY_NAME: &str = "Forebay pool";
pub(super) const FOREBAY_MAGIC: &[u8] = b"FOREBAY1";

/// linux_raid.c, `MD_SB_MAGIC`.
const MD_MAGIC: u32 = 0xa92b_4efc;
/// include/sys/uberblock_impl.h of OpenZFS, `UBERBLOCK_MAGIC`.
const ZFS_MAGIC: u64 = 0x00ba_b10c;

pub(super) fn look(probe: &mut Probe<'_>) -> Result<(), IoError> {
    ext(probe)?;
    luks(probe)?;
    md(probe)?;
    zfs(probe)?;
    boot_sector(probe)?;
    tail(probe)
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
}

/// ext.c: superblock at 1 KiB, two bytes of magic 0x38 into it, distinguished by features as libblkid does.
fn ext(probe: &mut Probe<'_>) -> Result<(), IoError> {
    let Some(superblock) = probe.bytes(0x400, 0x400)? else { return Ok(()) };
    // A magic of 16 bits proves little, so fields are checked, too: a file system has blocks, and none is above 64
    // KiB.
    if superblock[0x38..0x3a] != [0x53, 0xef] || le32(&superblock, 0x04) == 0 || le32(&superblock, 0x18) > 6 {
        return Ok(());
    }
    let (compat, incompat, ro_compat) = (le32(&superblock, 0x5c), le32(&superblock, 0x60), le32(&superblock, 0x64));
    // The features that ext3 knows: file types, recovery, external journal, meta block groups; sparse superblocks,
    // large files, directory trees.
    let name = if incompat & 0x0008 != 0 {
        "ext3/ext4 external journal"
    } else if incompat & !0x0016 != 0 || ro_compat & !0x0007 != 0 {
        "ext4 file system"
    } else if compat & 0x0004 != 0 {
        "ext3 file system"
    } else {
        "ext2 file system"
    };
    probe.report(name, 0x438);
    Ok(())
}

/// luks.c: magic, then the version, big-endian.
fn luks(probe: &mut Probe<'_>) -> Result<(), IoError> {
    let Some(header) = probe.bytes(0, 8)? else { return Ok(()) };
    if header[..6] == *b"LUKS\xba\xbe" {
        probe.report(if header[7] == 2 { "LUKS2 encrypted volume" } else { "LUKS1 encrypted volume" }, 0);
    }
    Ok(())
}

/// linux_raid.c: version 0.90 in the last whole 64 KiB but one, 1.0 8 KiB before the end, 1.1 at the start, 1.2 at 4 KiB.
fn md(probe: &mut Probe<'_>) -> Result<(), IoError> {
    let size = probe.size_bytes;
    if let Some(offset) = (size & !0xffff).checked_sub(0x1_0000)
        && let Some(bytes) = probe.bytes(offset, 4)?
        // The old format uses the byte order of the machine that wrote it.
        && (le32(&bytes, 0) == MD_MAGIC || le32(&bytes, 0) == MD_MAGIC.swap_bytes())
    {
        probe.report("Linux RAID member (0.90)", offset);
    }
    let last = (size & !0xfff).checked_sub(0x2000);
    let places = [
        ("Linux RAID member (1.0)", last),
        ("Linux RAID member (1.1)", Some(0)),
        ("Linux RAID member (1.2)", Some(0x1000)),
    ];
    for (name, offset) in places {
        let Some(offset) = offset else { continue };
        let Some(bytes) = probe.bytes(offset, 8)? else { continue };
        if le32(&bytes, 0) == MD_MAGIC && le32(&bytes, 4) == 1 {
            probe.report(name, offset);
        }
    }
    Ok(())
}

/// zfs.c: four labels of 256 KiB, two at each end of the device, whose size is rounded down to whole labels. libblkid
/// parses the name-value list of a label. This looks for the uberblocks in its second half, each of which has a magic
/// of 64 bits at a multiple of 1 KiB (OpenZFS, include/sys/vdev_impl.h).
fn zfs(probe: &mut Probe<'_>) -> Result<(), IoError> {
    const LABEL: u64 = 256 << 10;
    let labels = probe.size_bytes / LABEL;
    if labels < 4 {
        return Ok(());
    }
    for label in [0, 1, labels - 2, labels - 1] {
        let start = label * LABEL + LABEL / 2;
        let Some(ring) = probe.bytes(start, (LABEL / 2) as usize)? else { continue };
        let slot = ring
            .chunks_exact(1024)
            .position(|slot| slot[..8] == ZFS_MAGIC.to_le_bytes() || slot[..8] == ZFS_MAGIC.to_be_bytes());
        if let Some(slot) = slot {
            probe.report("ZFS pool member", start + slot as u64 * 1024);
        }
    }
    Ok(())
}

/// vfat.c and dos.c: both end in 55 AA. With a parameter block it is a FAT, otherwise a partition table.
fn boot_sector(probe: &mut Probe<'_>) -> Result<(), IoError> {
    let Some(sector) = probe.bytes(0, 512)? else { return Ok(()) };
    let boot_signature = sector[510..] == [0x55, 0xaa];
    let fat_name = ["MSWIN", "FAT32   "].iter().any(|name| sector[0x52..].starts_with(name.as_bytes()))
        || ["MSDOS", "FAT16   ", "FAT12   ", "FAT     "].iter().any(|name| sector[0x36..].starts_with(name.as_bytes()));
    if (fat_name || boot_signature) && is_fat_parameter_block(&sector) {
        probe.report("FAT file system", if sector[0x52..].starts_with(b"FAT32") { 0x52 } else { 0x36 });
        return Ok(());
    }
    let other = [b"NTFS    ", b"EXFAT   "].iter().any(|name| sector[3..].starts_with(*name));
    if !boot_signature || other {
        return Ok(());
    }
    let partitions = sector[446..510].chunks_exact(16);
    let plausible = partitions.clone().all(|entry| entry[0] == 0 || entry[0] == 0x80);
    if plausible && partitions.clone().any(|entry| entry[4] != 0) {
        probe.report("MBR partition table", 510);
    } else {
        probe.report("boot sector", 510);
    }
    Ok(())
}

/// The checks of vfat.c, `fat_valid_superblock`, that concern single fields.
fn is_fat_parameter_block(sector: &[u8]) -> bool {
    let sector_size = le16(sector, 0x0b);
    let (cluster_size, reserved, fats, media) = (sector[0x0d], le16(sector, 0x0e), sector[0x10], sector[0x15]);
    sector_size.is_power_of_two()
        && (512..=4096).contains(&sector_size)
        && cluster_size.is_power_of_two()
        && reserved > 0
        && fats > 0
        && (media >= 0xf8 || media == 0xf0)
}

/// Copies of headers at the end of the device.
fn tail(probe: &mut Probe<'_>) -> Result<(), IoError> {
    let size = probe.size_bytes;
    // gpt.c: the backup header is the last block, of 512 or 4096 bytes.
    for block in [512, 4096] {
        if let Some(offset) = (size / block * block).checked_sub(block)
            && probe.matches(offset, b"EFI PART")?
        {
            probe.report("GPT partition table (backup)", offset);
        }
    }
    // bcache.c: bcachefs keeps a copy 1 MiB before the end.
    if let Some(offset) = size.checked_sub(1 << 20)
        && probe.matches(offset + 24, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef")?
    {
        probe.report("bcachefs", offset + 24);
    }
    if let Some(offset) = (size / 4096 * 4096).checked_sub(4096)
        && probe.matches(offset, FOREBAY_MAGIC)?
    {
        probe.report(FOREBAY_NAME, offset);
    }
    Ok(())
}
