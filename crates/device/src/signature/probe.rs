//! A device that is examined, and the signatures found on it.

use forebay_block::{IoError, SharedBuf};
use std::fmt;

/// A signature found on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Its name, for people.
    pub name: &'static str,
    /// Offset of its magic, in bytes.
    pub offset_bytes: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.name, self.offset_bytes)
    }
}

/// Reads bytes at an offset.
pub(super) type Read<'a> = dyn FnMut(u64, usize) -> Result<SharedBuf, IoError> + 'a;

/// A device that is examined.
pub(super) struct Probe<'a> {
    pub read: &'a mut Read<'a>,
    pub size_bytes: u64,
    pub head: Vec<u8>,
    pub found: Vec<Signature>,
}

impl Probe<'_> {
    /// Bytes at any offset; `None` where the range does not lie on the device.
    pub fn bytes(&mut self, offset_bytes: u64, len_bytes: usize) -> Result<Option<Vec<u8>>, IoError> {
        let Some(end) = offset_bytes.checked_add(len_bytes as u64).filter(|&end| end <= self.size_bytes) else {
            return Ok(None);
        };
        if end <= self.head.len() as u64 {
            return Ok(Some(self.head[offset_bytes as usize..end as usize].to_vec()));
        }
        Ok(Some((self.read)(offset_bytes, len_bytes)?.to_vec()))
    }

    pub fn matches(&mut self, offset_bytes: u64, magic: &[u8]) -> Result<bool, IoError> {
        Ok(self.bytes(offset_bytes, magic.len())?.is_some_and(|bytes| bytes == magic))
    }

    pub fn report(&mut self, name: &'static str, offset_bytes: u64) {
        self.found.push(Signature { name, offset_bytes });
    }
}
