//! The guest's memory as the machine shares it: regions of files, mapped into the server.
//!
//! If a client truncated such a file, SIGBUS would kill the server at the next access. So the server maps only files
//! that the kernel does not let anybody shrink (fcntl(2), `F_SEAL_SHRINK`). It refuses files of huge pages even so:
//! mapping one can succeed where the machine has no such pages left, and then the first access fails.
//!
//! A mapping outlives the descriptor from which it was made: the server closes the descriptor at once, so that a
//! client with many regions does not use up the server's descriptors.

use rustix::fs::{FsWord, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::ptr;
use std::sync::Arc;
use thiserror::Error;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// Most regions at a time: as many as a machine has slots for memory that is added while it runs.
pub const REGIONS_MAX: usize = 64;
/// Most bytes of all regions together: the server's page tables grow with the part of them that it touches.
const BYTES_MAX: u64 = 4 << 40;
/// Regions begin and end at page boundaries. So no number in a ring lies across two regions, where it could not be
/// read at once.
const PAGE_BYTES: u64 = 4096;
/// `TMPFS_MAGIC` of linux/magic.h, the file system of a memfd of ordinary pages. A memfd of huge pages has
/// `HUGETLBFS_MAGIC`.
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// Why the server does not map memory.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The file could be shrunk, as no seal prevents that.
    #[error(
        "its memory could be cut short under the server, as nothing seals it: give the machine memory of \
         `memory-backend-memfd,share=on` (seal=on is the default)"
    )]
    NotSealed,
    /// The file has huge pages, or is no memory file at all.
    #[error(
        "its memory is not of ordinary pages, so it could run out under the server: give the machine memory of \
         `memory-backend-memfd,share=on` without hugetlb=on"
    )]
    NotOrdinary,
    /// A region does not begin and end at page boundaries.
    #[error("a region of its memory does not begin and end at pages of {PAGE_BYTES} bytes")]
    NotPages,
    /// The regions are together longer than the limit.
    #[error("its memory regions are together longer than {BYTES_MAX} bytes")]
    TooLong,
    /// The file ends before the region does.
    #[error("a region of its memory lies beyond the end of its file")]
    BeyondFile,
    /// Regions overlap, or there are too many.
    #[error("its memory regions overlap, or are more than {REGIONS_MAX}")]
    Layout,
    /// The system refuses to map it.
    #[error("its memory cannot be mapped: {0}")]
    Map(String),
}

/// A region as the client describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address in the guest.
    pub guest: u64,
    /// Address in the client, which uses such addresses to name rings.
    pub user: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Byte offset in the region's file.
    pub offset_bytes: u64,
}

/// Mapped pages of a file; dropping this unmaps them.
#[derive(Debug)]
pub struct Pages {
    address: *mut c_void,
    len_bytes: usize,
}

// SAFETY: an address and a length, which nobody changes; the memory there is accessed through `vm-memory` alone.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map_sealed` and unmapped by nobody else; everything that refers to it is dropped before,
        // see `Mapped`.
        let _ = unsafe { munmap(self.address, self.len_bytes) };
    }
}

/// A region, and the pages in which it lies: keep the pages for as long as the region or a copy of it exists.
#[derive(Debug)]
pub struct Mapped {
    /// The region.
    pub region: MmapRegion,
    /// The pages behind `region`.
    pub pages: Arc<Pages>,
}

#[derive(Clone, Debug)]
struct Region {
    place: Place,
    mapping: Arc<GuestRegionMmap>,
    _pages: Arc<Pages>,
}

/// All regions of the guest's memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Declared before the regions, to whose pages it refers.
    map: GuestMemoryMmap,
    regions: Vec<Region>,
}

