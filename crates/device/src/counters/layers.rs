//! Follows the block devices from a path down to the drive, as sysfs shows them.

use super::mounts::mount_of;
use super::stat::KernelStat;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Most stacked devices that are followed.
const LAYERS_MAX: usize = 16;
/// Most bytes read of a file in sysfs or procfs. A `stat` file has under 400, but the mount table of a machine full
/// of containers may have thousands of lines.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Where the kernel shows its devices; tests use other paths.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) sys: PathBuf,
    pub(super) dev: PathBuf,
    pub(super) mountinfo: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { sys: "/sys".into(), dev: "/dev".into(), mountinfo: "/proc/self/mountinfo".into() }
    }
}

/// Major and minor number of a block device.
pub(super) type Number = (u32, u32);

/// A block device on the path to the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The kernel's name, such as `nvme0n1p3`.
    pub name: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// The disk's sequence number, which distinguishes a drive from a later one under the same name. `None` before
    /// Linux 5.15 and for partitions.
    pub sequence: Option<u64>,
    /// The kernel's counters; `None` where they cannot be read.
    pub stat: Option<KernelStat>,
}

/// The kind of a drive, which decides how its own counters are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bus {
    /// NVMe, with the device file to send commands to.
    Nvme(PathBuf),
    /// ATA behind the kernel's libata, with the device file to send commands to.
    Ata(PathBuf),
    /// Other SCSI, with the kernel's name.
    Scsi(String),
    /// Anything else, with the kernel's name and its subsystem.
    Other(String, String),
}

#[derive(Debug, Error)]
pub(super) enum LayerError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is neither a block device nor a file", path.display())]
    OtherKind { path: PathBuf },
    #[error("{} lies on {kind} ({}), which is no block device", path.display(), source_name.display())]
    NoDevice { path: PathBuf, kind: String, source_name: PathBuf },
    #[error("{} holds no device number", path.display())]
    NoNumber { path: PathBuf },
    #[error("{name} is made of several devices ({parts}); ask for each of them apart")]
    Several { name: String, parts: String },
    #[error("more than {LAYERS_MAX} devices lie on top of each other")]
    TooDeep,
}

pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse_number(text: &str) -> Option<Number> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

impl Places {
    /// Number of the block device that the path is, or that its file system lies on.
    pub(super) fn number_of(&self, path: &Path) -> Result<Number, LayerError> {
        let failed = |source| LayerError::Read { path: path.to_owned(), source };
        let about = fs::metadata(path).map_err(failed)?;
        let kind = about.file_type();
        if kind.is_block_device() {
            return Ok((libc::major(about.rdev()), libc::minor(about.rdev())));
        }
        if !kind.is_file() && !kind.is_dir() {
            return Err(LayerError::OtherKind { path: path.to_owned() });
        }
        let number = (libc::major(about.dev()), libc::minor(about.dev()));
        if number.0 != 0 {
            return Ok(number);
        }
        let table =
            read_text(&self.mountinfo).map_err(|source| LayerError::Read { path: self.mountinfo.clone(), source })?;
        let mount = mount_of(&table, &path.canonicalize().map_err(failed)?);
        let (kind, source_name) = mount.map_or_else(|| ("?".to_owned(), PathBuf::from("?")), |m| (m.kind, m.source));
        let number = match fs::metadata(&source_name) {
            Ok(about) if source_name.is_absolute() && about.file_type().is_block_device() => {
                (libc::major(about.rdev()), libc::minor(about.rdev()))
            }
            _ => return Err(LayerError::NoDevice { path: path.to_owned(), kind, source_name }),
        };
        let parts = self.btrfs_parts(&name_of(&self.directory(number)?));
        if parts.len() > 1 {
            return Err(LayerError::Several { name: path.display().to_string(), parts: parts.join(", ") });
        }
        Ok(number)
    }

    /// All devices of the btrfs file system that this device belongs to; empty where it belongs to none. A mount
    /// names only one of them.
    pub(super) fn btrfs_parts(&self, device: &str) -> Vec<String> {
        let Ok(systems) = fs::read_dir(self.sys.join("fs/btrfs")) else { return Vec::new() };
        for system in systems.flatten() {
            let Ok(devices) = fs::read_dir(system.path().join("devices")) else { continue };
            let mut parts: Vec<String> = devices.flatten().map(|entry| name_of(&entry.path())).collect();
            if parts.iter().any(|part| part == device) {
                parts.sort();
                return parts;
            }
        }
        Vec::new()
    }

    fn directory(&self, number: Number) -> Result<PathBuf, LayerError> {
        let link = self.sys.join("dev/block").join(format!("{}:{}", number.0, number.1));
        link.canonicalize().map_err(|source| LayerError::Read { path: link, source })
    }

