//! Owned, aligned buffers that are passed from layer to layer without copies.
//!
//! A [`Buf`] is the sole owner of a byte range in an allocation, and may be written. [`Buf::split_off`] splits it
//! into disjoint owners; [`Buf::freeze`] turns it into a [`SharedBuf`], which is cheap to clone and to slice. Memory
//! comes from a bounded free list per thread, because an aligned allocation per I/O would cost more than the rest of
//! the path.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocation in bytes: enough for O_DIRECT on any logical block size.
pub const ALIGN_BYTES: usize = 4096;
/// Largest allocation that is kept for reuse, in bytes.
const CACHED_MAX_BYTES: usize = 1 << 20;
/// Most bytes in the free lists of one thread.
const CACHE_LIMIT_BYTES: usize = 8 << 20;

struct Allocation {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is plain bytes; disjoint `Buf`s and immutable `SharedBuf`s govern who may touch which part.
unsafe impl Send for Allocation {}
// SAFETY: as above; shared access is read-only by construction.
unsafe impl Sync for Allocation {}

/// Free lists by power-of-two size, from 4 KiB to 1 MiB.
struct FreeLists {
    lists: [Vec<NonNull<u8>>; 9],
    held_bytes: usize,
}

impl Drop for FreeLists {
    fn drop(&mut self) {
        for (class, list) in self.lists.iter_mut().enumerate() {
            let layout = layout_for(ALIGN_BYTES << class);
            for pointer in list.drain(..) {
                // SAFETY: every pointer on list `class` was allocated with exactly this layout.
                unsafe { dealloc(pointer.as_ptr(), layout) };
            }
        }
    }
}

thread_local! {
    static FREE: RefCell<FreeLists> =
        const { RefCell::new(FreeLists { lists: [const { Vec::new() }; 9], held_bytes: 0 }) };
}

fn layout_for(size_bytes: usize) -> Layout {
    match Layout::from_size_align(size_bytes, ALIGN_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("buffer of {size_bytes} bytes is larger than the address space"),
    }
}

fn class_of(capacity_bytes: usize) -> usize {
    (capacity_bytes / ALIGN_BYTES).trailing_zeros() as usize
}

impl Allocation {
    fn new(len_bytes: usize, zeroed: bool) -> Self {
        let wanted = len_bytes.max(1);
        let capacity = if wanted <= CACHED_MAX_BYTES {
            wanted.next_power_of_two().max(ALIGN_BYTES)
        } else {
            wanted.next_multiple_of(ALIGN_BYTES)
        };
        let layout = layout_for(capacity);
        if capacity <= CACHED_MAX_BYTES {
            let cached = FREE
                .try_with(|free| {
                    let mut free = free.borrow_mut();
                    let pointer = free.lists[class_of(capacity)].pop();
                    if pointer.is_some() {
                        free.held_bytes -= capacity;
                    }
                    pointer
                })
                .ok()
                .flatten();
            if let Some(pointer) = cached {
                if zeroed {
                    // SAFETY: the allocation is `capacity` bytes long and nobody else owns it.
                    unsafe { pointer.as_ptr().write_bytes(0, capacity) };
                }
                return Self { pointer, layout };
            }
        }
        // Fresh memory is always zeroed: reading a `Buf` before it is filled must be defined. Recycled memory was
        // initialised by its first use.
        // SAFETY: the layout has a non-zero size.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(pointer) = NonNull::new(raw) else { handle_alloc_error(layout) };
        Self { pointer, layout }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let capacity = self.layout.size();
        if capacity <= CACHED_MAX_BYTES {
            let kept = FREE
                .try_with(|free| {
                    let mut free = free.borrow_mut();
                    if free.held_bytes + capacity > CACHE_LIMIT_BYTES {
                        return false;
                    }
                    free.held_bytes += capacity;
                    free.lists[class_of(capacity)].push(self.pointer);
                    true
                })
                .unwrap_or(false);
            if kept {
                return;
            }
        }
        // SAFETY: allocated in `new` with this very layout and not on a free list.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) };
    }
}

/// Sole owner of a byte range of an allocation, aligned to 4 KiB when fresh.
pub struct Buf {
    /// `None` only where the length is 0.
    allocation: Option<Arc<Allocation>>,
    offset: usize,
    len: usize,
}

impl Buf {
    /// A buffer of `len_bytes` with unspecified (but initialised) content.
    #[must_use]
    pub fn new(len_bytes: usize) -> Self {
        Self { allocation: Some(Arc::new(Allocation::new(len_bytes, false))), offset: 0, len: len_bytes }
    }

