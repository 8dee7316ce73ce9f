//! Integers in byte slices: total functions (a read out of range returns zero) for on-disk structures, and a small
//! writer and reader for this crate's own stored forms.

use forebay_block::checksum::crc32c;

macro_rules! integer_at {
    ($name:ident, $type:ty, $from:ident) => {
        #[inline]
        pub(crate) fn $name(bytes: &[u8], at: usize) -> $type {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| <$type>::$from(*chunk))
        }
    };
}

integer_at!(be16, u16, from_be_bytes);
integer_at!(be32, u32, from_be_bytes);
integer_at!(be64, u64, from_be_bytes);
integer_at!(le16, u16, from_le_bytes);
integer_at!(le32, u32, from_le_bytes);
integer_at!(le64, u64, from_le_bytes);

/// A UUID; zeros if out of range.
#[inline]
pub(crate) fn uuid(bytes: &[u8], at: usize) -> [u8; 16] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

/// Appends little-endian integers.
#[derive(Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
    /// The bytes with their CRC32C appended.
    pub fn sealed(mut self) -> Vec<u8> {
        let sum = crc32c(&self.out);
        self.u32(sum);
        self.out
    }
}

/// Reads little-endian integers from the front; `None` at the end.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    pub fn u8(&mut self) -> Option<u8> {
        self.chunk().map(u8::from_le_bytes)
    }
    pub fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }
    pub fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }
    pub fn uuid(&mut self) -> Option<[u8; 16]> {
        self.chunk()
    }
    pub fn offset(&self) -> usize {
        self.at
    }
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }
}
