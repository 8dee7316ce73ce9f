//! Memory of large tables that are looked up at random: on huge pages, so that a look at one is no walk through page tables besides, and
//! fetched before it is needed.
//!
//! The only place of the analysis where `unsafe` may stand. Both are advice, and change nothing of what the memory holds.

/// Vectors that are smaller are left as they are: the processor knows where all of their pages lie.
const HUGE_MIN_BYTES: usize = 1 << 20;
/// Pages are no smaller anywhere; advice is given for whole ones.
const PAGE_BYTES: usize = 4096;

/// A vector of so many elements that are alike.
pub(crate) fn filled<T: Clone>(element: T, len: usize) -> Vec<T> {
    let mut vector = Vec::new();
    fill_up(&mut vector, len, element);
    vector
}

/// Makes a vector longer, as [`Vec::resize`] does; a large one by copying it, since a large page that is moved falls into small ones.
pub(crate) fn fill_up<T: Clone>(vector: &mut Vec<T>, len: usize, element: T) {
    if len > vector.capacity() {
        let mut larger = Vec::with_capacity(len.max(vector.capacity() * 2));
        on_huge_pages(&larger);
        larger.append(vector);
        *vector = larger;
    }
    vector.resize(len, element);
}

/// Asks the kernel for huge pages for all that a vector has room for. To be called before that is written to.
fn on_huge_pages<T>(vector: &Vec<T>) {
    let bytes = vector.capacity() * size_of::<T>();
    if bytes < HUGE_MIN_BYTES {
        return;
    }
    let begin = vector.as_ptr() as usize;
    let first = begin.next_multiple_of(PAGE_BYTES);
    let whole = (begin + bytes - first) / PAGE_BYTES * PAGE_BYTES;
    // What becomes of it does not matter: without huge pages it is only slower.
    // SAFETY: MADV_HUGEPAGE changes the contents of no memory (madvise(2)), and the range lies within the vector's own.
    let _ = unsafe { libc::madvise(first as *mut libc::c_void, whole, libc::MADV_HUGEPAGE) };
}

/// Has the processor fetch an element that lies in one line of the cache, or the first of those in which it lies; if there is one. It goes
/// on meanwhile.
#[inline]
pub(crate) fn fetch<T>(slice: &[T], at: usize) {
    if let Some(element) = slice.get(at) {
        fetch_line(std::ptr::from_ref(element).cast());
    }
}

/// The same of one that may lie in two lines.
#[inline]
pub(crate) fn fetch_whole<T>(slice: &[T], at: usize) {
    if let Some(element) = slice.get(at) {
        let begin = std::ptr::from_ref(element).cast::<u8>();
        fetch_line(begin);
        fetch_line(begin.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

#[inline]
fn fetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that could be seen, whatever the address; SSE is there on every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_up_keeps_what_it_had() {
        let mut vector: Vec<u64> = (0..10).collect();
        for len in [10, 11, 5000, 1 << 18, (1 << 18) + 1, 1 << 20] {
            fill_up(&mut vector, len, 7);
            assert_eq!(vector.len(), len);
        }
        assert!(vector[..10].iter().copied().eq(0..10) && vector[10..].iter().all(|element| *element == 7));
        assert_eq!(filled(3_u8, 1 << 21), vec![3; 1 << 21]);
        fetch(&vector, 5);
        fetch(&vector, usize::MAX);
        fetch_whole(&vector, 9);
    }
}
