//! The fixed parts of a capture file. Byte layouts: `docs/record.md`.

use crate::{Flags, Lifetime, Op, Request};
use forebay_block::checksum::crc32c;

pub(super) const VERSION: u32 = 1;
/// Bytes of the fixed part of a header, of a segment's header, and of the footer.
pub(super) const BLOCK: usize = 64;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 80;
/// Most records or names of a segment.
pub(super) const SEGMENT_ITEMS_MAX: u32 = 65_536;
/// Longest payload of a segment, in bytes.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 8 << 20;
/// Most volumes of a capture.
pub(super) const VOLUMES_MAX: u32 = 64;
/// Longest name of a volume, in bytes.
pub(super) const VOLUME_NAME_BYTES_MAX: usize = 1024;
/// Longest name of a file or process, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 4096;

pub(super) const HEADER_MAGIC: [u8; 8] = *b"FOREBAYR";
pub(super) const SEGMENT_MAGIC: [u8; 8] = *b"FBRSEGMT";
pub(super) const FOOTER_MAGIC: [u8; 8] = *b"FBRENDED";

/// Identity of a capture.
pub type CaptureId = [u8; 16];

/// A volume of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Name of the volume.
    pub name: String,
    /// Size in bytes; 0 if it is not known.
    pub size_bytes: u64,
}

/// The header of a capture file, which describes its capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identity of the capture, repeated in every segment.
    pub capture: CaptureId,
    /// Beginning of the capture, in nanoseconds since 1970-01-01 UTC.
    pub begin_unix_ns: u64,
    /// Number of the file within the capture, from 0.
    pub file: u32,
    /// The volumes that requests refer to; at most 64, with names of at most 1,024 bytes.
    pub volumes: Vec<Volume>,
}

/// A captured request: what all traces have, and the file system of its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The request. Its `path` is not stored: names of files are stored by file system and inode.
    pub request: Request,
    /// Device number of the file system, `major << 20 | minor`; 0 if it is not known.
    pub file_system: u32,
    /// Generation of the inode, since numbers are reused; 0 if it is not known.
    pub generation: u32,
}

/// A name that requests refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The name of a process.
    Process {
        /// Number by which requests refer to it.
        number: u32,
        /// The name.
        name: String,
    },
    /// Path of a file. It applies to the requests behind it, until the file's next path; the first also applies to those before.
    File {
        /// Device number of its file system.
        file_system: u32,
        /// Its inode.
        inode: u64,
        /// Generation of the inode; 0 if it is not known, so that any matches.
        generation: u32,
        /// Level for which a table of RocksDB was written; `None` for other files.
        level: Option<u8>,
        /// Its path.
        path: String,
    },
}

/// The stored value of an unknown level.
const NO_LEVEL: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Records,
    Names,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub payload_crc: u32,
    pub sequence: u64,
    pub kind: Kind,
    pub count: u32,
    pub payload_bytes: u32,
    pub dropped: u64,
    pub capture: CaptureId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub segments: u64,
    pub records: u64,
    pub dropped: u64,
    pub capture: CaptureId,
}

