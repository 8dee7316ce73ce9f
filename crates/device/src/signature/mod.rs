//! What already lies on a device, so that nothing is formatted over by accident.
//!
//! Offsets and magics are those of libblkid (util-linux 2.43, `libblkid/src/superblocks/*.c` and
//! `libblkid/src/partitions/*.c`), checked there one by one; other sources are named beside their entries. Unlike
//! libblkid this looks for *any* trace: it does not verify checksums and does not let one finding hide another, because
//! a false alarm costs a question and a miss costs data.

mod places;
mod table;

use crate::blocking;
use forebay_block::{Device, IoError};
use std::fmt;

/// Something recognised on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// What it is, for people.
    pub name: &'static str,
    /// Where its magic is, in bytes.
    pub offset_bytes: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.name, self.offset_bytes)
    }
}

/// Bytes at the start of the device within which most magics lie; one read serves them all.
const HEAD_BYTES: u64 = 68 << 10;

/// A device being looked at.
struct Probe<'a> {
    device: &'a mut dyn Device,
    size_bytes: u64,
    head: Vec<u8>,
    found: Vec<Signature>,
}

impl Probe<'_> {
    /// Bytes at any place; `None` where they do not lie on the device.
    fn bytes(&mut self, offset_bytes: u64, len_bytes: usize) -> Result<Option<Vec<u8>>, IoError> {
        let Some(end) = offset_bytes.checked_add(len_bytes as u64).filter(|&end| end <= self.size_bytes) else {
            return Ok(None);
        };
        if end <= self.head.len() as u64 {
            return Ok(Some(self.head[offset_bytes as usize..end as usize].to_vec()));
        }
        Ok(Some(blocking::read_any(self.device, offset_bytes, len_bytes)?.to_vec()))
    }

    fn matches(&mut self, offset_bytes: u64, magic: &[u8]) -> Result<bool, IoError> {
        Ok(self.bytes(offset_bytes, magic.len())?.is_some_and(|bytes| bytes == magic))
    }

    fn report(&mut self, name: &'static str, offset_bytes: u64) {
        self.found.push(Signature { name, offset_bytes });
    }
}

/// Looks for everything known, in the order of offsets. The device must be idle. Nothing found means that all places
/// were read and none held anything known.
///
/// # Errors
/// The device's: a place that cannot be read is not a place that is empty.
pub fn detect(device: &mut dyn Device) -> Result<Vec<Signature>, IoError> {
    let size_bytes = device.geometry().size_bytes;
    let head_len = size_bytes.min(HEAD_BYTES) as usize;
    let head = if head_len == 0 { Vec::new() } else { blocking::read_any(device, 0, head_len)?.to_vec() };
    let mut probe = Probe { device, size_bytes, head, found: Vec::new() };
    for entry in table::FIXED {
        for &offset_bytes in entry.offsets_bytes {
            if probe.matches(offset_bytes, entry.magic)? {
                probe.report(entry.name, offset_bytes);
            }
        }
    }
    places::look(&mut probe)?;
    let mut found = probe.found;
    found.sort_unstable_by_key(|signature| (signature.offset_bytes, signature.name));
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests;