    /// An empty buffer without memory.
    #[must_use]
    pub fn empty() -> Self {
        Self { allocation: None, offset: 0, len: 0 }
    }

    /// A buffer of `len_bytes` zeros.
    #[must_use]
    pub fn zeroed(len_bytes: usize) -> Self {
        Self { allocation: Some(Arc::new(Allocation::new(len_bytes, true))), offset: 0, len: len_bytes }
    }

    /// A buffer holding a copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::new(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Splits the buffer without a copy: `self` keeps the first `at` bytes, the rest is returned.
    ///
    /// # Panics
    /// `at` is beyond the end.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split_off({at}) of a buffer of {} bytes", self.len);
        let rest = Self { allocation: self.allocation.clone(), offset: self.offset + at, len: self.len - at };
        self.len = at;
        rest
    }

    /// Undoes [`Buf::split_off`]: appends `next` where it directly follows in the same allocation.
    ///
    /// # Errors
    /// Returns `next` where it does not follow.
    pub fn try_join(&mut self, next: Self) -> Result<(), Self> {
        let same = match (&self.allocation, &next.allocation) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            _ => false,
        };
        if same && self.offset + self.len == next.offset {
            self.len += next.len;
            Ok(())
        } else {
            Err(next)
        }
    }

    /// Shortens the buffer to `len_bytes`; does nothing where it is shorter already.
    pub fn truncate(&mut self, len_bytes: usize) {
        self.len = self.len.min(len_bytes);
    }

    /// Makes the buffer read-only and cheap to clone and slice.
    #[must_use]
    pub fn freeze(self) -> SharedBuf {
        SharedBuf { allocation: self.allocation, offset: self.offset, len: self.len }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let Some(allocation) = &self.allocation else { return &[] };
        // SAFETY: the range lies within the allocation, is initialised, and is owned by `self` alone.
        unsafe { std::slice::from_raw_parts(allocation.pointer.as_ptr().add(self.offset), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        let Some(allocation) = &self.allocation else { return &mut [] };
        // SAFETY: as in `deref`; `&mut self` proves that nobody else reads the range meanwhile.
        unsafe { std::slice::from_raw_parts_mut(allocation.pointer.as_ptr().add(self.offset), self.len) }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// A read-only byte range of an allocation, with shared ownership.
#[derive(Clone)]
pub struct SharedBuf {
    /// `None` only where the length is 0.
    allocation: Option<Arc<Allocation>>,
    offset: usize,
    len: usize,
}

impl SharedBuf {
    /// A part of this buffer, without a copy.
    ///
    /// # Panics
    /// The range is not inside the buffer.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "slice {offset}+{len} of a buffer of {} bytes", self.len);
        Self { allocation: self.allocation.clone(), offset: self.offset + offset, len }
    }
}

impl Deref for SharedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let Some(allocation) = &self.allocation else { return &[] };
        // SAFETY: the range lies within the allocation and no `Buf` for it exists any more, so it is immutable.
        unsafe { std::slice::from_raw_parts(allocation.pointer.as_ptr().add(self.offset), self.len) }
    }
}

impl std::fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_and_splits_and_joins_without_copying() {
        let mut a = Buf::zeroed(12288);
        assert_eq!(a.as_ptr() as usize % ALIGN_BYTES, 0);
        let mut b = a.split_off(4096);
        b[0] = 9;
        a[4095] = 7;
        a.try_join(b).unwrap();
        assert_eq!((a[4095], a[4096], a.len()), (7, 9, 12288));
        let shared = a.freeze();
        assert_eq!(shared.slice(4095, 2)[..], [7, 9]);
    }

    #[test]
    fn strangers_do_not_join() {
        let mut a = Buf::zeroed(4096);
        assert!(a.try_join(Buf::zeroed(4096)).is_err());
    }

    #[test]
    fn recycled_memory_is_zero_when_asked() {
        let mut a = Buf::new(8192);
        a.fill(0xaa);
        drop(a);
        assert!(Buf::zeroed(8192).iter().all(|&byte| byte == 0));
    }
}
