//! Recognises the content of a device, so that nothing is formatted over by accident.
//!
//! Offsets and magics are those of libblkid (util-linux 2.43, `libblkid/src/superblocks/*.c` and
//! `libblkid/src/partitions/*.c`), checked one by one; other sources are named beside their entries. Unlike libblkid
//! this looks for *any* trace: it verifies no checksums, and one finding does not hide another, because a false alarm
//! costs a question and a miss costs data.

mod content;
mod places;
mod probe;
mod table;

pub use content::{FileContent, file_content, first_content};
pub use probe::Signature;

use crate::blocking;
use forebay_block::{BLOCK_BYTES_U64 as BLOCK_BYTES, Buf, Device, IoError, IoErrorKind};
use probe::{Probe, Read};

/// Bytes at the start of the device that hold most magics; one read covers them all.
const HEAD_BYTES: u64 = 68 << 10;
/// Most unreadable blocks that are tolerated: each may take a drive many seconds.
const UNREADABLE_MAX: u32 = 16;

/// All known signatures on a device, in order of their offsets. The device must be idle. An empty list means that all
/// places were read and none held a known magic.
///
/// # Errors
/// The device's: a block that cannot be read must not count as empty.
pub fn detect(device: &mut dyn Device) -> Result<Vec<Signature>, IoError> {
    let size_bytes = device.geometry().size_bytes;
    look(size_bytes, &mut |offset_bytes, len_bytes| blocking::read_any(device, offset_bytes, len_bytes))
}

/// As [`detect`], for a device with some unreadable blocks, whose content stays unknown. The first read error is
/// returned beside the signatures.
///
/// # Errors
/// The device's, where it is gone or has too many unreadable blocks.
pub fn detect_where_readable(device: &mut dyn Device) -> Result<(Vec<Signature>, Option<IoError>), IoError> {
    let size_bytes = device.geometry().size_bytes;
    let mut left = UNREADABLE_MAX;
    let mut first = None;
    let found = look(size_bytes, &mut |offset_bytes, len_bytes| {
        match blocking::read_any(device, offset_bytes, len_bytes) {
            Err(error) if error.kind == IoErrorKind::Medium => {}
            read => return read,
        }
        // Reads block by block, so that an unreadable block does not hide the others.
        let mut bytes = vec![0; len_bytes];
        let end = offset_bytes + len_bytes as u64;
        let mut at = offset_bytes;
        while at < end {
            let next = (at / BLOCK_BYTES + 1).saturating_mul(BLOCK_BYTES).min(end);
            let within = (at - offset_bytes) as usize..(next - offset_bytes) as usize;
            match blocking::read_any(device, at, within.len()) {
                Ok(block) => bytes[within].copy_from_slice(&block),
                Err(error) if error.kind == IoErrorKind::Medium && left > 0 => {
                    left -= 1;
                    first.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
            at = next;
        }
        Ok(Buf::copy_of(&bytes).freeze())
    })?;
    Ok((found, first))
}

fn look(size_bytes: u64, read: &mut Read<'_>) -> Result<Vec<Signature>, IoError> {
    let head_len = size_bytes.min(HEAD_BYTES) as usize;
    let head = if head_len == 0 { Vec::new() } else { read(0, head_len)?.to_vec() };
    let mut probe = Probe { read, size_bytes, head, found: Vec::new() };
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
