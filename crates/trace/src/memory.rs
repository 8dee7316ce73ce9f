//! Memory of large tables that are looked up at random: fetched before it is needed.
//!
//! The only place of the analysis where `unsafe` may stand. To fetch is advice, and changes nothing.

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
    fn what_is_not_there_is_not_fetched() {
        let vector: Vec<u64> = (0..10).collect();
        for at in [0, 9, 10, usize::MAX] {
            fetch(&vector, at);
            fetch_whole(&vector, at);
        }
    }
}
