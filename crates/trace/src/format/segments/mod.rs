//! Capture files (`NAME.fbr`) of `forebay record`, made of checksummed segments that survive a kill. Layout: `docs/record.md`.

mod layout;
mod rotated;
mod writer;

pub use layout::{CaptureId, Captured, Header, Name, Volume};
pub use rotated::{Capture, capture_header, first_path, is_later_file, rotated_path};
pub use writer::SegmentWriter;

use crate::{Faults, Knows, Names, Request, Source, TraceError};
use forebay_block::checksum::crc32c;
use layout::{BLOCK, Footer, Kind, RECORD_BYTES, SegmentHeader};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Seek, SeekFrom};

/// Name of the format.
const FORMAT: &str = "record";
/// How a file begins.
pub(super) const MAGIC: [u8; 8] = layout::HEADER_MAGIC;
/// Bytes that are examined together when searching for the next segment.
const SEARCH_BYTES: usize = 1 << 16;
/// Bytes that may be read in vain before damage is skipped instead of searched.
const IN_VAIN_BYTES: u64 = 64 << 20;
/// Most paths that are kept.
const PATHS_MAX: usize = 1 << 20;

/// A capture file being read.
pub struct Segments<R> {
    from: R,
    header: Header,
    offset_bytes: u64,
    begin_bytes: u64,
    /// The next sequence number.
    sequence: u64,
    records: u64,
    footer: Option<Footer>,
    is_over: bool,
    faults: Faults,
    /// Numbers of the file's names in the trace.
    processes: HashMap<u32, u32>,
    paths: HashMap<(u32, u64, u32), Vec<Path>>,
    path_count: usize,
    payload: Vec<u8>,
    /// Number of bytes that were read in vain.
    in_vain_bytes: u64,
}

/// A path that an inode has had.
#[derive(Clone, Debug)]
struct Path {
    /// Its position in the file.
    at: u64,
    level: Option<u8>,
    path: String,
}

impl<R: Read + Seek> Segments<R> {
    /// Reads the header, and the paths of files, which may come after the requests that refer to them.
    ///
    /// # Errors
    /// The file is no capture, its header is damaged, or reading failed.
    pub fn open(mut from: R) -> Result<Self, TraceError> {
        let (header, begin_bytes) = read_header(&mut from)?;
        let mut segments = Self {
            from,
            header,
            offset_bytes: begin_bytes,
            begin_bytes,
            sequence: 0,
            records: 0,
            footer: None,
            is_over: false,
            faults: Faults::default(),
            processes: HashMap::new(),
            paths: HashMap::new(),
            path_count: 0,
            payload: Vec::new(),
            in_vain_bytes: 0,
        };
        segments.read_paths()?;
        segments.in_vain_bytes = 0;
        Ok(segments)
    }

