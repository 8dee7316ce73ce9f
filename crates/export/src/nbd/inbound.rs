//! Bytes received from the client and not yet processed.

/// A receive buffer of fixed size. Bytes are appended at its end and consumed from its front.
#[derive(Debug)]
pub struct Inbound {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes still to be dropped: the payload of a refused request, or an overlong option.
    skip_bytes: u64,
}

impl Inbound {
    /// A buffer of `capacity_bytes`.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        // Large zeroed vectors consist of fresh pages, which take memory only when bytes arrive.
        Self { bytes: vec![0; capacity_bytes].into_boxed_slice(), start: 0, end: 0, skip_bytes: 0 }
    }

    /// Enlarges the buffer to `capacity_bytes`, which must not be less than before.
    pub fn grow(&mut self, capacity_bytes: usize) {
        let mut grown = Self::new(capacity_bytes);
        grown.end = self.end - self.start;
        grown.bytes[..grown.end].copy_from_slice(self.unread());
        grown.skip_bytes = self.skip_bytes;
        *self = grown;
    }

    /// The free part, where received bytes go; empty only where the buffer is full.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.bytes.len() - self.end < self.bytes.len() / 4 && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Accepts `count` bytes that were written to the start of [`Inbound::space`].
    pub fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
        self.discard();
    }

    /// The bytes that were not consumed.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Consumes `count` bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Drops the next `count` bytes, including those that have not arrived yet.
    pub fn skip(&mut self, count: u64) {
        self.skip_bytes += count;
        self.discard();
    }

    /// Whether bytes to be dropped have not arrived yet.
    #[must_use]
    pub fn is_skipping(&self) -> bool {
        self.skip_bytes > 0
    }

    fn discard(&mut self) {
        let here = self.skip_bytes.min((self.end - self.start) as u64);
        self.start += here as usize;
        self.skip_bytes -= here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_what_has_not_arrived_yet() {
        let mut inbound = Inbound::new(8);
        inbound.space()[..4].copy_from_slice(b"abcd");
        inbound.filled(4);
        inbound.consume(1);
        inbound.skip(5);
        assert!(inbound.is_skipping());
        inbound.space()[..4].copy_from_slice(b"efgh");
        inbound.filled(4);
        assert!(!inbound.is_skipping());
        assert_eq!(inbound.unread(), b"gh");
    }

    #[test]
    fn grows_with_what_is_unread() {
        let mut inbound = Inbound::new(8);
        inbound.space()[..8].copy_from_slice(b"abcdefgh");
        inbound.filled(8);
        inbound.consume(5);
        inbound.grow(16);
        assert_eq!(inbound.unread(), b"fgh");
        assert_eq!(inbound.space().len(), 13);
    }

    #[test]
    fn makes_room_at_the_end_without_losing_what_is_unread() {
        let mut inbound = Inbound::new(8);
        inbound.space()[..8].copy_from_slice(b"abcdefgh");
        inbound.filled(8);
        assert!(inbound.space().is_empty());
        inbound.consume(5);
        assert_eq!(inbound.space().len(), 5);
        assert_eq!(inbound.unread(), b"fgh");
    }
}