fn seal(block: &mut [u8; BLOCK]) {
    let crc = crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(block: &[u8; BLOCK]) -> bool {
    u32_at(block, 8) == crc32c(&block[12..])
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

/// The beginning of `text`, at most `max` bytes, cut between characters.
fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Header {
    /// Encodes the beginning of a file; volumes beyond the limits are left out, names are cut.
    pub(super) fn encode(&self) -> Vec<u8> {
        let volumes = &self.volumes[..self.volumes.len().min(VOLUMES_MAX as usize)];
        let mut table = Vec::new();
        for volume in volumes {
            let name = cut(&volume.name, VOLUME_NAME_BYTES_MAX);
            table.extend_from_slice(&volume.size_bytes.to_le_bytes());
            table.extend_from_slice(&(name.len() as u16).to_le_bytes());
            table.extend_from_slice(name.as_bytes());
        }
        let mut block = [0; BLOCK];
        block[0..8].copy_from_slice(&HEADER_MAGIC);
        block[12..16].copy_from_slice(&VERSION.to_le_bytes());
        block[16..32].copy_from_slice(&self.capture);
        block[32..40].copy_from_slice(&self.begin_unix_ns.to_le_bytes());
        block[40..44].copy_from_slice(&(volumes.len() as u32).to_le_bytes());
        block[44..48].copy_from_slice(&(table.len() as u32).to_le_bytes());
        block[48..52].copy_from_slice(&crc32c(&table).to_le_bytes());
        block[52..56].copy_from_slice(&self.file.to_le_bytes());
        block[56..60].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
        seal(&mut block);
        let mut bytes = block.to_vec();
        bytes.append(&mut table);
        bytes
    }

    /// Decodes the header without its volumes, their number, and the length of their table; or returns what is wrong.
    pub(super) fn decode(block: &[u8; BLOCK]) -> Result<(Self, u32, u32), String> {
        if !block.starts_with(&HEADER_MAGIC) {
            return Err("it does not begin with FOREBAYR".to_owned());
        }
        if !is_sealed(block) {
            return Err("its header is damaged".to_owned());
        }
        if u32_at(block, 12) != VERSION {
            return Err(format!("version {} is not known here (known: {VERSION})", u32_at(block, 12)));
        }
        let (volumes, table_bytes) = (u32_at(block, 40), u32_at(block, 44));
        let longest = VOLUMES_MAX * (10 + VOLUME_NAME_BYTES_MAX as u32);
        if volumes > VOLUMES_MAX || table_bytes > longest || u32_at(block, 56) as usize != RECORD_BYTES {
            return Err("its header has lengths outside their bounds".to_owned());
        }
        let header = Self {
            capture: array_at(block, 16),
            begin_unix_ns: u64_at(block, 32),
            file: u32_at(block, 52),
            volumes: Vec::new(),
        };
        Ok((header, volumes, table_bytes))
    }

    /// Decodes the volumes from their table, or returns what is wrong.
    pub(super) fn volumes(&mut self, block: &[u8; BLOCK], count: u32, table: &[u8]) -> Result<(), String> {
        let damaged = || "its table of volumes is damaged".to_owned();
        if crc32c(table) != u32_at(block, 48) {
            return Err(damaged());
        }
        let mut rest = table;
        for _ in 0..count {
            let (fixed, after) = rest.split_first_chunk::<10>().ok_or_else(damaged)?;
            let (name, after) = after.split_at_checked(usize::from(u16_at(fixed, 8))).ok_or_else(damaged)?;
            let name = str::from_utf8(name).map_err(|_| damaged())?.to_owned();
            self.volumes.push(Volume { name, size_bytes: u64_at(fixed, 0) });
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(damaged()) }
    }
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[0..8].copy_from_slice(&SEGMENT_MAGIC);
        block[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        block[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        block[24..28].copy_from_slice(&u32::from(self.kind == Kind::Names).to_le_bytes());
        block[28..32].copy_from_slice(&self.count.to_le_bytes());
        block[32..36].copy_from_slice(&self.payload_bytes.to_le_bytes());
        block[40..48].copy_from_slice(&self.dropped.to_le_bytes());
        block[48..64].copy_from_slice(&self.capture);
        seal(&mut block);
        block
    }

    /// `None` if no segment begins here.
    pub fn decode(block: &[u8; BLOCK]) -> Option<Self> {
        if !block.starts_with(&SEGMENT_MAGIC) || !is_sealed(block) {
            return None;
        }
        let kind = match u32_at(block, 24) {
            0 => Kind::Records,
            1 => Kind::Names,
            _ => return None,
        };
        let (count, payload_bytes) = (u32_at(block, 28), u32_at(block, 32));
        let fits = match kind {
            Kind::Records => u64::from(payload_bytes) == u64::from(count) * RECORD_BYTES as u64,
            Kind::Names => true,
        };
        let within = (1..=SEGMENT_ITEMS_MAX).contains(&count) && payload_bytes <= PAYLOAD_BYTES_MAX;
        (fits && within).then(|| Self {
            payload_crc: u32_at(block, 12),
            sequence: u64_at(block, 16),
            kind,
            count,
            payload_bytes,
            dropped: u64_at(block, 40),
            capture: array_at(block, 48),
        })
    }
}

impl Footer {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[0..8].copy_from_slice(&FOOTER_MAGIC);
        block[16..24].copy_from_slice(&self.segments.to_le_bytes());
        block[24..32].copy_from_slice(&self.records.to_le_bytes());
        block[32..40].copy_from_slice(&self.dropped.to_le_bytes());
        block[48..64].copy_from_slice(&self.capture);
        seal(&mut block);
        block
    }

    pub fn decode(block: &[u8; BLOCK]) -> Option<Self> {
        (block.starts_with(&FOOTER_MAGIC) && is_sealed(block)).then(|| Self {
            segments: u64_at(block, 16),
            records: u64_at(block, 24),
            dropped: u64_at(block, 32),
            capture: array_at(block, 48),
        })
    }
}

impl Captured {
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let request = &self.request;
        let mut bytes = [0; RECORD_BYTES];
        bytes[0..8].copy_from_slice(&request.issued_ns.to_le_bytes());
        bytes[8..16].copy_from_slice(&request.queued_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&request.latency_ns.to_le_bytes());
        bytes[24..32].copy_from_slice(&request.offset_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&request.inode.to_le_bytes());
        bytes[40..48].copy_from_slice(&request.cgroup.to_le_bytes());
        bytes[48..52].copy_from_slice(&u32::try_from(request.len_bytes).unwrap_or(u32::MAX).to_le_bytes());
        bytes[52..56].copy_from_slice(&request.volume.to_le_bytes());
        bytes[56..60].copy_from_slice(&request.process.to_le_bytes());
        bytes[60..64].copy_from_slice(&request.pid.to_le_bytes());
        bytes[64..68].copy_from_slice(&self.file_system.to_le_bytes());
        bytes[68..70].copy_from_slice(&request.depth.to_le_bytes());
        bytes[70..72].copy_from_slice(&request.flags.reported().0.to_le_bytes());
        bytes[72] = request.op as u8;
        bytes[73] = request.lifetime as u8;
        bytes[76..80].copy_from_slice(&self.generation.to_le_bytes());
        bytes
    }

    /// `None` if a value is out of its bounds.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let op = *Op::ALL.get(usize::from(bytes[72])).filter(|op| **op != Op::Access)?;
        let (offset_bytes, len_bytes) = (u64_at(bytes, 24), u64::from(u32_at(bytes, 48)));
        offset_bytes.checked_add(len_bytes)?;
        let request = Request {
            queued_ns: u64_at(bytes, 8),
            latency_ns: u64_at(bytes, 16),
            inode: u64_at(bytes, 32),
            cgroup: u64_at(bytes, 40),
            volume: u32_at(bytes, 52),
            process: u32_at(bytes, 56),
            pid: u32_at(bytes, 60),
            depth: u16_at(bytes, 68),
            flags: Flags(u16_at(bytes, 70)),
            lifetime: *Lifetime::ALL.get(usize::from(bytes[73]))?,
            ..Request::new(u64_at(bytes, 0), op, offset_bytes, len_bytes)
        };
        Some(Self { request, file_system: u32_at(bytes, 64), generation: u32_at(bytes, 76) })
    }
}

