//! Little-endian encoding of the state that the policy keeps over a restart. The reader does not trust these bytes.

/// Reads bytes in order; its methods return `None` if the bytes end too early.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader that starts at the first byte.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Reads `N` bytes.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    /// Reads a number of two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// Reads a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Reads a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// Reads a fractional number; `None` unless it is from 0 to `most`.
    pub fn fraction(&mut self, most: f64) -> Option<f64> {
        let value = f64::from(f32::from_le_bytes(self.bytes()?));
        (0.0..=most).contains(&value).then_some(value)
    }

    /// Reads a count as [`count`] encodes it; `None` if it is negative, or beyond the greatest count.
    pub fn count(&mut self) -> Option<f32> {
        let value = f32::from_bits(u32::from(self.u16()?) << 16);
        (0.0..=1e30).contains(&value).then_some(value)
    }
}

/// Encodes a count in two bytes, to half a percent: the upper half of its 32 bits, rounded.
pub fn count(value: f32) -> [u8; 2] {
    (((value.clamp(0.0, 1e30).to_bits() + 0x8000) >> 16) as u16).to_le_bytes()
}
