//! The root: everything a checkpoint fixes, and the header that makes it valid.

use super::Id;
use super::band_summary::SummaryEntry;
use super::codec::{Reader, Writer};
use super::page::PageRef;
use super::{is_sealed, seal};
use forebay_block::DiskId;
use forebay_block::checksum::crc32c;
use forebay_prism::ClassStats;

const MAGIC: [u8; 4] = *b"FBRT";
/// Size of a header block in bytes.
pub const HEADER_BYTES: usize = 4096;

/// Header of a root area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootHeader {
    /// Checkpoint number, consecutive.
    pub checkpoint: u64,
    /// Epoch of the journal that follows.
    pub epoch: u64,
    /// Length of the blob in bytes.
    pub blob_len_bytes: u64,
    /// CRC of the blob.
    pub blob_crc: u32,
    /// 0, or the checkpoint that made this one invalid.
    pub superseded_by: u64,
    /// What the index says of blocks to be destaged may be from before a class changed its place.
    pub counts_due: bool,
}

impl RootHeader {
    /// Encodes one header block.
    #[must_use]
    pub fn encode(&self, pool: &Id) -> Vec<u8> {
        let mut w = Writer::default();
        w.bytes.extend_from_slice(&MAGIC);
        w.u32(0);
        w.bytes.extend_from_slice(pool);
        w.u64(self.checkpoint);
        w.u64(self.epoch);
        w.u64(self.blob_len_bytes);
        w.u32(self.blob_crc);
        w.u64(self.superseded_by);
        w.u8(u8::from(self.counts_due));
        w.bytes.resize(HEADER_BYTES, 0);
        seal(&mut w.bytes);
        w.bytes
    }

    /// Decodes a header of this pool.
    #[must_use]
    pub fn decode(bytes: &[u8], pool: &Id) -> Option<Self> {
        if !is_sealed(bytes, MAGIC) {
            return None;
        }
        let mut r = Reader::new(&bytes[8..]);
        if r.id()? != *pool {
            return None;
        }
        Some(Self {
            checkpoint: r.u64()?,
            epoch: r.u64()?,
            blob_len_bytes: r.u64()?,
            blob_crc: r.u32()?,
            superseded_by: r.u64()?,
            counts_due: r.u8()? != 0,
        })
    }
}

/// A disk as the root has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskRoot {
    /// Id.
    pub id: u16,
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Index pages that exist, by number.
    pub pages: Vec<(u32, PageRef)>,
}

impl DiskRoot {
    /// The disk's id.
    #[must_use]
    pub fn disk(&self) -> DiskId {
        DiskId(self.id)
    }
}

/// State of a band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BandState {
    /// May be opened.
    #[default]
    Free,
    /// Being written.
    Open,
    /// Full, with its summary at the end.
    Closed,
}

/// A band as the root has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandRoot {
    /// State.
    pub state: BandState,
    /// Stream written into it.
    pub stream: u8,
    /// Blocks that the map still names.
    pub valid: u32,
    /// Blocks written.
    pub written: u32,
    /// Counts openings.
    pub generation: u32,
    /// Band clock when it was closed: its age in bands.
    pub closed_at: u64,
}

/// Everything a checkpoint fixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Root {
    /// Position where the journal to replay starts.
    pub journal_position: u64,
    /// Number of the first batch expected there.
    pub journal_batch: u64,
    /// Sequences below this one are in the map, except `unapplied`.
    pub next_sequence: u64,
    /// Sequences below `next_sequence` that were under way.
    pub unapplied: Vec<u64>,
    /// Nothing follows in the journal: a clean stop.
    pub clean: bool,
    /// Checkpoint generation of the pages.
    pub generation: u32,
    /// Disks.
    pub disks: Vec<DiskRoot>,
    /// Next disk id to hand out.
    pub next_disk: u16,
    /// Encoded class table.
    pub classes: Vec<u8>,
    /// Books by class.
    pub stats: Vec<ClassStats>,
    /// Saved evidence of the classifier.
    pub evidence: Vec<u8>,
    /// Counts bands closed.
    pub band_clock: u64,
    /// Bands.
    pub bands: Vec<BandRoot>,
    /// Summaries of bands whose summary is not yet on the device.
    pub summaries: Vec<(u32, Vec<SummaryEntry>)>,
    /// Slot bitmap, a set bit is in use.
    pub slots: Vec<u64>,
}

fn put_ref(w: &mut Writer, reference: &PageRef) {
    w.u64(reference.location);
    w.u32(reference.crc);
    w.u32(reference.generation);
}

impl Root {
    /// Upper bound of the encoded size in bytes.
    #[must_use]
    pub fn size_bound_bytes(slots: u64, bands: u64, band_data_blocks: u64, index_pages: u64) -> u64 {
        // Fixed parts, class table (280 KiB at most), evidence (64 KiB), books; slots one bit; bands 28 bytes; a summary of 24 bytes a block for each band
        // that may be open or closing; directory 20 bytes.
        let summaries = bands.min(super::super::space::bands::UNSUMMARISED_MAX as u64) * (band_data_blocks * 24 + 16);
        384 * 1024 + slots / 8 + 64 + bands * 28 + summaries + index_pages * 20
    }

