//! Writes fio's I/O logs.

use super::distinct::DistinctNames;
use crate::{Faults, Names, Op, Request, TraceError};
use std::collections::HashSet;
use std::io::{BufWriter, Write};

const NS_PER_US: u64 = 1000;
const NS_PER_MS: u64 = 1_000_000;
/// Longest piece in bytes: fio reads lengths of 32 bits, so longer requests are split.
const PIECE_BYTES_MAX: u64 = 1 << 31;
/// Most pieces of one request; longer requests, above 2 TiB, are refused.
const PIECES_MAX: u64 = 1024;

/// The version of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioLogVersion {
    /// Without times, but with waits in whole milliseconds; for fio up to 3.30.
    V2,
    /// With times in microseconds.
    V3,
}

/// Writes a log for `fio --read_iolog`.
///
/// Each volume is a file with the volume's name, blanks replaced, and with a number where that is the name of another; `--replay_redirect` names another file. Writes of zeroes without data
/// become writes, accesses of unknown kind reads, and flushes `sync`. fio needs times that do not go back: a request that comes late gets
/// the time of the previous one.
pub struct FioLogWriter<W: Write> {
    to: BufWriter<W>,
    version: FioLogVersion,
    files: DistinctNames,
    /// Volumes whose files have been opened.
    open: HashSet<u32>,
    last_ns: u64,
    is_begun: bool,
    received: u64,
    refused: Faults,
}

impl<W: Write> FioLogWriter<W> {
    /// Writes a log of this version.
    pub fn new(to: W, version: FioLogVersion) -> Self {
        Self {
            to: BufWriter::new(to),
            version,
            files: DistinctNames::default(),
            open: HashSet::new(),
            last_ns: 0,
            is_begun: false,
            received: 0,
            refused: Faults { by_line: true, ..Faults::default() },
        }
    }

    /// Writes requests in the order of their issue. Requests of more than 2 TiB are left out and counted.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn write(&mut self, requests: &[Request], names: &Names) -> Result<(), TraceError> {
        self.try_write(requests, names).map_err(|source| TraceError::Write { source })
    }

    /// Writes everything that is buffered. Returns the requests that were left out, by their number among all, from 1.
    ///
    /// # Errors
    /// `Write` if the file cannot be written.
    pub fn finish(mut self) -> Result<(W, Faults), TraceError> {
        self.begin().map_err(|source| TraceError::Write { source })?;
        let to = self.to.into_inner().map_err(|error| TraceError::Write { source: error.into_error() })?;
        Ok((to, self.refused))
    }

    fn begin(&mut self) -> std::io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let version = match self.version {
            FioLogVersion::V2 => 2,
            FioLogVersion::V3 => 3,
        };
        writeln!(self.to, "fio version {version} iolog")
    }

    fn try_write(&mut self, requests: &[Request], names: &Names) -> std::io::Result<()> {
        self.begin()?;
        for request in requests {
            self.received += 1;
            let is_flush = request.op == Op::Flush;
            if !is_flush && request.len_bytes > PIECES_MAX * PIECE_BYTES_MAX {
                self.refused.note(self.received, || format!("{} bytes are more than 2 TiB", request.len_bytes));
                continue;
            }
            let file = self.files.name(request.volume, &names.volumes, |name| file_name(name, request.volume));
            let before_ns = self.last_ns;
            self.last_ns = before_ns.max(request.issued_ns);
            let time = match self.version {
                FioLogVersion::V2 => String::new(),
                FioLogVersion::V3 => format!("{} ", self.last_ns / NS_PER_US),
            };
            if self.open.insert(request.volume) {
                writeln!(self.to, "{time}{file} add\n{time}{file} open")?;
            }
            if self.version == FioLogVersion::V2 && self.last_ns / NS_PER_MS > before_ns / NS_PER_MS {
                writeln!(self.to, "{file} wait {} 0", self.last_ns / NS_PER_MS)?;
            }
            let action = match request.op {
                Op::Read | Op::Access => "read",
                Op::Write | Op::WriteZeroes => "write",
                Op::Discard => "trim",
                Op::Flush => "sync",
            };
            let (mut offset_bytes, mut left_bytes) =
                if is_flush { (0, 0) } else { (request.offset_bytes, request.len_bytes) };
            // At most PIECES_MAX times.
            loop {
                let len_bytes = left_bytes.min(PIECE_BYTES_MAX);
                writeln!(self.to, "{time}{file} {action} {offset_bytes} {len_bytes}")?;
                offset_bytes = offset_bytes.saturating_add(len_bytes);
                left_bytes -= len_bytes;
                if left_bytes == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The name of a volume in a form that fio reads as one name.
fn file_name(name: &str, volume: u32) -> String {
    if name.is_empty() {
        return format!("volume{volume}");
    }
    name.replace(|letter: char| letter.is_whitespace() || letter.is_control(), "_")
}
