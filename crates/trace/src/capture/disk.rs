//! Block devices as the system shows them: names, partitions, requests in flight, and the kernel's own counters.

use super::error::CaptureError;
use super::matcher::Range;
use crate::files::mounts;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The device that is recorded: a disk or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kernel's name, such as `nvme0n1p2`.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// The disk that it lies on.
    pub disk: Disk,
    /// First sector on the disk, in sectors of 512 bytes.
    pub begin_sector: u64,
    /// Number of sectors of 512 bytes.
    pub sectors: u64,
}

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The kernel's name.
    pub name: String,
    /// Major and minor number.
    pub number: (u32, u32),
    /// Whether the disk has requests (blk-mq); otherwise it only has bios.
    pub has_requests: bool,
}

/// The kernel's counters of a device (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    /// Reads completed.
    pub reads: u64,
    /// 512-byte sectors read.
    pub read_sectors: u64,
    /// Writes completed, flushes without data included.
    pub writes: u64,
    /// 512-byte sectors written.
    pub write_sectors: u64,
    /// Discards completed.
    pub discards: u64,
    /// 512-byte sectors discarded.
    pub discard_sectors: u64,
}

impl DiskStat {
    /// The difference since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.wrapping_sub(before.reads),
            read_sectors: self.read_sectors.wrapping_sub(before.read_sectors),
            writes: self.writes.wrapping_sub(before.writes),
            write_sectors: self.write_sectors.wrapping_sub(before.write_sectors),
            discards: self.discards.wrapping_sub(before.discards),
            discard_sectors: self.discard_sectors.wrapping_sub(before.discard_sectors),
        }
    }
}

impl Target {
    /// The block device at a path.
    ///
    /// # Errors
    /// There is no block device at the path.
    pub fn of_device(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        let wrong = |why: String| CaptureError::Target { name: name.clone(), why };
        let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        if !metadata.file_type().is_block_device() {
            return Err(wrong("not a block device; a directory is given with --mount".to_owned()));
        }
        Self::of_number(&name, split(metadata.rdev()))
    }

    /// The block device that holds the file or directory at a path.
    ///
    /// # Errors
    /// There is none, as for tmpfs or network file systems.
    pub fn of_file(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        let wrong = |why: String| CaptureError::Target { name: name.clone(), why };
        let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
        let number = split(metadata.dev());
        if number.0 != 0 {
            return Self::of_number(&name, number);
        }
        // A file system with its own device number (btrfs): the mount names the block device.
        let mount = mounts()?
            .into_iter()
            .filter(|mount| fs::metadata(&mount.point).is_ok_and(|metadata| split(metadata.dev()) == number))
            .find(|mount| mount.source.starts_with("/dev/"));
        match mount {
            Some(mount) => Self::of_device(&mount.source),
            None => Err(wrong("its file system is on no block device".to_owned())),
        }
    }

    /// The block device with this major and minor number; errors call it `name`.
    ///
    /// # Errors
    /// There is no such device.
    pub fn of_number(name: &str, number: (u32, u32)) -> Result<Self, CaptureError> {
        let wrong = |why: String| CaptureError::Target { name: name.to_owned(), why };
        let link = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
        let folder = fs::canonicalize(&link).map_err(|_| {
            wrong(format!(
                "no disk of this system has the number {}:{} (a file system without a device?)",
                number.0, number.1
            ))
        })?;
        let is_partition = folder.join("partition").exists();
        let disk_folder = match folder.parent() {
            Some(parent) if is_partition => parent.to_owned(),
            _ => folder.clone(),
        };
        let begin_sector = if is_partition { number_in(&folder.join("start"))? } else { 0 };
        let disk_number = text_in(&disk_folder.join("dev"))?;
        let disk_number = disk_number
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| wrong(format!("its disk has the strange number {disk_number:?}")))?;
        Ok(Self {
            name: last(&folder),
            number,
            disk: Disk { name: last(&disk_folder), number: disk_number, has_requests: disk_folder.join("mq").is_dir() },
            begin_sector,
            sectors: number_in(&folder.join("size"))?,
        })
    }

    /// The device's present counters in the kernel.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn stat(&self) -> Result<DiskStat, CaptureError> {
        let text = text_in(Path::new(&format!("/sys/dev/block/{}:{}/stat", self.number.0, self.number.1)))?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        Ok(DiskStat {
            reads: field(0),
            read_sectors: field(2),
            writes: field(4),
            write_sectors: field(6),
            discards: field(11),
            discard_sectors: field(13),
        })
    }

    /// Its range on the disk with this index.
    #[must_use]
    pub fn range(&self, disk: u8) -> Range {
        Range { disk, begin: self.begin_sector, end: self.begin_sector.saturating_add(self.sectors) }
    }
}

impl Disk {
    /// The device number in the kernel's form, `major << 20 | minor`.
    #[must_use]
    pub fn kernel_number(&self) -> u64 {
        u64::from(self.number.0) << 20 | u64::from(self.number.1)
    }

    /// Number of requests at the disk now; `None` if the kernel does not say.
    #[must_use]
    pub fn in_flight(&self) -> Option<u32> {
        let path = format!("/sys/dev/block/{}:{}/inflight", self.number.0, self.number.1);
        let text = fs::read_to_string(path).ok()?;
        let sum = |sum: u32, field: &str| Some(sum.saturating_add(field.parse().ok()?));
        text.split_whitespace().try_fold(0, sum)
    }

    /// Whether the kernel reports the disk as idle. `false` if the kernel does not count: `queue/iostats` is off, or the driver uses bios
    /// and may leave them out.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let iostats = format!("/sys/dev/block/{}:{}/queue/iostats", self.number.0, self.number.1);
        let counts = || fs::read_to_string(iostats).is_ok_and(|text| text.trim() == "1");
        self.has_requests && counts() && self.in_flight() == Some(0)
    }
}

/// Major and minor number of a `dev_t` of stat(2) (glibc's `gnu_dev_major`, `gnu_dev_minor`).
#[must_use]
pub fn split(device: u64) -> (u32, u32) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    (major as u32, minor as u32)
}

/// A device number in the kernel's internal form.
#[must_use]
pub fn kernel_number(device: u64) -> u32 {
    let (major, minor) = split(device);
    major << 20 | minor & 0xf_ffff
}

fn last(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn text_in(path: &Path) -> Result<String, CaptureError> {
    let text = fs::read_to_string(path);
    text.map(|text| text.trim().to_owned()).map_err(|source| CaptureError::Read { path: path.to_owned(), source })
}

fn number_in(path: &Path) -> Result<u64, CaptureError> {
    let text = text_in(path)?;
    text.parse()
        .map_err(|_| CaptureError::Target { name: path.display().to_string(), why: format!("{text:?} is no number") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_split_as_the_library_does() {
        assert_eq!(split(0x0700), (7, 0));
        assert_eq!(split(0x10_0305), (3, 0x105), "bits above eight of the minor number");
        assert_eq!(kernel_number(0x10_0305), 3 << 20 | 0x105);
    }

    #[test]
    fn what_is_no_device_is_named() {
        let error = Target::of_device(Path::new("/dev/no-such-disk")).unwrap_err().to_string();
        assert!(error.starts_with("/dev/no-such-disk: No such file"), "{error}");
        let error = Target::of_device(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("not a block device"), "{error}");
        let error = Target::of_file(Path::new("/proc")).unwrap_err().to_string();
        assert!(error.contains("/proc: its file system is on no block device"), "{error}");
    }
}
