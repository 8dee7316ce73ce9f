//! The mounts (proc_pid_mountinfo(5)), and the disk that holds a mounted file system (sysfs).

use super::error::FilesError;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where the kernel lists the mounts.
pub const MOUNTS_PATH: &str = "/proc/self/mountinfo";
/// File systems whose FIEMAP returns places on the one block device that they are mounted from.
const MAPPED: [&str; 4] = ["xfs", "ext4", "ext3", "ext2"];

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Id of the mount while it exists.
    pub id: i32,
    /// Major and minor number of the file system: those of the block device, or its own.
    pub number: (u32, u32),
    /// The mounted folder of the file system: `/` unless this is a bind mount of a part.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// Kind of file system, such as `xfs`.
    pub kind: String,
    /// The mounted source: a device's path, or a name.
    pub source: PathBuf,
}

/// The mounts that this process sees.
///
/// # Errors
/// The list of mounts cannot be read.
pub fn mounts() -> Result<Vec<Mount>, FilesError> {
    let text = fs::read(MOUNTS_PATH).map_err(|source| FilesError::Read { path: MOUNTS_PATH.into(), source })?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(mount).collect())
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|&byte| byte == b' ');
    let id = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let (major, minor) = str::from_utf8(words.nth(1)?).ok()?.split_once(':')?;
    let (root, point) = (unescaped(words.next()?), unescaped(words.next()?));
    let mut words = words.skip_while(|word| *word != b"-").skip(1);
    let kind = String::from_utf8_lossy(words.next()?).into_owned();
    Some(Mount {
        id,
        number: (major.parse().ok()?, minor.parse().ok()?),
        root,
        point,
        kind,
        source: unescaped(words.next()?),
    })
}

/// Decodes the octal numbers by which blanks, tabs, line ends and backslashes are written.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.first_chunk::<3>().filter(|_| byte == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        out.push(code.unwrap_or(byte));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(out).into()
}

/// The place of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The mount.
    pub mount: Mount,
    /// The part of a disk that holds it, or why that is not known.
    pub device: Result<OnDisk, String>,
}

/// A part of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDisk {
    /// The disk's name in the kernel, such as `nvme0n1`.
    pub disk: String,
    /// The disk's major and minor number.
    pub number: (u32, u32),
    /// Byte offset of the part.
    pub begin_bytes: u64,
    /// Length of the part in bytes.
    pub len_bytes: u64,
}

impl Place {
    /// The place of the file system mounted at `point`. Does not access the mount itself.
    ///
    /// # Errors
    /// Nothing is mounted there.
    pub fn of(point: &Path) -> Result<Self, FilesError> {
        let full = point.canonicalize().map_err(|source| FilesError::Read { path: point.to_owned(), source })?;
        // The last mount at a point hides the others.
        let mount = mounts()?.into_iter().rfind(|mount| mount.point == full);
        let mount = mount.ok_or_else(|| FilesError::NoMount { path: point.to_owned() })?;
        let device = on_disk(&mount);
        Ok(Self { mount, device })
    }

    /// Whether it is still mounted; if the system does not say, it is assumed to be.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        let same = |mount: &Mount| mount.id == self.mount.id && mount.number == self.mount.number;
        mounts().map_or(true, |mounts| mounts.iter().any(same))
    }
}

fn on_disk(mount: &Mount) -> Result<OnDisk, String> {
    let Mount { kind, number: (major, minor), .. } = mount;
    if !MAPPED.contains(&kind.as_str()) {
        return Err(format!("{kind} does not tell where on its device a file's bytes lie"));
    }
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))
        .map_err(|_| format!("no disk of this system has the number {major}:{minor}"))?;
    let name = |folder: &Path| folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let number = |folder: &Path, file: &str| -> Result<u64, String> {
        let path = folder.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        text.trim().parse().map_err(|_| format!("{}: {:?} is no number", path.display(), text.trim()))
    };
    // dm, md and bcache are spread over other devices.
    if fs::read_dir(folder.join("slaves")).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(format!("{} is made of other devices", name(&folder)));
    }
    let is_partition = folder.join("partition").exists();
    let disk_folder = match folder.parent() {
        Some(parent) if is_partition => parent.to_owned(),
        _ => folder.clone(),
    };
    let begin_sector = if is_partition { number(&folder, "start")? } else { 0 };
    let text = fs::read_to_string(disk_folder.join("dev")).unwrap_or_default();
    let disk_number =
        text.trim().split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    Ok(OnDisk {
        disk: name(&disk_folder),
        number: disk_number.ok_or_else(|| format!("{} has no number", name(&disk_folder)))?,
        begin_bytes: begin_sector.checked_mul(512).ok_or("its partition begins nowhere")?,
        len_bytes: number(&folder, "size")?.saturating_mul(512),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_mount_has_a_number_a_point_a_kind_and_a_source() {
        let line = br"36 35 98:1 /mnt1 /mnt\040two\134 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let expected = Mount {
            id: 36,
            number: (98, 1),
            root: "/mnt1".into(),
            point: r"/mnt two\".into(),
            kind: "ext3".to_owned(),
            source: "/dev/root".into(),
        };
        assert_eq!(mount(line), Some(expected));
        assert_eq!(mount(b"36 35 98:0"), None);
        assert_eq!(mount(b"36 35 98:0 / / rw"), None);
    }

    #[test]
    fn what_is_no_disk_is_reported() {
        let place = Place::of(Path::new("/proc")).unwrap();
        assert!(place.device.as_ref().unwrap_err().contains("proc does not tell"), "{place:?}");
        assert!(place.is_mounted());
        let gone = Place { mount: Mount { id: -7, ..place.mount.clone() }, ..place };
        assert!(!gone.is_mounted());
        assert!(matches!(Place::of(Path::new("/proc/self")), Err(FilesError::NoMount { .. })));
        assert!(matches!(Place::of(Path::new("/no/such/place")), Err(FilesError::Read { .. })));
    }
}
