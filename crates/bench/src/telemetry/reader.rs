//! Reads a telemetry file segment by segment, in whatever state it is: with bounded memory, and after damage from the next valid segment
//! on.

use super::error::TelemetryError;
use super::format::{BLOCK, FixedHeader, Footer, HEADER_MAGIC, Header, MAGIC_PREFIX, MAX_SEGMENT_BYTES, SegmentHeader};
use super::record::{RECORD_BYTES, Record};
use forebay_block::checksum::crc32c;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// Fewest bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// Most threads whose drops are remembered. Beyond that, the sum is a lower bound without the other threads.
const MAX_THREADS: usize = 65_536;
/// Bytes of damaged segments that may be checksummed in vain: this number, and four times the position. Beyond that, a damaged segment is
/// skipped as a whole, so that a hostile file of overlapping headers costs time only in proportion to its length.
const WASTE_MAX_BYTES: u64 = 64 << 20;

/// Records of one thread, in the order in which it made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Index among the file's segments, from 0; a gap means lost segments.
    pub sequence: u64,
    /// Index into [`Header::jobs`]; always valid.
    pub job: u32,
    /// Number of the thread within its job.
    pub thread: u32,
    /// Number of records that the thread had dropped before the first of these; the newest gap is directly before it.
    pub dropped_before: u64,
    /// The records, at least one.
    pub records: Vec<Record>,
}

impl Segment {
    /// Checks that all times and offsets fit into signed 64-bit columns, as tables have them.
    ///
    /// # Errors
    /// [`TelemetryError::Unrepresentable`] for the first value above 2^63 - 1.
    pub fn check_signed(&self) -> Result<(), TelemetryError> {
        for (index, record) in self.records.iter().enumerate() {
            for (what, value) in [
                ("intended_ns", record.intended_ns),
                ("submitted_ns", record.submitted_ns),
                ("completed_ns", record.completed_ns),
                ("offset_bytes", record.offset_bytes),
            ] {
                if i64::try_from(value).is_err() {
                    let sequence = self.sequence;
                    return Err(TelemetryError::Unrepresentable { sequence, index, what, value });
                }
            }
        }
        Ok(())
    }
}

/// The findings in a file; complete once [`Reader::next_segment`] has returned `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of valid segments.
    pub segments: u64,
    /// Number of records in valid segments.
    pub records: u64,
    /// Number of segments that are missing by sequence number or, at the end, by the footer.
    pub missing_segments: u64,
    /// Number of places where bytes before the last valid segment or footer were skipped.
    pub damaged_places: u64,
    /// Number of bytes skipped at these places.
    pub damaged_bytes: u64,
    /// Bytes after the last valid segment or footer, from a segment that a kill or a full disk has torn.
    pub torn_tail_bytes: u64,
    /// Number of dropped records: from the footer, or else a lower bound from the segments.
    pub dropped: u64,
    /// The footer. A file without one did not end normally, and more records may be missing.
    pub footer: Option<Footer>,
}

impl Summary {
    /// Whether the file holds everything that was written to it: there is a footer, nothing is damaged, nothing is missing. Records may
    /// have been dropped nevertheless.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged_bytes == 0
            && self.torn_tail_bytes == 0
            && self.missing_segments == 0
            && self.footer.is_some_and(|f| f.segments == self.segments && f.records == self.records)
    }
}

/// A streaming reader; needs at most about 16 MiB for any file.
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<R>,
    header: Header,
    segment: Segment,
    summary: Summary,
    next_sequence: u64,
    /// Number of bytes skipped since the last valid structure.
    skipped: u64,
    /// Number of bytes checksummed in vain.
    wasted: u64,
    /// Number of drops by thread.
    dropped: BTreeMap<(u32, u32), u64>,
}

/// What was found at the present position.
enum Found {
    Segment(SegmentHeader),
    Footer(Footer),
    Nothing { skip: usize },
    End,
}

