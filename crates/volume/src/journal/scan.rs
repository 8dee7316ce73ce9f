//! Reading the journal back: batches in order, with the gaps between them.

use super::JournalGeometry;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::batch::{self, BATCH_MAX_BYTES, BatchHeader};
use crate::layout::record::Record;
use forebay_block::{Buf, IoError};

const CHUNK_BYTES: u64 = 1 << 20;

/// Reads the ring through one chunk of memory for each time that it is read.
struct Ring<'a> {
    devices: &'a mut Devices,
    geometry: JournalGeometry,
    /// The chunk as it was read first, and then again: of another copy each time where there are several. A batch that is missed is
    /// taken for one that was never written: neither one bad transfer nor one bad copy must decide that.
    chunks: Vec<Buf>,
    /// Position of the chunk's first byte, and its length.
    at: u64,
    len_bytes: u64,
}

impl Ring<'_> {
    /// How often a chunk is read.
    fn reads(&self) -> usize {
        usize::from(self.devices.copies().max(2))
    }

    /// Bytes from `position` on, at least a batch's worth where the lap has them, of the read with this number; none where that says
    /// the same as the first.
    fn bytes(&mut self, position: u64, read: usize) -> Result<&[u8], IoError> {
        let lap_left = self.geometry.len_bytes - position % self.geometry.len_bytes;
        let wanted = lap_left.min(BATCH_MAX_BYTES as u64);
        if self.at > position || position + wanted > self.at + self.len_bytes {
            let sector = self.geometry.sector_bytes;
            self.at = position / sector * sector;
            let lap_left = self.geometry.len_bytes - self.at % self.geometry.len_bytes;
            self.len_bytes = CHUNK_BYTES.min(lap_left);
            self.chunks.clear();
        }
        while self.chunks.len() <= read {
            let offset_bytes = self.geometry.offset_bytes + self.at % self.geometry.len_bytes;
            let attempt = self.chunks.len() as u8;
            let chunk = self.devices.read_copy(0, offset_bytes, self.len_bytes as usize, attempt)?;
            let is_known = self.chunks.first().is_some_and(|first| first[..] == chunk[..]);
            self.chunks.push(if is_known { Buf::empty() } else { chunk });
        }
        Ok(self.chunks[read].get((position - self.at) as usize..).unwrap_or_default())
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
    let mut ring = Ring { devices, geometry, chunks: Vec::new(), at: 0, len_bytes: 0 };
    let mut end = ScanEnd { position: start.position, batch: start.batch };
    let mut position = start.position;
    // The batch after the last one found may lie anywhere in the window, also beyond the end of the lap.
    while position < end.position + geometry.window_bytes() + BATCH_MAX_BYTES as u64
        && position < start.position + geometry.len_bytes
    {
        let mut found = false;
        for read in 0..ring.reads() {
            let bytes = ring.bytes(position, read)?;
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
                let bytes = &ring.chunks[read][at..at + header.len_bytes as usize];
                visit(ring.devices, bytes, header, records)?;
                position += u64::from(header.len_bytes);
                end = ScanEnd { position, batch: header.batch + 1 };
                found = true;
                break;
            }
        }
        if !found {
            position += geometry.sector_bytes;
        }
    }
    Ok(end)
}
