//! A RAM device: anonymous memory that the kernel allocates page by page on first write, so that a terabyte costs
//! only what is written.

#![allow(unsafe_code)]

use crate::instant::{InstantDevice, Store};
use std::io;
use std::ptr::NonNull;

/// Up to this size zeroing fills pages in place. Beyond, giving the pages back to the kernel is cheaper than touching
/// them.
const FILL_MAX_BYTES: u64 = 64 << 10;
const PAGE_BYTES: u64 = 4096;

/// A device in sparse memory. Requests execute inside `submit`, with one copy each.
pub type RamDevice = InstantDevice<SparseMemory>;

impl RamDevice {
    /// A zeroed device of `size_bytes`, rounded down to whole 512-byte blocks.
    ///
    /// # Errors
    /// The operating system refuses the address space.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        let memory = SparseMemory::new(size_bytes)?;
        Ok(Self::over(format!("ram:?size={}", forebay_block::size::format_size(size_bytes)), size_bytes, memory))
    }
}

/// Lazily allocated, zeroed, private memory.
#[derive(Debug)]
pub struct SparseMemory {
    pointer: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that this value alone owns; `&mut self` guards writes.
unsafe impl Send for SparseMemory {}
// SAFETY: shared access only reads.
unsafe impl Sync for SparseMemory {}

impl SparseMemory {
    /// Reserves `size_bytes`, at least one page. Nothing is allocated until it is written.
    ///
    /// # Errors
    /// The operating system refuses the address space.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        let len = usize::try_from(size_bytes.max(1))
            .ok()
            .filter(|&len| len <= isize::MAX as usize)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        // NORESERVE: a sparse device may be larger than memory and swap.
        let pointer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if pointer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let pointer = NonNull::new(pointer.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Self { pointer, len })
    }

    /// All bytes. Reading them allocates nothing: untouched pages share the kernel's zero page.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes long, readable, zero where untouched, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }

    /// All bytes, mutable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`; `&mut self` proves that nobody else looks.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl Drop for SparseMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this address and length, and no borrow outlives `self`.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.len) };
    }
}

impl Store for SparseMemory {
    fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        let at = offset_bytes as usize;
        into.copy_from_slice(&self.as_slice()[at..at + into.len()]);
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) {
        let at = offset_bytes as usize;
        self.as_mut_slice()[at..at + from.len()].copy_from_slice(from);
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64, free: bool) {
        let end = offset_bytes + len_bytes;
        let (first, last) = (offset_bytes.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES);
        if first >= last || (!free && len_bytes <= FILL_MAX_BYTES) {
            self.as_mut_slice()[offset_bytes as usize..end as usize].fill(0);
            return;
        }
        self.as_mut_slice()[offset_bytes as usize..first as usize].fill(0);
        self.as_mut_slice()[last as usize..end as usize].fill(0);
        // SAFETY: whole pages inside our own private anonymous mapping; they read as zeros afterwards (madvise(2),
        // MADV_DONTNEED), which is a valid value of u8, and `&mut self` excludes readers.
        let freed = unsafe {
            libc::madvise(
                self.pointer.as_ptr().add(first as usize).cast(),
                (last - first) as usize,
                libc::MADV_DONTNEED,
            )
        };
        if freed != 0 {
            // Locked memory cannot be given back, but must read as zeros all the same.
            self.as_mut_slice()[first as usize..last as usize].fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking;
    use forebay_block::{Device, IoErrorKind, Op};

    #[test]
    fn reads_zeros_then_what_was_written_and_zeros_after_discard() {
        let mut device = RamDevice::new(1 << 20).unwrap();
        assert!(!device.geometry().volatile_cache);
        assert_eq!(*blocking::read(&mut device, 4096, 512).unwrap(), [0; 512]);
        blocking::write(&mut device, 0, &[0xab; 300 << 10]).unwrap();
        blocking::run(&mut device, 512, Op::Discard { len_bytes: 200 << 10 }).unwrap();
        blocking::run(&mut device, 205 << 10, Op::WriteZeroes { len_bytes: 1024 }).unwrap();
        let bytes = blocking::read(&mut device, 0, 300 << 10).unwrap();
        for (at, &byte) in bytes.iter().enumerate() {
            let zero = (512..512 + (200 << 10)).contains(&at) || (205 << 10..206 << 10).contains(&at);
            assert_eq!(byte == 0, zero, "byte {at}");
        }
    }

    #[test]
    fn a_large_device_is_sparse_and_an_impossible_one_is_an_error() {
        let mut device = RamDevice::new(4 << 40).unwrap();
        blocking::write(&mut device, (4 << 40) - 512, &[1; 512]).unwrap();
        assert_eq!(*blocking::read(&mut device, (4 << 40) - 512, 512).unwrap(), [1; 512]);
        let beyond = blocking::read(&mut device, 4 << 40, 512).unwrap_err();
        assert_eq!(beyond.kind, IoErrorKind::Invalid);
        assert!(RamDevice::new(u64::MAX).is_err());
        assert!(RamDevice::new(1 << 60).is_err());
    }

    #[test]
    fn empty_device_refuses_all_io() {
        let mut device = RamDevice::new(0).unwrap();
        assert_eq!(blocking::read(&mut device, 0, 512).unwrap_err().kind, IoErrorKind::Invalid);
    }
}
