//! Descriptor chains of a split virtqueue (Virtual I/O Device, 2.7.5 and 2.7.5.3). All of it comes from the guest and
//! may change while it is read, so each descriptor is read once.

use thiserror::Error;
use vm_memory::{Bytes, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

/// Most descriptors in one chain, including indirect tables.
pub const DESCRIPTORS_MAX: usize = 1024;
/// `VIRTQ_DESC_F_NEXT`, `_WRITE`, `_INDIRECT`.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;
/// Length of a descriptor.
const DESCRIPTOR_BYTES: u64 = 16;

/// The reason why a ring cannot be used any further: the guest's driver is broken, or the guest is hostile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ChainError {
    /// The chain has a loop or is too long.
    #[error("a chain of descriptors has a loop, or is longer than {DESCRIPTORS_MAX}")]
    Endless,
    /// A descriptor leads out of its table.
    #[error("a descriptor {0} lies beyond its table")]
    BeyondTable(u16),
    /// The table is not in mapped memory.
    #[error("a table of descriptors is not in the guest's memory")]
    TableNotMapped,
    /// An indirect table inside another one, or with an invalid length.
    #[error("an indirect table of descriptors is malformed")]
    Indirect,
    /// A readable descriptor follows a writable one.
    #[error("a descriptor to be read follows one to be written")]
    Order,
    /// There is no room for the header or status that every request has.
    #[error("a request has no header, or no room for its status")]
    NoFrame,
}

/// A range of the guest's memory, which may lie outside the mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the guest.
    pub address: u64,
    /// Length in bytes.
    pub len: u32,
}

impl Segment {
    /// Whether the whole range is mapped.
    pub fn is_mapped(&self, memory: &GuestMemoryMmap) -> bool {
        memory.check_range(GuestAddress(self.address), self.len as usize, Permissions::ReadWrite)
    }
}

/// Total length in bytes.
pub fn len_bytes(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

/// A chain after parsing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Ranges that the device reads.
    pub readable: Vec<Segment>,
    /// Ranges that the device writes.
    pub writable: Vec<Segment>,
}

/// Parses the chain that begins at `head`.
pub fn read_chain(memory: &GuestMemoryMmap, table: u64, size: u16, head: u16) -> Result<Chain, ChainError> {
    let (mut table, mut size, mut index) = (table, size, head);
    let mut is_indirect = false;
    let mut chain = Chain::default();
    for _ in 0..DESCRIPTORS_MAX {
        if index >= size {
            return Err(ChainError::BeyondTable(index));
        }
        let at = table.checked_add(u64::from(index) * DESCRIPTOR_BYTES).ok_or(ChainError::TableNotMapped)?;
        // `struct virtq_desc`: address, length, flags, index of the next descriptor.
        let mut raw = [0; DESCRIPTOR_BYTES as usize];
        memory.read_slice(&mut raw, GuestAddress(at)).map_err(|_| ChainError::TableNotMapped)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = raw;
        let address = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let len = u32::from_le_bytes([i, j, k, l]);
        let (flags, next) = (u16::from_le_bytes([m, n]), u16::from_le_bytes([o, p]));
        if flags & INDIRECT != 0 {
            let count = u64::from(len) / DESCRIPTOR_BYTES;
            let is_table = u64::from(len).is_multiple_of(DESCRIPTOR_BYTES) && count > 0;
            // "The driver MUST NOT set both VIRTQ_DESC_F_INDIRECT and VIRTQ_DESC_F_NEXT".
            if is_indirect || !is_table || flags & NEXT != 0 || count > DESCRIPTORS_MAX as u64 {
                return Err(ChainError::Indirect);
            }
            (table, size, index, is_indirect) = (address, count as u16, 0, true);
            continue;
        }
        let segment = Segment { address, len };
        if flags & WRITE != 0 {
            chain.writable.push(segment);
        } else if chain.writable.is_empty() {
            chain.readable.push(segment);
        } else {
            return Err(ChainError::Order);
        }
        if flags & NEXT == 0 {
            return Ok(chain);
        }
        index = next;
    }
    Err(ChainError::Endless)
}

/// Removes and reads the first bytes, across segments; `None` where there are fewer.
pub fn take_first(memory: &GuestMemoryMmap, segments: &mut Vec<Segment>, bytes: &mut [u8]) -> Option<()> {
    let mut done = 0;
    while done < bytes.len() {
        let segment = segments.first_mut()?;
        let part = (bytes.len() - done).min(segment.len as usize);
        memory.read_slice(&mut bytes[done..done + part], GuestAddress(segment.address)).ok()?;
        done += part;
        segment.address = segment.address.checked_add(part as u64)?;
        segment.len -= part as u32;
        if segment.len == 0 {
            segments.remove(0);
        }
    }
    Some(())
}

/// Removes the last byte, and returns its address; `None` where there is none.
pub fn take_last(segments: &mut Vec<Segment>) -> Option<u64> {
    loop {
        let segment = segments.last_mut()?;
        if let Some(len) = segment.len.checked_sub(1) {
            segment.len = len;
            return segment.address.checked_add(u64::from(len));
        }
        segments.pop();
    }
}
