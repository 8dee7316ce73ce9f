//! The fixed parts of a telemetry file: header, segment header, footer. Byte layouts: `docs/telemetry.md`.

use super::error::{TelemetryError, within};
use super::record::RECORD_BYTES;
use forebay_block::checksum::crc32c;

/// Version of the format.
pub const VERSION: u32 = 1;
/// Most records in a segment.
pub const MAX_SEGMENT_RECORDS: u32 = 65_536;
/// Most jobs in a file.
pub const MAX_JOBS: usize = 4_096;
/// Longest name of a job, in bytes of UTF-8.
pub const MAX_JOB_NAME_BYTES: usize = 1_024;
/// Longest metadata, in bytes of JSON.
pub const MAX_METADATA_BYTES: usize = 1 << 20;
/// Threads of a job have numbers below this.
pub const MAX_THREADS_PER_JOB: u32 = 65_536;

/// Bytes of the fixed part of the file header, of a segment header and of the footer.
pub(super) const BLOCK: usize = 64;
/// Longest segment, in bytes.
pub(super) const MAX_SEGMENT_BYTES: usize = BLOCK + MAX_SEGMENT_RECORDS as usize * RECORD_BYTES;
pub(super) const SEGMENT_MAGIC: [u8; 8] = *b"FBTSEGMT";
pub(super) const FOOTER_MAGIC: [u8; 8] = *b"FBTENDED";
/// The common beginning of segment and footer magic, for the search after damage.
pub(super) const MAGIC_PREFIX: [u8; 3] = *b"FBT";
pub(super) const HEADER_MAGIC: [u8; 8] = *b"FOREBAYT";
/// Longest body of the file header: all jobs with the longest names, and the longest metadata.
const MAX_BODY_BYTES: usize = MAX_JOBS * (2 + MAX_JOB_NAME_BYTES) + MAX_METADATA_BYTES;

/// The header of a telemetry file, which describes its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identity of the run, repeated in every segment.
    pub run_id: [u8; 16],
    /// Beginning of the run, in ns since 1970-01-01 UTC.
    pub begin_unix_ns: u64,
    /// Names of the jobs; segments refer to them by index. At most [`MAX_JOBS`] of at most [`MAX_JOB_NAME_BYTES`].
    pub jobs: Vec<String>,
    /// Metadata as JSON, at most [`MAX_METADATA_BYTES`].
    pub metadata: String,
}

impl Header {
    /// Encodes header and body as the file begins with them.
    ///
    /// # Errors
    /// A bound is exceeded, or the metadata is not JSON.
    pub(super) fn encode(&self) -> Result<Vec<u8>, TelemetryError> {
        within("the number of jobs", self.jobs.len() as u64, 0, MAX_JOBS as u64)?;
        within("the length of the metadata in bytes", self.metadata.len() as u64, 1, MAX_METADATA_BYTES as u64)?;
        check_json(&self.metadata)?;
        let mut body = Vec::new();
        for job in &self.jobs {
            within("the length of a job's name in bytes", job.len() as u64, 0, MAX_JOB_NAME_BYTES as u64)?;
            body.extend_from_slice(&(job.len() as u16).to_le_bytes());
            body.extend_from_slice(job.as_bytes());
        }
        let names_bytes = body.len();
        body.extend_from_slice(self.metadata.as_bytes());

        let mut fixed = [0; BLOCK];
        fixed[0..8].copy_from_slice(&HEADER_MAGIC);
        fixed[12..16].copy_from_slice(&VERSION.to_le_bytes());
        fixed[16..32].copy_from_slice(&self.run_id);
        fixed[32..40].copy_from_slice(&self.begin_unix_ns.to_le_bytes());
        fixed[40..44].copy_from_slice(&(self.jobs.len() as u32).to_le_bytes());
        fixed[44..48].copy_from_slice(&(names_bytes as u32).to_le_bytes());
        fixed[48..52].copy_from_slice(&(self.metadata.len() as u32).to_le_bytes());
        fixed[52..56].copy_from_slice(&crc32c(&body).to_le_bytes());
        fixed[56..60].copy_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
        seal(&mut fixed);
        let mut bytes = fixed.to_vec();
        bytes.append(&mut body);
        Ok(bytes)
    }
}

/// The fixed part of a header, already checked; the body is still to be read.
#[derive(Debug)]
pub(super) struct FixedHeader {
    run_id: [u8; 16],
    begin_unix_ns: u64,
    jobs: usize,
    names_bytes: usize,
    body_crc: u32,
    /// Length of the body, at most about 5 MiB.
    pub(super) body_bytes: usize,
}

impl FixedHeader {
    /// # Errors
    /// Another kind of file, another version, damage, or a length outside its bounds.
    pub(super) fn decode(bytes: &[u8; BLOCK]) -> Result<Self, TelemetryError> {
        if !bytes.starts_with(&HEADER_MAGIC) {
            return Err(TelemetryError::NotTelemetry);
        }
        if !is_sealed(bytes) {
            return Err(TelemetryError::HeaderDamaged { what: "checksum of the fixed part" });
        }
        let version = u32_at(bytes, 12);
        if version != VERSION {
            return Err(TelemetryError::Version { found: version, known: VERSION });
        }
        let (jobs, names_bytes) = (u32_at(bytes, 40) as usize, u32_at(bytes, 44) as usize);
        let metadata_bytes = u32_at(bytes, 48) as usize;
        let longest_names = jobs.saturating_mul(2 + MAX_JOB_NAME_BYTES);
        if jobs > MAX_JOBS || metadata_bytes > MAX_METADATA_BYTES || names_bytes > longest_names {
            return Err(TelemetryError::HeaderDamaged { what: "lengths outside their bounds" });
        }
        if u32_at(bytes, 56) as usize != RECORD_BYTES {
            return Err(TelemetryError::HeaderDamaged { what: "size of a record" });
        }
        let body_bytes = names_bytes + metadata_bytes;
        debug_assert!(body_bytes <= MAX_BODY_BYTES, "follows from the bounds above");
        Ok(Self {
            run_id: array_at(bytes, 16),
            begin_unix_ns: u64_at(bytes, 32),
            jobs,
            names_bytes,
            body_crc: u32_at(bytes, 52),
            body_bytes,
        })
    }