impl Reader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file cannot be opened, or its header is not that of a telemetry file, of another version, or damaged.
    pub fn open(path: &Path) -> Result<Self, TelemetryError> {
        let file = File::open(path).map_err(|source| TelemetryError::Open { path: path.to_owned(), source })?;
        Self::new(file)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// As for [`Reader::open`].
    pub fn new(source: R) -> Result<Self, TelemetryError> {
        let mut window = Window { source, bytes: Vec::new(), start: 0, position: 0, is_at_end: false };
        let begin = window.peek(BLOCK)?;
        let fixed = match begin.first_chunk::<BLOCK>() {
            Some(fixed) => FixedHeader::decode(fixed)?,
            None if begin.starts_with(&HEADER_MAGIC) => {
                return Err(TelemetryError::HeaderDamaged { what: "cut off" });
            }
            None => return Err(TelemetryError::NotTelemetry),
        };
        window.skip(BLOCK);
        let body_bytes = fixed.body_bytes;
        let body = window.peek(body_bytes)?;
        let header = fixed.finish(&body[..body.len().min(body_bytes)])?;
        window.skip(body_bytes);
        Ok(Self {
            window,
            header,
            segment: Segment::default(),
            summary: Summary::default(),
            next_sequence: 0,
            skipped: 0,
            wasted: 0,
            dropped: BTreeMap::new(),
        })
    }

    /// The header of the file.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The findings so far.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The next valid segment; `None` at the end. Damage is skipped and reported by [`Reader::summary`].
    ///
    /// # Errors
    /// Reading the file fails.
    pub fn next_segment(&mut self) -> Result<Option<&Segment>, TelemetryError> {
        loop {
            match self.look()? {
                Found::Segment(header) => {
                    self.take(&header);
                    return Ok(Some(&self.segment));
                }
                Found::Footer(footer) => {
                    self.settle_damage();
                    self.window.skip(BLOCK);
                    let missing = footer.segments.saturating_sub(self.next_sequence);
                    self.summary.missing_segments = self.summary.missing_segments.saturating_add(missing);
                    self.summary.dropped = footer.dropped;
                    self.summary.footer = Some(footer);
                }
                Found::Nothing { skip } => {
                    self.window.skip(skip);
                    self.skipped += skip as u64;
                }
                Found::End => {
                    self.summary.torn_tail_bytes += std::mem::take(&mut self.skipped);
                    return Ok(None);
                }
            }
        }
    }

    /// Examines the present position; leaves the records of a segment in `self.segment`.
    fn look(&mut self) -> Result<Found, TelemetryError> {
        let position = self.window.position;
        let available = self.window.peek(BLOCK)?;
        if available.is_empty() {
            return Ok(Found::End);
        }
        // Nothing may follow a footer, and less than 64 bytes are no complete structure.
        let Some(block) = available.first_chunk::<BLOCK>().filter(|_| self.summary.footer.is_none()) else {
            return Ok(Found::Nothing { skip: available.len() });
        };
        if let Some(footer) = Footer::decode(block, &self.header) {
            return Ok(Found::Footer(footer));
        }
        let Some(header) = SegmentHeader::decode(block, &self.header) else {
            return Ok(Found::Nothing { skip: distance_to_magic(available) });
        };
        let wanted = header.segment_bytes();
        let available = self.window.peek(wanted)?;
        if let Some(payload) = available.get(BLOCK..wanted) {
            // A sequence number below the expected one belongs to a copy of a segment that was already read.
            let is_new = header.sequence >= self.next_sequence;
            if is_new && crc32c(payload) == header.payload_crc && decode_all(payload, &mut self.segment.records) {
                return Ok(Found::Segment(header));
            }
            self.wasted += wanted as u64;
            if self.wasted > WASTE_MAX_BYTES.saturating_add(position.saturating_mul(4)) {
                return Ok(Found::Nothing { skip: wanted });
            }
        }
        // Bytes may be missing within the segment, so the next one may begin before its announced end.
        Ok(Found::Nothing { skip: distance_to_magic(available) })
    }

    fn take(&mut self, header: &SegmentHeader) {
        self.settle_damage();
        self.window.skip(header.segment_bytes());
        self.segment.sequence = header.sequence;
        self.segment.job = header.job;
        self.segment.thread = header.thread;
        self.segment.dropped_before = header.dropped_before;
        let summary = &mut self.summary;
        summary.segments += 1;
        summary.records += u64::from(header.count);
        summary.missing_segments = summary.missing_segments.saturating_add(header.sequence - self.next_sequence);
        self.next_sequence = header.sequence.saturating_add(1);
        let key = (header.job, header.thread);
        if self.dropped.len() < MAX_THREADS || self.dropped.contains_key(&key) {
            let before = self.dropped.insert(key, header.dropped_before).unwrap_or(0);
            let more = header.dropped_before.saturating_sub(before);
            summary.dropped = summary.dropped.saturating_add(more);
        }
    }

    /// Counts the skipped bytes as damage, since something valid follows them.
    fn settle_damage(&mut self) {
        if self.skipped > 0 {
            self.summary.damaged_places += 1;
            self.summary.damaged_bytes += std::mem::take(&mut self.skipped);
        }
    }
}