/// Maps a part of a file that nobody can shrink.
pub fn map_sealed(file: File, offset_bytes: u64, len_bytes: u64) -> Result<Mapped, MemoryError> {
    let failed = |why: Errno| MemoryError::Map(why.to_string());
    // The crate that receives the descriptor does not set this flag.
    fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(failed)?;
    let seals = fcntl_get_seals(&file).unwrap_or(SealFlags::empty());
    // If seals may still be added, the server adds the missing one now.
    if !seals.contains(SealFlags::SHRINK) && fcntl_add_seals(&file, SealFlags::SHRINK).is_err() {
        return Err(MemoryError::NotSealed);
    }
    if fstatfs(&file).map_err(failed)?.f_type != TMPFS_MAGIC {
        return Err(MemoryError::NotOrdinary);
    }
    let file_bytes = fstat(&file).map_err(failed)?.st_size.unsigned_abs();
    if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > file_bytes) {
        return Err(MemoryError::BeyondFile);
    }
    let len = usize::try_from(len_bytes).map_err(|_| MemoryError::BeyondFile)?;
    let (both, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address that the kernel chooses.
    let address = unsafe { mmap(ptr::null_mut(), len, both, shared, &file, offset_bytes) }.map_err(failed)?;
    let pages = Arc::new(Pages { address, len_bytes: len });
    // SAFETY: the mapping exists for as long as `pages`, which is kept with the region.
    let region = unsafe { MmapRegion::build_raw(address.cast(), len, both.bits() as i32, shared.bits() as i32) };
    Ok(Mapped { region: region.map_err(|why| MemoryError::Map(why.to_string()))?, pages })
}

impl Memory {
    /// The mapped regions.
    pub fn map(&self) -> &GuestMemoryMmap {
        &self.map
    }

    /// Maps another region.
    pub fn add(&mut self, place: Place, file: File) -> Result<(), MemoryError> {
        if self.regions.len() >= REGIONS_MAX {
            return Err(MemoryError::Layout);
        }
        if ![place.guest, place.len_bytes, place.offset_bytes].iter().all(|at| at.is_multiple_of(PAGE_BYTES)) {
            return Err(MemoryError::NotPages);
        }
        let all = self.regions.iter().map(|region| region.place.len_bytes).fold(place.len_bytes, u64::saturating_add);
        if all > BYTES_MAX {
            return Err(MemoryError::TooLong);
        }
        let Mapped { region, pages } = map_sealed(file, place.offset_bytes, place.len_bytes)?;
        let mapping = GuestRegionMmap::new(region, GuestAddress(place.guest)).ok_or(MemoryError::Layout)?;
        let mut regions = self.regions.clone();
        regions.push(Region { place, mapping: Arc::new(mapping), _pages: pages });
        regions.sort_by_key(|region| region.place.guest);
        self.replace(regions)
    }

    /// Unmaps a region; returns whether there was such a region.
    pub fn remove(&mut self, guest: u64, user: u64, len_bytes: u64) -> Result<bool, MemoryError> {
        let is_it = |place: &Place| (place.guest, place.user, place.len_bytes) == (guest, user, len_bytes);
        let regions: Vec<Region> = self.regions.iter().filter(|region| !is_it(&region.place)).cloned().collect();
        let found = regions.len() < self.regions.len();
        self.replace(regions)?;
        Ok(found)
    }

    fn replace(&mut self, regions: Vec<Region>) -> Result<(), MemoryError> {
        self.map = if regions.is_empty() {
            GuestMemoryMmap::default()
        } else {
            let mappings = regions.iter().map(|region| Arc::clone(&region.mapping)).collect();
            GuestMemoryMmap::from_arc_regions(mappings).map_err(|_| MemoryError::Layout)?
        };
        self.regions = regions;
        Ok(())
    }