    /// Completes the header from its body of [`FixedHeader::body_bytes`] bytes.
    ///
    /// # Errors
    /// The body is damaged.
    pub(super) fn finish(self, body: &[u8]) -> Result<Header, TelemetryError> {
        let damaged = |what| TelemetryError::HeaderDamaged { what };
        if body.len() != self.body_bytes {
            return Err(damaged("cut off"));
        }
        if crc32c(body) != self.body_crc {
            return Err(damaged("checksum of names and metadata"));
        }
        let (mut names, metadata) = body.split_at_checked(self.names_bytes).ok_or(damaged("names of jobs"))?;
        let mut jobs = Vec::with_capacity(self.jobs);
        for _ in 0..self.jobs {
            let (len, rest) = names.split_first_chunk::<2>().ok_or(damaged("names of jobs"))?;
            let len = usize::from(u16::from_le_bytes(*len));
            let (name, rest) = rest.split_at_checked(len).ok_or(damaged("names of jobs"))?;
            if len > MAX_JOB_NAME_BYTES {
                return Err(damaged("names of jobs"));
            }
            jobs.push(str::from_utf8(name).map_err(|_| damaged("a job's name is not UTF-8"))?.to_owned());
            names = rest;
        }
        if !names.is_empty() {
            return Err(damaged("names of jobs"));
        }
        let metadata = str::from_utf8(metadata).map_err(|_| damaged("the metadata is not UTF-8"))?.to_owned();
        check_json(&metadata).map_err(|_| damaged("the metadata is not JSON"))?;
        Ok(Header { run_id: self.run_id, begin_unix_ns: self.begin_unix_ns, jobs, metadata })
    }
}

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) payload_crc: u32,
    pub(super) sequence: u64,
    pub(super) job: u32,
    pub(super) thread: u32,
    /// Number of records, 1 to [`MAX_SEGMENT_RECORDS`].
    pub(super) count: u32,
    pub(super) dropped_before: u64,
    pub(super) run_id: [u8; 16],
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        bytes[0..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[12..16].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.job.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.thread.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.count.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.dropped_before.to_le_bytes());
        bytes[48..64].copy_from_slice(&self.run_id);
        seal(&mut bytes);
        bytes
    }

    /// `None` if this is no valid segment header of this run.
    pub(super) fn decode(bytes: &[u8; BLOCK], run: &Header) -> Option<Self> {
        if !bytes.starts_with(&SEGMENT_MAGIC) || !is_sealed(bytes) {
            return None;
        }
        let header = Self {
            payload_crc: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            job: u32_at(bytes, 24),
            thread: u32_at(bytes, 28),
            count: u32_at(bytes, 32),
            dropped_before: u64_at(bytes, 40),
            run_id: array_at(bytes, 48),
        };
        let known = header.run_id == run.run_id
            && (header.job as usize) < run.jobs.len()
            && header.thread < MAX_THREADS_PER_JOB
            && (1..=MAX_SEGMENT_RECORDS).contains(&header.count);
        known.then_some(header)
    }

    pub(super) const fn segment_bytes(&self) -> usize {
        BLOCK + self.count as usize * RECORD_BYTES
    }
}

/// The last 64 bytes of a file whose run ended normally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Segments in the file.
    pub segments: u64,
    /// Records in the file.
    pub records: u64,
    /// Number of records that the workers made and that are missing in the file.
    pub dropped: u64,
}

impl Footer {
    pub(super) fn encode(&self, run_id: [u8; 16]) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        bytes[0..8].copy_from_slice(&FOOTER_MAGIC);
        bytes[16..24].copy_from_slice(&self.segments.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.records.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.dropped.to_le_bytes());
        bytes[48..64].copy_from_slice(&run_id);
        seal(&mut bytes);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; BLOCK], run: &Header) -> Option<Self> {
        let ours = bytes.starts_with(&FOOTER_MAGIC) && is_sealed(bytes) && array_at::<16>(bytes, 48) == run.run_id;
        ours.then(|| Self { segments: u64_at(bytes, 16), records: u64_at(bytes, 24), dropped: u64_at(bytes, 32) })
    }
}

/// Stores the CRC32C of bytes 12..64 in bytes 8..12.
fn seal(block: &mut [u8; BLOCK]) {
    let crc = crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(block: &[u8; BLOCK]) -> bool {
    u32_at(block, 8) == crc32c(&block[12..])
}

fn check_json(text: &str) -> Result<(), TelemetryError> {
    // Checked without building a value: a hostile file's JSON could take many times more memory.
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map(|_| ())
        .map_err(|source| TelemetryError::Metadata { source })
}

fn array_at<const N: usize>(block: &[u8; BLOCK], at: usize) -> [u8; N] {
    std::array::from_fn(|i| block[at + i])
}

fn u32_at(block: &[u8; BLOCK], at: usize) -> u32 {
    u32::from_le_bytes(array_at(block, at))
}

fn u64_at(block: &[u8; BLOCK], at: usize) -> u64 {
    u64::from_le_bytes(array_at(block, at))
}
