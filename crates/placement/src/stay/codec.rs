//! Little-endian bytes of what the policy keeps over a restart. Whoever reads them believes nothing.

/// Bytes that are read in order; `None` where they end too early.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning.
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// So many bytes.
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// A number with a fraction, from 0 to `most`.
    pub fn fraction(&mut self, most: f64) -> Option<f64> {
        let value = f64::from(f32::from_le_bytes(self.bytes()?));
        (0.0..=most).contains(&value).then_some(value)
    }

    /// A count as [`count`] shortens it; none is negative, or beyond all that can be counted.
    pub fn count(&mut self) -> Option<f32> {
        let value = f32::from_bits(u32::from(self.u16()?) << 16);
        (0.0..=1e30).contains(&value).then_some(value)
    }
}

/// A count in two bytes, to half a percent: the upper half of its 32 bits, rounded.
pub fn count(value: f32) -> [u8; 2] {
    (((value.clamp(0.0, 1e30).to_bits() + 0x8000) >> 16) as u16).to_le_bytes()
}