    /// Translates one of the client's addresses to the guest's; `None` outside of all regions.
    pub fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        self.regions.iter().find_map(|Region { place, .. }| {
            let inside = user.checked_sub(place.user).filter(|&inside| inside < place.len_bytes)?;
            place.guest.checked_add(inside).map(GuestAddress)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use vm_memory::Bytes;

    fn memfd(flags: MemfdFlags, len_bytes: u64) -> File {
        let file = memfd_create("test", flags).unwrap();
        ftruncate(&file, len_bytes).unwrap();
        File::from(file)
    }

    fn place(guest: u64, user: u64, len_bytes: u64) -> Place {
        Place { guest, user, len_bytes, offset_bytes: 0 }
    }

    #[test]
    fn what_can_be_cut_short_is_not_mapped() {
        let mut memory = Memory::default();
        let open = memfd(MemfdFlags::ALLOW_SEALING, 8192);
        memory.add(place(0, 0x10000, 8192), open.try_clone().unwrap()).unwrap();
        assert!(ftruncate(&open, 4096).is_err(), "it was sealed");
        let never = memfd(MemfdFlags::empty(), 8192);
        assert!(matches!(memory.add(place(8192, 0x20000, 8192), never), Err(MemoryError::NotSealed)));
        let short = memfd(MemfdFlags::ALLOW_SEALING, 4096);
        assert!(matches!(memory.add(place(8192, 0x20000, 8192), short), Err(MemoryError::BeyondFile)));
        let over = memfd(MemfdFlags::ALLOW_SEALING, 8192);
        assert!(matches!(memory.add(place(4096, 0x20000, 8192), over), Err(MemoryError::Layout)));
        memory.map().write_obj(7u32, GuestAddress(8188)).unwrap();
    }

    #[test]
    fn memory_of_huge_pages_is_refused() {
        // The file's type is examined before it is mapped: with no huge pages at all the mapping would succeed.
        let Ok(file) = memfd_create("huge", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING) else {
            println!("skipped: this kernel has no huge pages");
            return;
        };
        ftruncate(&file, 2 << 20).unwrap();
        let added = Memory::default().add(place(0, 0x10000, 2 << 20), File::from(file));
        assert!(matches!(added, Err(MemoryError::NotOrdinary)), "{added:?}");
    }

    #[test]
    fn regions_are_whole_pages() {
        for (guest, len_bytes, offset_bytes) in [(2, 4096, 0), (0, 4098, 0), (0, 4096, 512)] {
            let odd = Place { guest, user: 0x10000, len_bytes, offset_bytes };
            let added = Memory::default().add(odd, memfd(MemfdFlags::ALLOW_SEALING, 16384));
            assert!(matches!(added, Err(MemoryError::NotPages)), "{odd:?}: {added:?}");
        }
    }

    #[test]
    fn memory_of_all_regions_is_bounded() {
        let mut memory = Memory::default();
        let file = memfd(MemfdFlags::ALLOW_SEALING, BYTES_MAX);
        let too_long = memory.add(place(0, 0, BYTES_MAX + 4096), file.try_clone().unwrap());
        assert!(matches!(too_long, Err(MemoryError::TooLong)));
        memory.add(place(0, 0, BYTES_MAX - 4096), file.try_clone().unwrap()).unwrap();
        memory.add(place(BYTES_MAX, BYTES_MAX, 4096), file.try_clone().unwrap()).unwrap();
        assert!(matches!(memory.add(place(BYTES_MAX * 2, 0, 4096), file), Err(MemoryError::TooLong)));
    }

    #[test]
    fn a_region_holds_no_descriptor() {
        let name = format!("mapped-{}", std::process::id());
        let file = File::from(memfd_create(name.as_str(), MemfdFlags::ALLOW_SEALING).unwrap());
        ftruncate(&file, 8192).unwrap();
        let held = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter_map(|fd| std::fs::read_link(fd.path()).ok())
                .filter(|to| to.to_string_lossy().contains(&name))
                .count()
        };
        let mut memory = Memory::default();
        memory.add(place(4096, 0x10000, 8192), file.try_clone().unwrap()).unwrap();
        assert_eq!(held(), 1, "ours");
        drop(file);
        assert_eq!(held(), 0);
        memory.map().write_obj(7u32, GuestAddress(8192)).unwrap();
        assert_eq!(memory.map().read_obj::<u32>(GuestAddress(8192)).unwrap(), 7);
        let copy = memory.clone();
        assert!(memory.remove(4096, 0x10000, 8192).unwrap());
        assert_eq!(copy.map().read_obj::<u32>(GuestAddress(8192)).unwrap(), 7, "its pages stay for who has a copy");
    }

    #[test]
    fn addresses_of_the_client_are_found_in_the_guest() {
        let mut memory = Memory::default();
        memory.add(place(1 << 32, 0x7000_0000, 4096), memfd(MemfdFlags::ALLOW_SEALING, 4096)).unwrap();
        memory.add(place(0, 0x5000_0000, 4096), memfd(MemfdFlags::ALLOW_SEALING, 4096)).unwrap();
        assert_eq!(memory.guest_address(0x7000_0010), Some(GuestAddress((1 << 32) + 16)));
        assert_eq!(memory.guest_address(0x5000_0fff), Some(GuestAddress(0xfff)));
        assert_eq!(memory.guest_address(0x5000_1000), None);
        assert!(memory.remove(0, 0x5000_0000, 4096).unwrap());
        assert!(!memory.remove(0, 0x5000_0000, 4096).unwrap());
        assert_eq!(memory.guest_address(0x5000_0000), None);
    }
}
