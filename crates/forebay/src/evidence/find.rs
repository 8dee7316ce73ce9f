//! Finding the block device above an export and the file system on it.

use forebay_trace::capture::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Place {
    /// The block device.
    pub device: Option<PathBuf>,
    /// Where its file system is mounted.
    pub mount: Option<PathBuf>,
    /// Size of the disk that it must have, in bytes.
    pub size_bytes: u64,
}

/// The causes of an error as one text.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    text
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn sys(target: &Target, what: &str) -> String {
    let (major, minor) = target.disk.number;
    format!("/sys/dev/block/{major}:{minor}/{what}")
}

/// Whether the device is still there, with the size of the disk.
pub fn is_there(target: &Target, size_bytes: u64) -> bool {
    number_in(&sys(target, "size")).is_some_and(|sectors| sectors.saturating_mul(512) == size_bytes)
}

impl Place {
    /// The block device, or why there is none yet.
    pub fn device(&self) -> Result<Target, String> {
        let target = match (&self.device, &self.mount) {
            (Some(device), _) => Target::of_device(device),
            (None, Some(mount)) => {
                mounted_at(mount)?;
                Target::of_file(mount)
            }
            (None, None) => return Err("neither a device nor a mount point is named".to_owned()),
        };
        let target = target.map_err(|error| chain(&error))?;
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

    /// Where its file system is mounted and that file system's device number as the kernel has it, or why that is not known
    /// yet.
    pub fn mount(&self) -> Result<(PathBuf, u32), String> {
        let target = self.device()?;
        let mounts = mounts()?;
        let is_on_it = |number: (u32, u32)| {
            let (major, minor) = number;
            let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"));
            let own = fs::canonicalize(sys(&target, "").trim_end_matches('/'));
            matches!((link, own), (Ok(link), Ok(own)) if link == own || link.parent() == Some(&own))
        };
        let found = match &self.mount {
            Some(mount) => mounts.into_iter().filter(|(_, point)| point == mount).next_back(),
            None => mounts.into_iter().find(|(number, _)| is_on_it(*number)),
        };
        let Some((number, point)) = found else {
            return Err(match &self.mount {
                Some(mount) => format!("nothing is mounted at {}", mount.display()),
                None => format!("no file system of {} is mounted", target.disk.name),
            });
        };
        if !is_on_it(number) {
            return Err(format!("the file system at {} is not on {}", point.display(), target.disk.name));
        }
        Ok((point, number.0 << 20 | number.1 & 0xf_ffff))
    }
}

/// Whether something is mounted at this place.
fn mounted_at(mount: &Path) -> Result<(), String> {
    let is_there = mounts()?.into_iter().any(|(_, point)| point == mount);
    if is_there { Ok(()) } else { Err(format!("nothing is mounted at {}", mount.display())) }
}

/// Device number and place of each mount, in their order (proc_pid_mountinfo(5)).
fn mounts() -> Result<Vec<((u32, u32), PathBuf)>, String> {
    let text = fs::read("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let (major, minor) = fields.nth(2)?.split_once(':')?;
        let point = fields.nth(1)?;
        Some(((major.parse().ok()?, minor.parse().ok()?), unescaped(point)))
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(line).collect())
}

/// Blanks, tabs, line ends and backslashes are written as octal numbers there.
fn unescaped(text: &str) -> PathBuf {
    let mut out = text.to_owned();
    for (code, character) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(code, character);
    }
    out.into()
}