    /// Encodes the blob.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.bytes.reserve(self.slots.len() * 8 + self.bands.len() * 28 + 65536);
        w.u64(self.journal_position);
        w.u64(self.journal_batch);
        w.u64(self.next_sequence);
        w.u32(self.unapplied.len() as u32);
        for sequence in &self.unapplied {
            w.u64(*sequence);
        }
        w.u8(u8::from(self.clean));
        w.u32(self.generation);
        w.u16(self.disks.len() as u16);
        for disk in &self.disks {
            w.u16(disk.id);
            w.blob(disk.name.as_bytes());
            w.u64(disk.size_bytes);
            w.u32(disk.pages.len() as u32);
            for (number, reference) in &disk.pages {
                w.u32(*number);
                put_ref(&mut w, reference);
            }
        }
        w.u16(self.next_disk);
        w.blob(&self.classes);
        w.u16(self.stats.len() as u16);
        for s in &self.stats {
            for value in [
                s.host_written_bytes,
                s.bypassed_bytes,
                s.destaged_bytes,
                s.collected_bytes,
                s.host_read_bytes,
                s.fast_read_bytes,
                s.fast_blocks,
                s.capacity_blocks,
            ] {
                w.u64(value);
            }
        }
        w.blob(&self.evidence);
        w.u64(self.band_clock);
        w.u32(self.bands.len() as u32);
        for band in &self.bands {
            w.u8(band.state as u8);
            w.u8(band.stream);
            w.u16(0);
            w.u32(band.valid);
            w.u32(band.written);
            w.u32(band.generation);
            w.u64(band.closed_at);
        }
        w.u32(self.summaries.len() as u32);
        for (band, entries) in &self.summaries {
            w.u32(*band);
            w.u32(entries.len() as u32);
            for entry in entries {
                entry.put(&mut w);
            }
        }
        w.u64(self.slots.len() as u64);
        for word in &self.slots {
            w.u64(*word);
        }
        for s in &self.stats {
            w.u64(s.reclassed_in_bytes);
            w.u64(s.reclassed_out_bytes);
        }
        w.bytes
    }

    /// Decodes a blob; `None` where it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader::new(bytes);
        let mut root =
            Self { journal_position: r.u64()?, journal_batch: r.u64()?, next_sequence: r.u64()?, ..Self::default() };
        for _ in 0..r.u32()? {
            root.unapplied.push(r.u64()?);
        }
        root.clean = r.u8()? != 0;
        root.generation = r.u32()?;
        for _ in 0..r.u16()? {
            let mut disk = DiskRoot { id: r.u16()?, ..DiskRoot::default() };
            disk.name = String::from_utf8(r.blob()?.to_vec()).ok()?;
            disk.size_bytes = r.u64()?;
            for _ in 0..r.u32()? {
                let number = r.u32()?;
                let reference = PageRef { location: r.u64()?, stageable: 0, crc: r.u32()?, generation: r.u32()? };
                disk.pages.push((number, reference));
            }
            root.disks.push(disk);
        }
        root.next_disk = r.u16()?;
        root.classes = r.blob()?.to_vec();
        for _ in 0..r.u16()? {
            root.stats.push(ClassStats {
                host_written_bytes: r.u64()?,
                bypassed_bytes: r.u64()?,
                destaged_bytes: r.u64()?,
                collected_bytes: r.u64()?,
                host_read_bytes: r.u64()?,
                fast_read_bytes: r.u64()?,
                fast_blocks: r.u64()?,
                capacity_blocks: r.u64()?,
                ..ClassStats::default()
            });
        }
        root.evidence = r.blob()?.to_vec();
        root.band_clock = r.u64()?;
        for _ in 0..r.u32()? {
            let state = match r.u8()? {
                0 => BandState::Free,
                1 => BandState::Open,
                2 => BandState::Closed,
                _ => return None,
            };
            let stream = r.u8()?;
            r.u16()?;
            root.bands.push(BandRoot {
                state,
                stream,
                valid: r.u32()?,
                written: r.u32()?,
                generation: r.u32()?,
                closed_at: r.u64()?,
            });
        }
        for _ in 0..r.u32()? {
            let band = r.u32()?;
            let mut entries = Vec::new();
            for _ in 0..r.u32()? {
                entries.push(SummaryEntry::take(&mut r)?);
            }
            root.summaries.push((band, entries));
        }
        for _ in 0..r.u64()? {
            root.slots.push(r.u64()?);
        }
        // Pools made before classes could change end here.
        if r.remaining() > 0 {
            for stats in &mut root.stats {
                stats.reclassed_in_bytes = r.u64()?;
                stats.reclassed_out_bytes = r.u64()?;
            }
        }
        (r.remaining() == 0).then_some(root)
    }

    /// Header for this root's encoded blob.
    #[must_use]
    pub fn header(blob: &[u8], checkpoint: u64, epoch: u64, counts_due: bool) -> RootHeader {
        let (blob_len_bytes, blob_crc) = (blob.len() as u64, crc32c(blob));
        RootHeader { checkpoint, epoch, blob_len_bytes, blob_crc, superseded_by: 0, counts_due }
    }
}
