//! Writing a capture file.

use super::layout::{
    Captured, Footer, Header, Kind, NAME_BYTES_MAX, Name, PAYLOAD_BYTES_MAX, RECORD_BYTES, SEGMENT_ITEMS_MAX,
    SegmentHeader,
};
use forebay_block::checksum::crc32c;
use std::io::{self, Write};

/// Longest encoding of a name, in bytes.
const NAME_ENCODED_MAX: usize = 1 + 17 + 2 + NAME_BYTES_MAX;

/// Writes a capture file, segment by segment. Everything written to `to` survives a kill of this process.
#[derive(Debug)]
pub struct SegmentWriter<W> {
    to: W,
    header: Header,
    segments: u64,
    records: u64,
    size_bytes: u64,
    buffer: Vec<u8>,
}

impl<W: Write> SegmentWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn begin(mut to: W, header: Header) -> io::Result<Self> {
        let bytes = header.encode();
        to.write_all(&bytes)?;
        Ok(Self { to, header, segments: 0, records: 0, size_bytes: bytes.len() as u64, buffer: Vec::new() })
    }

    /// Number of bytes written.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Writes requests, in segments of at most 65,536. `dropped` is the number of events dropped in the capture so far.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn records(&mut self, records: &[Captured], dropped: u64) -> io::Result<()> {
        for records in records.chunks(SEGMENT_ITEMS_MAX as usize) {
            let mut payload = std::mem::take(&mut self.buffer);
            payload.clear();
            payload.reserve(records.len() * RECORD_BYTES);
            for record in records {
                payload.extend_from_slice(&record.encode());
            }
            let written = self.segment(Kind::Records, records.len(), &payload, dropped);
            self.buffer = payload;
            written?;
            self.records += records.len() as u64;
        }
        Ok(())
    }

    /// Writes names.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn names(&mut self, names: &[Name], dropped: u64) -> io::Result<()> {
        for names in names.chunks(PAYLOAD_BYTES_MAX as usize / NAME_ENCODED_MAX) {
            let mut payload = Vec::new();
            for name in names {
                name.encode(&mut payload);
            }
            self.segment(Kind::Names, names.len(), &payload, dropped)?;
        }
        Ok(())
    }

    fn segment(&mut self, kind: Kind, count: usize, payload: &[u8], dropped: u64) -> io::Result<()> {
        let header = SegmentHeader {
            payload_crc: crc32c(payload),
            sequence: self.segments,
            kind,
            count: count as u32,
            payload_bytes: payload.len() as u32,
            dropped,
            capture: self.header.capture,
        };
        self.to.write_all(&header.encode())?;
        self.to.write_all(payload)?;
        self.segments += 1;
        self.size_bytes += (super::layout::BLOCK + payload.len()) as u64;
        Ok(())
    }

    /// Writes the footer and returns the output, which the caller makes durable.
    ///
    /// # Errors
    /// The footer cannot be written.
    pub fn finish(mut self, dropped: u64) -> io::Result<W> {
        let footer = Footer { segments: self.segments, records: self.records, dropped, capture: self.header.capture };
        self.to.write_all(&footer.encode())?;
        self.to.flush()?;
        Ok(self.to)
    }
}
