//! The places of a file's data on the disk, by FIEMAP (`Documentation/filesystems/fiemap.rst`, `include/uapi/linux/fiemap.h`).

use super::Extent;
use super::kernel::{self, Fiemap, RawExtent};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::BorrowedFd;

const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELALLOC: u32 = 0x4;
const ENCODED: u32 = 0x8;
const NOT_ALIGNED: u32 = 0x100;
const INLINE: u32 = 0x200;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// The places of a file's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Extents in order of their offset in the file; adjacent ones are joined if they are adjacent on the disk too.
    pub extents: Vec<Extent>,
    /// Whether some data has no place yet.
    pub is_pending: bool,
    /// Whether the file shares blocks with another one, so that written data moves.
    pub is_shared: bool,
    /// Number of extents beyond the limit; if there are any, a lower bound.
    pub left_out: u64,
}

impl Layout {
    /// Asks the file system. `begin_bytes` is where the file system's device begins on the disk.
    ///
    /// # Errors
    /// The file system cannot answer.
    pub fn of(
        file: BorrowedFd<'_>,
        begin_bytes: u64,
        size_bytes: u64,
        limit: usize,
        room: &mut Fiemap,
    ) -> io::Result<Self> {
        let mut layout = Self::default();
        let mut start = 0;
        loop {
            let found = kernel::fiemap(file, start, room)?;
            let Some(last) = found.last() else { return Ok(layout) };
            let end = last.logical.saturating_add(last.length);
            let is_last = last.flags & LAST != 0;
            for extent in found {
                layout.add(extent, begin_bytes, size_bytes, limit);
            }
            // Always forward, whatever the file system reports.
            if is_last || end <= start || layout.left_out > 0 {
                return Ok(layout);
            }
            start = end;
        }
    }

    fn add(&mut self, extent: &RawExtent, begin_bytes: u64, size_bytes: u64, limit: usize) {
        if extent.flags & (DELALLOC | UNKNOWN) != 0 {
            // Space reserved beyond the end of the file (XFS) may never get a place.
            self.is_pending |= extent.logical < size_bytes;
            return;
        }
        if extent.flags & (ENCODED | NOT_ALIGNED | INLINE) != 0 || extent.length == 0 {
            return;
        }
        self.is_shared |= extent.flags & SHARED != 0;
        let Some(disk_offset_bytes) = extent.physical.checked_add(begin_bytes) else { return };
        if disk_offset_bytes.checked_add(extent.length).is_none() || extent.logical.checked_add(extent.length).is_none()
        {
            return;
        }
        let is_written = extent.flags & UNWRITTEN == 0;
        if let Some(before) = self.extents.last_mut()
            && before.is_written == is_written
            && before.disk_offset_bytes + before.len_bytes == disk_offset_bytes
            && before.file_offset_bytes + before.len_bytes == extent.logical
        {
            before.len_bytes += extent.length;
        } else if self.extents.len() < limit {
            let (file_offset_bytes, len_bytes) = (extent.logical, extent.length);
            self.extents.push(Extent { disk_offset_bytes, file_offset_bytes, len_bytes, is_written });
        } else {
            self.left_out += 1;
        }
    }

    /// A hash of the extents, to detect changes.
    pub fn fingerprint(&self, state: &RandomState) -> u64 {
        state.hash_one(&self.extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(logical: u64, physical: u64, length: u64, flags: u32) -> RawExtent {
        RawExtent { logical, physical, length, flags, ..RawExtent::default() }
    }

    #[test]
    fn only_what_has_a_place_of_its_own_is_taken() {
        let mut layout = Layout::default();
        for extent in [
            raw(0, 8192, 4096, 0),
            raw(4096, 12288, 4096, SHARED),
            raw(8192, 0, 4096, DELALLOC | UNKNOWN),
            raw(12288, 100 << 20, 4096, 0x1000),
            raw(16384, 7, 100, INLINE | NOT_ALIGNED),
            raw(20480, u64::MAX - 4096, 4096, 0),
            raw(24576, 0, 4096, ENCODED),
        ] {
            layout.add(&extent, 1 << 20, 13000, 10);
        }
        let extent = |disk_offset_bytes, file_offset_bytes, len_bytes| Extent {
            disk_offset_bytes,
            file_offset_bytes,
            len_bytes,
            is_written: true,
        };
        assert_eq!(layout.extents, [extent((1 << 20) + 8192, 0, 8192), extent(101 << 20, 12288, 4096)]);
        assert!(layout.is_pending && layout.is_shared);
        assert_eq!(layout.left_out, 0);
    }

    #[test]
    fn what_is_reserved_behind_the_end_is_not_waited_for() {
        let mut layout = Layout::default();
        layout.add(&raw(1 << 20, 0, 1 << 20, DELALLOC | UNKNOWN | LAST), 0, 4096, 10);
        assert_eq!(layout, Layout::default());
    }

    #[test]
    fn what_is_only_reserved_is_distinguished() {
        let mut layout = Layout::default();
        for (at, flags) in [(0, 0), (4096, UNWRITTEN), (8192, UNWRITTEN), (12288, 0)] {
            layout.add(&raw(at, at, 4096, flags), 0, 1 << 20, 10);
        }
        let found: Vec<_> = layout.extents.iter().map(|extent| (extent.len_bytes, extent.is_written)).collect();
        assert_eq!(found, [(4096, true), (8192, false), (4096, true)]);
    }

    #[test]
    fn a_limit_holds() {
        let mut layout = Layout::default();
        for index in 0..5 {
            layout.add(&raw(index << 20, index << 30, 4096, 0), 0, 5 << 20, 3);
        }
        assert_eq!((layout.extents.len(), layout.left_out), (3, 2));
    }
}
