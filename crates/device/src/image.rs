//! Durable bytes that are cheap to copy: chunks with a reference count, copied on write. A crash test can take an
//! image at every device write of thousands of runs.

use crate::instant::{InstantDevice, Store};
use std::sync::Arc;

const CHUNK_BYTES: usize = 16 << 10;

type Chunk = [u8; CHUNK_BYTES];

/// A snapshot of a device's bytes. Cloning copies one pointer per 16 KiB.
#[derive(Clone, Debug, Default)]
pub struct Image {
    chunks: Vec<Option<Arc<Chunk>>>,
    size_bytes: u64,
}

/// A device over an [`Image`], for tests. `device.store().clone()` takes a copy.
pub type ImageDevice = InstantDevice<Image>;

impl ImageDevice {
    /// A device that holds `image`.
    #[must_use]
    pub fn new(image: Image) -> Self {
        let size_bytes = image.size_bytes;
        Self::over(format!("image:?size={}", forebay_block::size::format_size(size_bytes)), size_bytes, image)
    }
}

impl Image {
    /// An image of zeros.
    #[must_use]
    pub fn zeroed(size_bytes: u64) -> Self {
        let chunks = vec![None; size_bytes.div_ceil(CHUNK_BYTES as u64) as usize];
        Self { chunks, size_bytes }
    }

    /// An image of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut image = Self::zeroed(bytes.len() as u64);
        image.write(0, bytes);
        image
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// All bytes in one piece.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size_bytes as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Calls `each` with the index of every chunk, the offset in the chunk, and the part of the range that lies
    /// there.
    fn parts(offset_bytes: u64, len: usize, mut each: impl FnMut(usize, usize, std::ops::Range<usize>)) {
        let mut done = 0;
        while done < len {
            let at = offset_bytes as usize + done;
            let (chunk, within) = (at / CHUNK_BYTES, at % CHUNK_BYTES);
            let count = (CHUNK_BYTES - within).min(len - done);
            each(chunk, within, done..done + count);
            done += count;
        }
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Self) -> bool {
        const ZERO: Chunk = [0; CHUNK_BYTES];
        self.size_bytes == other.size_bytes
            && self.chunks.iter().zip(&other.chunks).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
                (None, None) => true,
                (Some(some), None) | (None, Some(some)) => **some == ZERO,
            })
    }
}

impl Eq for Image {}

impl Store for Image {
    fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        Self::parts(offset_bytes, into.len(), |chunk, within, range| {
            let count = range.len();
            match &self.chunks[chunk] {
                Some(chunk) => into[range].copy_from_slice(&chunk[within..within + count]),
                None => into[range].fill(0),
            }
        });
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) {
        let chunks = &mut self.chunks;
        Self::parts(offset_bytes, from.len(), |chunk, within, range| {
            let chunk = chunks[chunk].get_or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            Arc::make_mut(chunk)[within..within + range.len()].copy_from_slice(&from[range]);
        });
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64, _free: bool) {
        let chunks = &mut self.chunks;
        Self::parts(offset_bytes, len_bytes as usize, |chunk, within, range| {
            if range.len() == CHUNK_BYTES {
                chunks[chunk] = None;
            } else if let Some(chunk) = &mut chunks[chunk] {
                Arc::make_mut(chunk)[within..within + range.len()].fill(0);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking;

    #[test]
    fn a_copy_does_not_see_later_writes() {
        let mut device = ImageDevice::new(Image::zeroed(100 << 10));
        blocking::write(&mut device, 15 << 10, &[3; 4096]).unwrap();
        let before = device.store().clone();
        blocking::write(&mut device, 16 << 10, &[4; 512]).unwrap();
        let (before, after) = (before.to_bytes(), device.store().to_bytes());
        assert_eq!(before[15 << 10..19 << 10], [3; 4096]);
        assert_eq!(after[16 << 10..(16 << 10) + 512], [4; 512]);
        assert_eq!(before.len(), 100 << 10);
    }

    #[test]
    fn zeroed_chunks_equal_untouched_ones() {
        let mut image = Image::zeroed(64 << 10);
        image.write(100, &[1]);
        assert_ne!(image, Image::zeroed(64 << 10));
        image.zero(0, 1024, false);
        assert_eq!(image, Image::zeroed(64 << 10));
        image.write(0, &[1; 40 << 10]);
        image.zero(0, 40 << 10, true);
        assert_eq!(image, Image::zeroed(64 << 10));
    }
}
