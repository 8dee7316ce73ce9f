//! Drives that rewrite a larger physical sector in place for a smaller write.

use std::fs::read_to_string;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Whether the drive below a block device or file updates a larger sector in place (read, modify, write) for a
/// smaller write. A power cut during the update may destroy data beside the written part. Rotating drives do so that
/// show sectors of 512 bytes over larger ones (Linux, Documentation/ABI/stable/sysfs-block: `physical_block_size`,
/// `rotational`). Flash writes to another place.
#[must_use]
pub fn rewrites_larger_sectors(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else { return false };
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", libc::major(device), libc::minor(device)));
    // A partition has no queue of its own.
    [folder.join("queue"), folder.join("../queue")].iter().any(|queue| is_rewritten(queue))
}

fn is_rewritten(queue: &Path) -> bool {
    let number = |name: &str| read_to_string(queue.join(name)).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let sizes = number("physical_block_size").zip(number("logical_block_size"));
    number("rotational") == Some(1) && sizes.is_some_and(|(physical, logical)| physical > logical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_that_rotate_and_show_smaller_sectors_than_they_have_rewrite_these() {
        let of = |rotational: &str, physical: &str, logical: &str| {
            let folder = tempfile::tempdir().unwrap();
            let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
            put("rotational", rotational);
            put("physical_block_size", physical);
            put("logical_block_size", logical);
            is_rewritten(folder.path())
        };
        assert!(of("1", "4096", "512"));
        assert!(!of("0", "4096", "512") && !of("1", "512", "512") && !of("1", "4096", "4096") && !of("", "", ""));
        assert!(!rewrites_larger_sectors(Path::new("/nowhere")));
    }
}