/// Distance to the next position, after the first byte, where a magic number may begin.
fn distance_to_magic(bytes: &[u8]) -> usize {
    let [first, second, third] = MAGIC_PREFIX;
    let rest = bytes.get(1..).unwrap_or_default();
    let found = rest.windows(3).position(|w| w[0] == first && w[1] == second && w[2] == third);
    match found {
        Some(at) => 1 + at,
        // The last two bytes may be the beginning of one.
        None => rest.len().saturating_sub(1).max(1),
    }
}

/// False if a record is invalid in this version.
fn decode_all(payload: &[u8], records: &mut Vec<Record>) -> bool {
    let (chunks, rest) = payload.as_chunks::<RECORD_BYTES>();
    records.clear();
    records.extend(chunks.iter().map_while(Record::decode));
    rest.is_empty() && records.len() == chunks.len()
}

/// A sliding window over a source; holds at most the longest segment and one read.
#[derive(Debug)]
struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    /// Position of `start` in the source.
    position: u64,
    is_at_end: bool,
}

impl<R: Read> Window<R> {
    /// At least the next `wanted` bytes; fewer only at the end of the source. Memory is allocated as bytes arrive, not by what a header
    /// promises.
    fn peek(&mut self, wanted: usize) -> Result<&[u8], TelemetryError> {
        debug_assert!(wanted <= 2 * MAX_SEGMENT_BYTES, "callers check lengths first");
        while self.bytes.len() - self.start < wanted && !self.is_at_end {
            if self.start > 0 {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            let filled = self.bytes.len();
            let room = READ_BYTES.max(filled).min(2 * MAX_SEGMENT_BYTES);
            self.bytes.resize(filled + room, 0);
            let read = loop {
                match self.source.read(&mut self.bytes[filled..]) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    other => break other,
                }
            };
            let read_bytes = *read.as_ref().unwrap_or(&0);
            self.bytes.truncate(filled + read_bytes);
            if let Err(source) = read {
                return Err(TelemetryError::Read { at_bytes: self.position + filled as u64, source });
            }
            self.is_at_end = read_bytes == 0;
        }
        Ok(&self.bytes[self.start..])
    }

    /// Advances over bytes that were examined.
    fn skip(&mut self, count: usize) {
        let count = count.min(self.bytes.len() - self.start);
        self.start += count;
        self.position += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::format::{MAX_SEGMENT_RECORDS, SEGMENT_MAGIC};

    fn run() -> Header {
        Header { run_id: [7; 16], begin_unix_ns: 1, jobs: vec!["a".to_owned()], metadata: "{}".to_owned() }
    }

    fn largest(sequence: u64) -> SegmentHeader {
        SegmentHeader {
            payload_crc: 0,
            sequence,
            job: 0,
            thread: 0,
            count: MAX_SEGMENT_RECORDS,
            dropped_before: 0,
            run_id: run().run_id,
        }
    }

    #[test]
    fn overlapping_headers_cost_time_and_memory_within_bounds() {
        // Every 64 bytes there is a valid header that announces 2.6 MB; the data is there but does not match its checksum.
        let mut file = run().encode().unwrap();
        for sequence in 0..64 * 1024 {
            file.extend_from_slice(&largest(sequence).encode());
        }
        let mut reader = Reader::new(&file[..]).unwrap();
        while reader.next_segment().unwrap().is_some() {}
        assert_eq!(reader.summary().segments, 0);
        assert!(reader.wasted > WASTE_MAX_BYTES, "the file does not reach the bound");
        assert!(reader.wasted <= WASTE_MAX_BYTES + 5 * file.len() as u64 + 2 * MAX_SEGMENT_BYTES as u64);
        assert!(reader.window.bytes.capacity() <= 16 << 20, "{}", reader.window.bytes.capacity());
    }

    #[test]
    fn a_promise_alone_allocates_nothing() {
        let mut file = run().encode().unwrap();
        file.extend_from_slice(&largest(0).encode());
        let mut reader = Reader::new(&file[..]).unwrap();
        assert!(reader.next_segment().unwrap().is_none());
        assert_eq!(reader.summary().torn_tail_bytes, 64);
        assert!(reader.window.bytes.capacity() <= 1 << 20);
    }

    #[test]
    fn the_search_stops_at_every_place_where_a_magic_number_may_begin() {
        let mut bytes = vec![b'F'; 100];
        assert_eq!(distance_to_magic(&bytes), 98);
        bytes[40..48].copy_from_slice(&SEGMENT_MAGIC);
        assert_eq!(distance_to_magic(&bytes), 40);
        assert_eq!(distance_to_magic(&bytes[40..]), 58);
        for cut in 41..43 {
            assert_eq!(distance_to_magic(&bytes[..cut]), cut - 2);
        }
    }
}