impl Name {
    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        let text = match self {
            Self::Process { number, name } => {
                into.push(0);
                into.extend_from_slice(&number.to_le_bytes());
                name
            }
            Self::File { file_system, inode, generation, level, path } => {
                into.push(2);
                into.extend_from_slice(&file_system.to_le_bytes());
                into.extend_from_slice(&inode.to_le_bytes());
                into.extend_from_slice(&generation.to_le_bytes());
                into.push(level.unwrap_or(NO_LEVEL));
                path
            }
        };
        let text = cut(text, NAME_BYTES_MAX);
        into.extend_from_slice(&(text.len() as u16).to_le_bytes());
        into.extend_from_slice(text.as_bytes());
    }

    /// The first name in `bytes`, and the bytes after it; `None` if there is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (kind, rest) = bytes.split_first()?;
        let fixed_bytes = match kind {
            0 => 4,
            1 => 12,
            2 => 17,
            _ => return None,
        };
        let (fixed, rest) = rest.split_at_checked(fixed_bytes)?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
        let text = str::from_utf8(text).ok().filter(|text| text.len() <= NAME_BYTES_MAX)?.to_owned();
        let name = match kind {
            0 => Self::Process { number: u32_at(fixed, 0), name: text },
            _ => Self::File {
                file_system: u32_at(fixed, 0),
                inode: u64_at(fixed, 4),
                // Names of the first kind have no generation and no level.
                generation: u32_at(fixed, 12),
                level: fixed.get(16).copied().filter(|level| *level != NO_LEVEL),
                path: text,
            },
        };
        Some((name, rest))
    }
}
