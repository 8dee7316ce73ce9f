//! Reading the journal back: batches in order, with the gaps between them.

use super::JournalGeometry;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::batch::{self, BATCH_MAX_BYTES, BatchHeader};
use crate::layout::record::Record;
use forebay_block::{Buf, IoError};

const CHUNK_BYTES: u64 = 1 << 20;

/// Reads the ring through one chunk of memory.
struct Ring<'a> {
    devices: &'a mut Devices,
    geometry: JournalGeometry,
    chunk: Buf,
    /// Position of the chunk's first byte.
    at: u64,
    /// The chunk was read for the second time.
    is_again: bool,
}

impl Ring<'_> {
    /// Bytes from `position` on, at least a batch's worth where the lap has them.
    fn bytes(&mut self, position: u64) -> Result<&[u8], IoError> {
        let lap_left = self.geometry.len_bytes - position % self.geometry.len_bytes;
        let wanted = lap_left.min(BATCH_MAX_BYTES as u64);
        let have = self.at <= position && position + wanted <= self.at + self.chunk.len() as u64;
        if !have {
            let sector = self.geometry.sector_bytes;
            let start = position / sector * sector;
            let lap_left = self.geometry.len_bytes - start % self.geometry.len_bytes;
            let len = CHUNK_BYTES.min(lap_left);
            let offset_bytes = self.geometry.offset_bytes + start % self.geometry.len_bytes;
            self.chunk = self.devices.read(0, offset_bytes, len as usize)?;
            self.at = start;
            self.is_again = false;
        }
        Ok(&self.chunk[(position - self.at) as usize..])
    }

    /// Reads the chunk once more, where that was not done yet; true where it holds something else now. A batch that is
    /// missed is taken for one that was never written: one bad transfer must not decide that.
    fn has_changed(&mut self) -> Result<bool, IoError> {
        if std::mem::replace(&mut self.is_again, true) {
            return Ok(false);
        }
        let offset_bytes = self.geometry.offset_bytes + self.at % self.geometry.len_bytes;
        let again = self.devices.read(0, offset_bytes, self.chunk.len())?;
        let has_changed = again[..] != self.chunk[..];
        self.chunk = again;
        Ok(has_changed)
    }
}

/// Where a scan starts and what it believes.
#[derive(Clone, Copy, Debug)]
pub struct ScanStart {
    /// Position.
    pub position: u64,
    /// Number of the first batch.
    pub batch: u64,
    /// Only batches of this epoch count.
    pub epoch: u64,
}

/// Where a scan ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanEnd {
    /// Position behind the last batch.
    pub position: u64,
    /// Number after the last batch.
    pub batch: u64,
}

/// Calls `visit` with the bytes of each batch and what they say, in order; batches missing between two are seen by their numbers.
///
/// # Errors
/// The device's failure.
pub fn scan(
    devices: &mut Devices,
    geometry: JournalGeometry,
    pool: &Id,
    start: ScanStart,
    mut visit: impl FnMut(&mut Devices, &[u8], BatchHeader, Vec<Record>) -> Result<(), IoError>,
) -> Result<ScanEnd, IoError> {
    let mut ring = Ring { devices, geometry, chunk: Buf::empty(), at: 0, is_again: false };
    let mut end = ScanEnd { position: start.position, batch: start.batch };
    let mut position = start.position;
    // The batch after the last one found may lie anywhere in the window, also beyond the end of the lap.
    while position < end.position + geometry.window_bytes() + BATCH_MAX_BYTES as u64
        && position < start.position + geometry.len_bytes
    {
        let bytes = ring.bytes(position)?;
        let plausible = batch::peek(bytes, pool).is_some_and(|header| {
            // Each batch that is missing before it takes a sector at least: a number cannot claim more.
            let missing_max = (position - end.position) / geometry.sector_bytes;
            header.position == position
                && header.batch >= end.batch
                && header.batch - end.batch <= missing_max
                && header.epoch == start.epoch
                && u64::from(header.len_bytes).is_multiple_of(geometry.sector_bytes)
        });
        if plausible && let Some((header, records)) = batch::decode_batch(bytes, pool) {
            let at = (position - ring.at) as usize;
            visit(ring.devices, &ring.chunk[at..at + header.len_bytes as usize], header, records)?;
            position += u64::from(header.len_bytes);
            end = ScanEnd { position, batch: header.batch + 1 };
        } else if !ring.has_changed()? {
            position += geometry.sector_bytes;
        }
    }
    Ok(end)
}