    /// The header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of events that the capture dropped, as far as the file has been read.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.faults.missing
    }

    /// Looks through all segments for paths, skipping requests.
    fn read_paths(&mut self) -> Result<(), TraceError> {
        let mut at = self.begin_bytes;
        let mut block = [0; BLOCK];
        loop {
            self.seek(at)?;
            if fill(&mut self.from, &mut block, at)? < BLOCK {
                break;
            }
            let Some(segment) = self.segment_of(&block) else {
                // Damage, or the footer. Names after damage are found when they are read in order.
                let Some(next) = self.search(at)? else { break };
                at = next;
                continue;
            };
            if segment.kind == Kind::Names {
                if self.load(&segment, at)? {
                    self.take_names(at, None);
                } else {
                    let Some(next) = self.after_damage(at, Some(&segment))? else { break };
                    at = next;
                    continue;
                }
            }
            at += BLOCK as u64 + u64::from(segment.payload_bytes);
        }
        self.seek(self.begin_bytes)
    }

    fn seek(&mut self, at: u64) -> Result<(), TraceError> {
        let sought = self.from.seek(SeekFrom::Start(at));
        sought.map(drop).map_err(|source| TraceError::Read { offset_bytes: at, source })
    }

    fn segment_of(&self, block: &[u8; BLOCK]) -> Option<SegmentHeader> {
        SegmentHeader::decode(block).filter(|segment| segment.capture == self.header.capture)
    }

    fn footer_of(&self, block: &[u8; BLOCK]) -> Option<Footer> {
        Footer::decode(block).filter(|footer| footer.capture == self.header.capture)
    }

    /// Reads the payload of a segment at `at`, whose header has just been read; returns whether it is intact.
    fn load(&mut self, segment: &SegmentHeader, at: u64) -> Result<bool, TraceError> {
        // Bounded by the decoding of the header.
        self.payload.resize(segment.payload_bytes as usize, 0);
        let read = fill(&mut self.from, &mut self.payload, at + BLOCK as u64)?;
        Ok(read == self.payload.len() && crc32c(&self.payload) == segment.payload_crc)
    }

    /// The position of the next intact segment header or footer after `at`.
    fn search(&mut self, at: u64) -> Result<Option<u64>, TraceError> {
        let mut begin = at + 1;
        let mut window = vec![0; SEARCH_BYTES];
        loop {
            self.seek(begin)?;
            let len = fill(&mut self.from, &mut window, begin)?;
            self.in_vain_bytes += len as u64;
            let found = window[..len].windows(BLOCK).position(|bytes| {
                bytes
                    .first_chunk()
                    .is_some_and(|block| self.segment_of(block).is_some() || self.footer_of(block).is_some())
            });
            if let Some(index) = found {
                return Ok(Some(begin + index as u64));
            }
            if len < window.len() {
                return Ok(None);
            }
            begin += (len - (BLOCK - 1)) as u64;
        }
    }

    /// The position at which to continue after a segment with a damaged payload. Bytes may be missing in it, so the next one may begin
    /// within it; but a file of nested segments must not take forever.
    fn after_damage(&mut self, at: u64, segment: Option<&SegmentHeader>) -> Result<Option<u64>, TraceError> {
        if let Some(segment) = segment {
            self.in_vain_bytes += u64::from(segment.payload_bytes);
            if self.in_vain_bytes > IN_VAIN_BYTES + 4 * at {
                return Ok(Some(at + BLOCK as u64 + u64::from(segment.payload_bytes)));
            }
        }
        self.search(at)
    }

    /// Handles the names of the payload; names of processes only if `names` is given.
    fn take_names(&mut self, at: u64, mut names: Option<&mut Names>) {
        let mut rest = self.payload.as_slice();
        while let Some((name, after)) = Name::decode(rest) {
            match (name, names.as_deref_mut()) {
                (Name::Process { number, name }, Some(names)) => {
                    self.processes.insert(number, names.processes.number(&name));
                }
                (Name::File { file_system, inode, generation, level, path }, None) if self.path_count < PATHS_MAX => {
                    self.path_count += 1;
                    let known = self.paths.entry((file_system, inode, generation)).or_default();
                    // RocksDB reports late for which level it wrote a table, and that does not change: it also applies to earlier entries.
                    if level.is_some() {
                        let before =
                            known.iter_mut().rev().take_while(|known| known.level.is_none() && known.path == path);
                        before.for_each(|known| known.level = level);
                    }
                    known.push(Path { at, level, path });
                }
                _ => {}
            }
            rest = after;
        }
    }

    /// The path that applied to a request of the segment at `at`: the last one before it, or else the first.
    fn path_of(&self, captured: &Captured, at: u64) -> Option<&Path> {
        let of = |generation| self.paths.get(&(captured.file_system, captured.request.inode, generation));
        let paths = of(captured.generation).or_else(|| of(0))?;
        // The paths are in order of position.
        let before = paths.partition_point(|path| path.at <= at);
        paths.get(before.saturating_sub(1))
    }

    fn take_records(&mut self, at: u64, into: &mut Vec<Request>, names: &mut Names) {
        let volumes: Vec<u32> = self.header.volumes.iter().map(|volume| names.volumes.number(&volume.name)).collect();
        for (index, bytes) in self.payload.as_chunks::<RECORD_BYTES>().0.iter().enumerate() {
            let place = at + (BLOCK + index * RECORD_BYTES) as u64;
            let Some(captured) = Captured::decode(bytes) else {
                self.faults.note(place, || "a record has values outside their bounds".to_owned());
                continue;
            };
            let mut request = captured.request;
            let Some(&volume) = volumes.get(request.volume as usize) else {
                self.faults.note(place, || format!("a record of volume {}, which is none", request.volume));
                continue;
            };
            request.volume = volume;
            request.process = self.processes.get(&request.process).copied().unwrap_or(0);
            if request.inode != 0
                && let Some(path) = self.path_of(&captured, at)
            {
                request.path = names.paths.number(&path.path);
                if let (Some(level), 1..) = (path.level, request.path) {
                    names.levels.set(request.path, level);
                }
            }
            into.push(request);
        }
    }

    fn end(&mut self) {
        self.is_over = true;
        match self.footer {
            None => self.faults.note(self.offset_bytes, || {
                "the file was not ended: its capture was killed, or what it wrote to was full".to_owned()
            }),
            Some(footer) if footer.records != self.records => {
                let read = self.records;
                self.faults.note(self.offset_bytes, || {
                    format!("{} records were written, {read} are readable", footer.records)
                });
            }
            Some(_) => {}
        }
    }
}

