//! Little-endian reading and writing with bounds.

use super::{Id, is_sealed};

/// Counters of the format stay below this, so that adding to one need not be checked.
pub const COUNTER_LIMIT: u64 = 1 << 62;

/// Appends fields to a byte vector.
#[derive(Default)]
pub struct Writer {
    /// What was written so far.
    pub bytes: Vec<u8>,
}

impl Writer {
    /// A block of a pool, to be sealed: magic, room for the CRC, pool id.
    #[must_use]
    pub fn of_pool(magic: [u8; 4], pool: &Id) -> Self {
        let mut writer = Self::default();
        writer.bytes.extend_from_slice(&magic);
        writer.u32(0);
        writer.bytes.extend_from_slice(pool);
        writer
    }
    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }
    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
    /// A length of four bytes, then the bytes.
    pub fn blob(&mut self, value: &[u8]) {
        self.u32(value.len() as u32);
        self.bytes.extend_from_slice(value);
    }
}

/// Takes fields off a byte slice; `None` where it ends too early.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    /// Starts behind the pool id of a sealed block of this pool; `None` where the bytes are no such block.
    #[must_use]
    pub fn of_pool(bytes: &'a [u8], magic: [u8; 4], pool: &Id) -> Option<Self> {
        let mut reader = Self::new(bytes.get(8..).filter(|_| is_sealed(bytes, magic))?);
        (reader.id()? == *pool).then_some(reader)
    }
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }
    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }
    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }
    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
    /// An identifier.
    pub fn id(&mut self) -> Option<Id> {
        self.array()
    }
    /// A length of four bytes, then the bytes.
    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()? as usize;
        self.take(n)
    }
    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }
}