    /// All devices from this one down to the drive: the disk of a partition, the device below the file of a loop
    /// device, the only device below a mapped one. Where the path cannot be followed to its end, the reason is
    /// returned with the devices found.
    pub(super) fn descend(&self, start: Number) -> (Vec<Layer>, Option<LayerError>) {
        let mut layers = Vec::new();
        let mut next = Some(start);
        while let Some(number) = next {
            if layers.len() == LAYERS_MAX {
                return (layers, Some(LayerError::TooDeep));
            }
            let step = self.directory(number).and_then(|directory| {
                layers.push(layer(&directory, number));
                self.below(&directory)
            });
            match step {
                Ok(below) => next = below,
                Err(error) => return (layers, Some(error)),
            }
        }
        (layers, None)
    }

    fn below(&self, directory: &Path) -> Result<Option<Number>, LayerError> {
        if directory.join("partition").exists() {
            // A partition's directory lies in the directory of its disk.
            return number_in(directory.parent().unwrap_or(directory)).map(Some);
        }
        if let Ok(file) = read_text(&directory.join("loop/backing_file")) {
            return self.number_of(Path::new(file.trim_end_matches('\n'))).map(Some);
        }
        let Ok(entries) = fs::read_dir(directory.join("slaves")) else { return Ok(None) };
        let mut parts: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(LAYERS_MAX).collect();
        parts.sort();
        match &parts[..] {
            [] => Ok(None),
            [one] => number_in(one).map(Some),
            several => {
                let names: Vec<String> = several.iter().map(|path| name_of(path)).collect();
                Err(LayerError::Several { name: name_of(directory), parts: names.join(", ") })
            }
        }
    }

    /// The device itself, or the disk of a partition.
    pub(super) fn drive(&self, number: Number) -> Result<Layer, LayerError> {
        let directory = self.directory(number)?;
        if !directory.join("partition").exists() {
            return Ok(layer(&directory, number));
        }
        let disk = directory.parent().unwrap_or(&directory);
        Ok(layer(disk, number_in(disk)?))
    }

    /// Whether statistics are switched off for a device (`queue/iostats`, for a partition that of its disk). Counters
    /// of drivers that leave counting to the block layer then stand still.
    pub(super) fn counts_not(&self, layer: &Layer) -> bool {
        let Ok(directory) = self.directory((layer.major, layer.minor)) else { return false };
        let disk = if directory.join("partition").exists() { directory.parent() } else { Some(directory.as_path()) };
        let switch = disk.and_then(|disk| read_text(&disk.join("queue/iostats")).ok());
        switch.is_some_and(|text| text.trim() == "0")
    }

    /// Kind of the drive at the bottom.
    pub(super) fn bus(&self, drive: &Layer) -> Result<Bus, LayerError> {
        let directory = self.directory((drive.major, drive.minor))?;
        let bus = fs::canonicalize(directory.join("device/subsystem")).map(|path| name_of(&path));
        Ok(match bus.as_deref() {
            Ok("nvme" | "nvme-subsystem") => Bus::Nvme(self.node(drive)?),
            // libata reports this vendor for its own disks. Disks behind another ATA translation may refuse the
            // commands.
            Ok("scsi") if read_text(&directory.join("device/vendor")).is_ok_and(|vendor| vendor.trim() == "ATA") => {
                Bus::Ata(self.node(drive)?)
            }
            Ok("scsi") => Bus::Scsi(drive.name.clone()),
            Ok(other) => Bus::Other(drive.name.clone(), format!("a device of the bus {other}")),
            Err(_) => Bus::Other(drive.name.clone(), "a device of the kernel's own".to_owned()),
        })
    }

    /// The device file, checked to be of this device: a wrong one would return the counters of another drive.
    fn node(&self, drive: &Layer) -> Result<PathBuf, LayerError> {
        let path = self.dev.join(&drive.name);
        let about = fs::metadata(&path).map_err(|source| LayerError::Read { path: path.clone(), source })?;
        let number = (libc::major(about.rdev()), libc::minor(about.rdev()));
        if about.file_type().is_block_device() && number == (drive.major, drive.minor) {
            Ok(path)
        } else {
            Err(LayerError::OtherKind { path })
        }
    }
}

fn number_in(directory: &Path) -> Result<Number, LayerError> {
    let path = directory.join("dev");
    match read_text(&path) {
        Ok(text) => parse_number(&text).ok_or(LayerError::NoNumber { path }),
        Err(source) => Err(LayerError::Read { path, source }),
    }
}

/// The last part of a path in sysfs, where `!` stands for `/`.
fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().replace('!', "/")).unwrap_or_default()
}

fn layer(directory: &Path, (major, minor): Number) -> Layer {
    Layer {
        name: name_of(directory),
        major,
        minor,
        sequence: read_text(&directory.join("diskseq")).ok().and_then(|text| text.trim().parse().ok()),
        stat: read_text(&directory.join("stat")).ok().and_then(|text| KernelStat::parse(&text)),
    }
}
