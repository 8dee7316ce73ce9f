//! The null device completes at once, stores nothing and reads zeros. It shows the cost of everything around it.

use crate::instant::{InstantDevice, Store};

/// A store that keeps nothing.
#[derive(Debug)]
pub struct Nothing;

/// A device that stores nothing.
pub type NullDevice = InstantDevice<Nothing>;

impl NullDevice {
    /// A null device that claims `size_bytes`, rounded down to whole 512-byte blocks.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self::over(format!("null:?size={}", forebay_block::size::format_size(size_bytes)), size_bytes, Nothing)
    }
}

impl Store for Nothing {
    fn read(&self, _offset_bytes: u64, into: &mut [u8]) {
        into.fill(0);
    }

    fn write(&mut self, _offset_bytes: u64, _from: &[u8]) {}

    fn zero(&mut self, _offset_bytes: u64, _len_bytes: u64, _free: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking;

    #[test]
    fn forgets_everything_but_still_checks_ranges() {
        let mut device = NullDevice::new(u64::MAX);
        blocking::write(&mut device, 0, &[1; 4096]).unwrap();
        assert_eq!(*blocking::read(&mut device, 0, 4096).unwrap(), [0; 4096]);
        assert!(blocking::write(&mut device, 1, &[1; 512]).is_err());
        assert!(blocking::read(&mut device, u64::MAX - 511, 512).is_err());
    }
}
