//! What already lies on a device, so that nothing is formatted over by accident.
//!
//! Offsets and magics are those of libblkid (util-linux 2.43, `libblkid/src/superblocks/*.c` and
//! `libblkid/src/partitions/*.c`), checked there one by one; other sources are named beside their entries. Unlike
//! libblkid this looks for *any* trace: it does not verify checksums and does not let one finding hide another, because
//! a false alarm costs a question and a miss costs data.

mod content;
mod places;
mod probe;
mod table;

pub use content::{FileContent, file_content, first_content};
pub use probe::Signature;

use crate::blocking;
use forebay_block::{Device, IoError};
use probe::Probe;

/// Bytes at the start of the device within which most magics lie; one read serves them all.
const HEAD_BYTES: u64 = 68 << 10;

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