impl<R: Read + Seek> Source for Segments<R> {
    fn read(&mut self, into: &mut Vec<Request>, names: &mut Names) -> Result<bool, TraceError> {
        while !self.is_over {
            let at = self.offset_bytes;
            let mut block = [0; BLOCK];
            self.seek(at)?;
            let len = fill(&mut self.from, &mut block, at)?;
            if len == 0 {
                self.end();
                break;
            }
            if let Some(footer) = (len == BLOCK).then(|| self.footer_of(&block)).flatten() {
                self.footer = Some(footer);
                self.faults.missing = self.faults.missing.max(footer.dropped);
                self.offset_bytes += BLOCK as u64;
                continue;
            }
            let segment = (len == BLOCK).then(|| self.segment_of(&block)).flatten();
            let whole = match &segment {
                Some(segment) => self.load(segment, at)?,
                None => false,
            };
            let (Some(segment), true) = (segment, whole) else {
                match self.after_damage(at, segment.as_ref())? {
                    Some(next) => {
                        self.faults.note(at, || format!("{} bytes are damaged", next - at));
                        self.offset_bytes = next;
                    }
                    None => {
                        self.faults.note(at, || "the end of the file is cut off or damaged".to_owned());
                        self.end();
                    }
                }
                continue;
            };
            self.offset_bytes = at + BLOCK as u64 + u64::from(segment.payload_bytes);
            if segment.sequence < self.sequence {
                self.faults.note(at, || format!("segment {} a second time", segment.sequence));
                continue;
            }
            if segment.sequence > self.sequence {
                let missing = segment.sequence - self.sequence;
                self.faults.note(at, || format!("{missing} segments are missing before this one"));
            }
            self.sequence = segment.sequence.saturating_add(1);
            self.faults.missing = self.faults.missing.max(segment.dropped);
            match segment.kind {
                Kind::Names => self.take_names(at, Some(names)),
                Kind::Records => {
                    self.records += u64::from(segment.count);
                    self.take_records(at, into, names);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn knows(&self) -> Knows {
        Knows {
            op: true,
            time: true,
            latency: true,
            depth: true,
            flags: true,
            lifetime: true,
            process: true,
            file: true,
        }
    }
}

/// Reads the header; also returns where the segments begin.
fn read_header(from: &mut impl Read) -> Result<(Header, u64), TraceError> {
    let malformed = |what, offset_bytes| TraceError::Malformed { format: FORMAT, what, offset_bytes };
    let mut block = [0; BLOCK];
    if fill(from, &mut block, 0)? < BLOCK {
        return Err(malformed("it is shorter than a header".to_owned(), 0));
    }
    let (mut header, volumes, table_bytes) = Header::decode(&block).map_err(|what| malformed(what, 0))?;
    let mut table = vec![0; table_bytes as usize];
    if fill(from, &mut table, BLOCK as u64)? < table.len() {
        return Err(malformed("its table of volumes is cut off".to_owned(), BLOCK as u64));
    }
    header.volumes(&block, volumes, &table).map_err(|what| malformed(what, BLOCK as u64))?;
    Ok((header, BLOCK as u64 + u64::from(table_bytes)))
}

/// Fills `into` as far as there are bytes to read; returns their number.
fn fill(from: &mut impl Read, into: &mut [u8], offset_bytes: u64) -> Result<usize, TraceError> {
    let mut len = 0;
    while len < into.len() {
        match from.read(&mut into[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(TraceError::Read { offset_bytes: offset_bytes + len as u64, source }),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests;
