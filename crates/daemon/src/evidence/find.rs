//! Finds the block device above an export and the file system mounted on it.

use crate::text::chain;
use forebay_trace::capture::Target;
use forebay_trace::files::{Mount, Place as MountPlace, mounts};
use std::fs;
use std::path::PathBuf;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The block device, where the configuration names it.
    pub device: Option<PathBuf>,
    /// The mount point of its file system, where the configuration names it.
    pub mount: Option<PathBuf>,
    /// Size that the device must have, in bytes: that of the disk.
    pub size_bytes: u64,
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn sys(target: &Target, what: &str) -> String {
    let (major, minor) = target.disk.number;
    format!("/sys/dev/block/{major}:{minor}/{what}")
}

/// Whether the device still exists and has the size of the disk.
pub fn is_there(target: &Target, size_bytes: u64) -> bool {
    number_in(&sys(target, "size")).is_some_and(|sectors| sectors.saturating_mul(512) == size_bytes)
}

/// Whether the mounted file system lies on the disk or on one of its partitions.
fn is_on(target: &Target, mount: &Mount) -> bool {
    Target::of_number(&mount.source.display().to_string(), mount.number).is_ok_and(|on| on.disk == target.disk)
}

impl Place {
    fn named_mount(&self) -> Result<Option<Mount>, String> {
        let mount = self.mount.as_deref().map(|point| MountPlace::of(point).map(|place| place.mount)).transpose();
        mount.map_err(|error| chain(&error.into()))
    }

    /// The block device, or the reason why it is not found yet.
    pub fn device(&self) -> Result<Target, String> {
        let target = match (&self.device, self.named_mount()?) {
            (Some(device), _) => Target::of_device(device),
            (None, Some(mount)) => Target::of_file(&mount.point),
            (None, None) => return Err("neither a device nor a mount point is named".to_owned()),
        };
        let target = target.map_err(|error| chain(&error.into()))?;
        let name = &target.disk.name;
        let sectors = number_in(&sys(&target, "size")).ok_or_else(|| format!("{name} does not tell its size"))?;
        let size_bytes = sectors.saturating_mul(512);
        if size_bytes != self.size_bytes {
            return Err(format!(
                "{name} has {size_bytes} bytes and the disk {}: it is not the device above this export",
                self.size_bytes
            ));
        }
        if number_in(&sys(&target, "loop/offset")).is_some_and(|offset| offset != 0) {
            return Err(format!("{name} begins at an offset of its file: give the loop device the whole of it"));
        }
        Ok(target)
    }

    /// The mount point of the file system and its device number as the kernel has it, or the reason why they are not
    /// known yet.
    pub fn mount(&self) -> Result<(PathBuf, u32), String> {
        let target = self.device()?;
        let found = match self.named_mount()? {
            Some(mount) if !is_on(&target, &mount) => {
                return Err(format!("the {} at {} is not on {}", mount.kind, mount.point.display(), target.disk.name));
            }
            Some(mount) => Some(mount),
            None => {
                let mounts = mounts().map_err(|error| chain(&error.into()))?;
                mounts.into_iter().find(|mount| is_on(&target, mount))
            }
        };
        let mount = found.ok_or_else(|| format!("no file system of {} is mounted", target.disk.name))?;
        Ok((mount.point, mount.number.0 << 20 | mount.number.1 & 0xf_ffff))
    }
}
