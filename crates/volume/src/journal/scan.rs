//! Reading the journal back: batches in order, with the gaps between them.

use super::JournalGeometry;
use crate::io::Devices;
use crate::layout::Id;
use crate::layout::batch::{self, BATCH_MAX_BYTES, BatchHeader};
use crate::layout::record::Record;
use forebay_block::{Buf, IoError, Op};
use std::collections::BTreeMap;
use std::ops::Range;

const CHUNK_BYTES: u64 = 1 << 20;
/// Reads of single sectors that may fail before a chunk that cannot be read at once counts as unreadable as a whole. With more failures it is not a
/// medium that has worn in places, and each attempt may take a drive seconds.
const FAILED_READS_MAX: usize = 128;

/// Reads the ring by chunks, and each chunk several times.
struct Ring<'a> {
    devices: &'a mut Devices,
    geometry: JournalGeometry,
    /// The chunk by number of reading, each of another copy where there are several. A batch that is missed counts as one that was never written:
    /// neither one bad transfer nor one bad copy must decide that.
    chunks: Vec<Buf>,
    /// Position of the chunk's first byte, and its length.
    at: u64,
    len_bytes: u64,
    /// Sectors that could not be read, by position: in which readings, one bit for each, and why. They read as zeros.
    unread: BTreeMap<u64, (u64, IoError)>,
    /// Reads of single sectors that failed.
    failed_reads: usize,
}

impl Ring<'_> {
    /// How often a chunk is read.
    fn reads(&self) -> usize {
        usize::from(self.devices.copies().max(2))
    }

    /// Reads one copy by itself, where there are several: where a sector of it cannot be read, another copy must not answer for everything around that.
    fn read_of(&mut self, offset_bytes: u64, len_bytes: usize, read: u8) -> Result<Result<Buf, IoError>, IoError> {
        if self.devices.copies() > 1
            && let Ok(read) = self.devices.read_one_of(0, offset_bytes, len_bytes, read | Op::ALONE)
        {
            return Ok(read);
        }
        // Also where the copy that was asked is away.
        self.devices.read_one_of(0, offset_bytes, len_bytes, read)
    }

    /// Bytes from `position` on, of the reading with this number: at least a batch's worth, where the lap has as many. Empty where the reading gave the
    /// same as the first.
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
            let chunk = match self.read_of(offset_bytes, self.len_bytes as usize, attempt)? {
                Ok(chunk) => chunk,
                Err(error) => self.by_sectors(offset_bytes, attempt, &error)?,
            };
            let is_known = self.chunks.first().is_some_and(|first| first[..] == chunk[..]);
            self.chunks.push(if is_known { Buf::empty() } else { chunk });
        }
        Ok(self.chunks[read].get((position - self.at) as usize..).unwrap_or_default())
    }

    /// Reads the chunk sector by sector, without the sectors that cannot be read. `of_all`: the error of reading it at once.
    fn by_sectors(&mut self, offset_bytes: u64, attempt: u8, of_all: &IoError) -> Result<Buf, IoError> {
        let sector_bytes = self.geometry.sector_bytes as usize;
        let mut chunk = Buf::zeroed(self.len_bytes as usize);
        for (sector, place) in (0u64..).zip(chunk.chunks_exact_mut(sector_bytes)) {
            let within_bytes = sector * self.geometry.sector_bytes;
            let read = if self.failed_reads < FAILED_READS_MAX {
                // Another copy may answer for a single sector: what lies around it is still of this one.
                self.devices.read_one_of(0, offset_bytes + within_bytes, sector_bytes, attempt)?
            } else {
                Err(of_all.clone())
            };
            match read {
                Ok(bytes) => place.copy_from_slice(&bytes),
                Err(error) => {
                    self.failed_reads += 1;
                    self.unread.entry(self.at + within_bytes).or_insert((0, error)).0 |= 1 << (attempt & 63);
                }
            }
        }
        Ok(chunk)
    }

    /// Why it is not known whether there is a batch between these positions: the error of a sector that no reading gave.
    fn unread_in(&self, positions: Range<u64>) -> Option<IoError> {
        let all = (1u64 << self.reads().min(63)) - 1;
        let mut sectors = self.unread.range(positions);
        sectors.find(|(_, (reads, _))| reads & all == all).map(|(_, (_, error))| error.clone())
    }
}

/// Where a scan starts, and the batches of which epoch it believes.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanEnd {
    /// Position behind the last batch.
    pub position: u64,
    /// Number after the last batch.
    pub batch: u64,
    /// Why something could not be read that may be a durable batch: behind the last batch, within the window, or before it where batches are missing.
    pub unread: Option<IoError>,
}

/// Calls `visit` with the bytes of each batch, its header and its records, in order; batches that are missing in between show by the numbers.
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
    let mut ring =
        Ring { devices, geometry, chunks: Vec::new(), at: 0, len_bytes: 0, unread: BTreeMap::new(), failed_reads: 0 };
    let mut end = ScanEnd { position: start.position, batch: start.batch, unread: None };
    let mut position = start.position;
    let mut unread = None;
    // The batch after the last one found may lie anywhere in the window, also beyond the end of the lap.
    while position < end.position + geometry.window_bytes() + BATCH_MAX_BYTES as u64
        && position < start.position + geometry.len_bytes
    {
        let mut found = false;
        for read in 0..ring.reads() {
            let bytes = ring.bytes(position, read)?;
            let plausible = batch::peek(bytes, pool).is_some_and(|header| {
                // Each missing batch takes a sector at least, so that a number cannot claim more.
                let missing_max = (position - end.position) / geometry.sector_bytes;
                header.position == position
                    && header.batch >= end.batch
                    && header.batch - end.batch <= missing_max
                    && header.epoch == start.epoch
                    && u64::from(header.len_bytes).is_multiple_of(geometry.sector_bytes)
            });
            if plausible && let Some((header, records)) = batch::decode_batch(bytes, pool) {
                if header.batch > end.batch {
                    unread = unread.or_else(|| ring.unread_in(end.position..position));
                }
                let at = (position - ring.at) as usize;
                let bytes = &ring.chunks[read][at..at + header.len_bytes as usize];
                visit(ring.devices, bytes, header, records)?;
                position += u64::from(header.len_bytes);
                end = ScanEnd { position, batch: header.batch + 1, unread: None };
                found = true;
                break;
            }
        }
        if !found {
            position += geometry.sector_bytes;
        }
    }
    // Far behind it as well: a durable write goes past caches, and is there after a power cut although batches before it are not.
    end.unread = unread.or_else(|| ring.unread_in(end.position..position));
    Ok(end)
}
