//! Decodes file handles: file systems put inode and generation into them, in one of a few layouts.

use super::kernel::{self, RawHandle};
use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

/// Identity of a file during its life; inode numbers are reused with another generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Number of the inode.
    pub inode: u64,
    /// Generation of the inode; 0 if the file system has none.
    pub generation: u32,
}

/// The contents of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The file.
    pub id: Id,
    /// The subvolume that the number belongs to (btrfs); 0 elsewhere.
    pub subvolume: u64,
}

/// 32 bits of inode and generation (`include/linux/exportfs.h`): ext4 and most others.
const INO32_GEN: i32 = 1;
/// 64 bits of inode, 32 of generation: XFS (`fs/xfs/xfs_export.h`, `struct xfs_fid64`).
const INO64_GEN: i32 = 0x81;
/// 64 bits of object, 64 of root, 32 of generation (`fs/btrfs/export.h`, `struct btrfs_fid`).
const BTRFS: i32 = 0x4d;

impl Handle {
    /// Decodes a handle of this type; `None` for an unknown type.
    pub fn decode(kind: i32, bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes);
        let u64_at = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes);
        let (inode, generation, subvolume) = match (kind, bytes.len()) {
            (INO32_GEN, 8) => (u64::from(u32_at(0)?), u32_at(4)?, 0),
            (INO64_GEN, 12) => (u64_at(0)?, u32_at(8)?, 0),
            (BTRFS, 20..) => (u64_at(0)?, u32_at(16)?, u64_at(8)?),
            _ => return None,
        };
        Some(Self { id: Id { inode, generation }, subvolume })
    }

    /// The handle of `path` below `folder` (the folder itself if empty), and the id of its mount.
    ///
    /// # Errors
    /// There is no such file, or its file system has no known kind of handles.
    pub fn of(folder: BorrowedFd<'_>, path: &CStr) -> io::Result<(Self, i32)> {
        let (RawHandle { len_bytes, kind, bytes }, mount) = kernel::handle(folder, path)?;
        let bytes = bytes.get(..len_bytes as usize).unwrap_or(&[]);
        let handle = Self::decode(kind, bytes).ok_or(io::ErrorKind::Unsupported)?;
        Ok((handle, mount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn handles_of_each_kind_tell_inode_and_generation() {
        let id = |inode, generation| Id { inode, generation };
        let of = |kind, bytes: &[u8]| Handle::decode(kind, bytes);
        let ext4 = bytes(&[&7u32.to_ne_bytes(), &9u32.to_ne_bytes()]);
        assert_eq!(of(1, &ext4), Some(Handle { id: id(7, 9), subvolume: 0 }));
        let xfs = bytes(&[&(1u64 << 40).to_ne_bytes(), &9u32.to_ne_bytes()]);
        assert_eq!(of(0x81, &xfs), Some(Handle { id: id(1 << 40, 9), subvolume: 0 }));
        let btrfs = bytes(&[&257u64.to_ne_bytes(), &5u64.to_ne_bytes(), &9u32.to_ne_bytes()]);
        assert_eq!(of(0x4d, &btrfs), Some(Handle { id: id(257, 9), subvolume: 5 }));
        // tmpfs uses the first type with three words of its own; others are not known.
        assert_eq!(of(1, &xfs), None);
        assert_eq!(of(0x81, &ext4), None);
        assert_eq!(of(0xfe, &xfs), None);
    }
}
