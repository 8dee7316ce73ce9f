//! Finds the device of a file system that has no device number of its own.
//!
//! btrfs and some others give their files an anonymous device number (major 0); /proc/self/mountinfo still names the
//! device that was mounted. Format: proc_pid_mountinfo(5).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One file system as mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mounted source: a path where it is a device, else a name.
    pub(super) source: PathBuf,
    /// Type of the file system, such as `btrfs`.
    pub(super) kind: String,
}

/// The mount that contains an absolute path without links: the one with the longest mount point, and the last one of
/// several mounted on top of each other. `None` where no line fits.
pub(super) fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let Some((point, mount)) = parse_line(line) else { continue };
        let depth = point.components().count();
        if path.starts_with(&point) && best.as_ref().is_none_or(|(other, _)| depth >= *other) {
            best = Some((depth, mount));
        }
    }
    best.map(|(_, mount)| mount)
}

fn parse_line(line: &str) -> Option<(PathBuf, Mount)> {
    // The list of optional fields ends with a dash. The mount point before it cannot contain " - ", because its
    // spaces are escaped.
    let (before, after) = line.split_once(" - ")?;
    let point = unescape(before.split(' ').nth(4)?);
    let mut after = after.split(' ');
    let kind = after.next()?.to_owned();
    Some((point, Mount { source: unescape(after.next()?), kind }))
}

/// Undoes the kernel's `\040` for spaces, tabs, newlines and backslashes.
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code =
            bytes.get(at + 1..at + 4).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(code);
                at += 4;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:45 /home /data rw master:2 - btrfs /dev/nvme0n1p3 rw,subvol=/home
41 27 0:46 / /data/with\\040space rw - btrfs /dev/mapper/a\\134b rw
42 27 0:47 / /over rw - tmpfs tmpfs rw
43 27 0:48 / /over rw - overlay overlay rw,lowerdir=/
";

    fn source(path: &str) -> Option<(String, String)> {
        mount_of(TABLE, Path::new(path)).map(|mount| (mount.kind, mount.source.display().to_string()))
    }

    #[test]
    fn the_innermost_and_last_mount_counts() {
        let named = |kind: &str, from: &str| Some((kind.to_owned(), from.to_owned()));
        assert_eq!(source("/etc/passwd"), named("ext4", "/dev/vda"));
        assert_eq!(source("/data/file"), named("btrfs", "/dev/nvme0n1p3"));
        assert_eq!(source("/database"), named("ext4", "/dev/vda"));
        assert_eq!(source("/data/with space/file"), named("btrfs", "/dev/mapper/a\\b"));
        assert_eq!(source("/over/file"), named("overlay", "overlay"));
        assert_eq!(mount_of("", Path::new("/")), None);
        assert_eq!(mount_of("no line of this kind\n1 2 - \n", Path::new("/")), None);
    }

    proptest! {
        #[test]
        fn any_table_is_survived(table in "[-0-9a-z\\\\/ \\n:]{0,300}") {
            mount_of(&table, Path::new("/data/file"));
        }
    }
}
