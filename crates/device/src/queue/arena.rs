//! The buffers of a queue: one page-aligned mapping with a part for each slot.

use super::error::OpenError;
use std::io;
use std::ptr::NonNull;

/// Parts begin at multiples of this, so that direct I/O works with every logical block size.
const ALIGN_BYTES: usize = 4096;

/// Anonymous memory in equal parts, initially zero.
#[derive(Debug)]
pub(super) struct Arena {
    pointer: NonNull<u8>,
    slots: u32,
    buffer_bytes: usize,
    stride_bytes: usize,
}

// SAFETY: the mapping is plain memory that this value alone owns; `&mut self` guards writes.
unsafe impl Send for Arena {}

impl Arena {
    /// Memory for `slots` buffers. `touched`: its pages are allocated now, so that no page fault falls into a
    /// measurement.
    pub(super) fn new(slots: u32, buffer_bytes: usize, touched: bool) -> Result<Self, OpenError> {
        let stride_bytes = buffer_bytes.max(1).next_multiple_of(ALIGN_BYTES);
        let size_bytes = slots as u64 * stride_bytes as u64;
        let error = |source| OpenError::Buffers { size_bytes, slots, source };
        let len = usize::try_from(size_bytes.max(1)).map_err(|_| error(io::Error::from_raw_os_error(libc::ENOMEM)))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if touched { libc::MAP_POPULATE } else { 0 };
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let raw = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let pointer = NonNull::new(raw.cast()).filter(|_| raw != libc::MAP_FAILED);
        let pointer = pointer.ok_or_else(|| error(io::Error::last_os_error()))?;
        Ok(Self { pointer, slots, buffer_bytes, stride_bytes })
    }

    #[inline]
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// Address of a slot's buffer, for the kernel.
    ///
    /// # Panics
    /// There is no such slot: the pointer would lead outside the mapping.
    #[inline]
    pub(super) fn pointer(&self, slot: u32) -> *mut u8 {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the slot exists, so that the part lies inside the mapping.
        unsafe { self.pointer.as_ptr().add(slot as usize * self.stride_bytes) }
    }

    /// The buffer of a slot.
    #[inline]
    pub(super) fn slice(&self, slot: u32) -> &[u8] {
        // SAFETY: the part is inside the mapping, initialised, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.pointer(slot), self.buffer_bytes) }
    }

    /// The buffer of a slot, mutable. The kernel must not be using it.
    #[inline]
    pub(super) fn slice_mut(&mut self, slot: u32) -> &mut [u8] {
        // SAFETY: as in `slice`; `&mut self` proves that nobody else in this process looks.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(slot), self.buffer_bytes) }
    }

    /// One vector for each slot, to be registered with a ring.
    pub(super) fn vectors(&self) -> Vec<libc::iovec> {
        let one = |slot| libc::iovec { iov_base: self.pointer(slot).cast(), iov_len: self.buffer_bytes };
        (0..self.slots).map(one).collect()
    }

    fn mapped_bytes(&self) -> usize {
        (self.slots as usize * self.stride_bytes).max(1)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this address and length, and no borrow outlives `self`.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.mapped_bytes()) };
    }
}
