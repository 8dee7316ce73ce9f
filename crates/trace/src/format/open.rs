//! Opens traces: detects the format, and unpacks.

use super::blktrace::Blktrace;
use super::detect::{self, HEAD_BYTES};
use super::kind::Format;
use super::oracle_general::OracleGeneral;
use super::parquet::{ParquetTrace, Wanted};
use super::processors::{noted, processors};
use super::readers::lines;
use super::segments::{self, Capture};
use super::text::Text;
use super::vscsi::Vscsi;
use super::zero::FromEarliest;
use crate::reading;
use crate::{Source, TraceError};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How a Parquet file begins (Apache Parquet, file format).
const PARQUET_MAGIC: &[u8] = b"PAR1";
/// How a gzip member begins (RFC 1952).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 8];
/// How a Zstandard frame begins (RFC 8878, 3.1.1).
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// How a frame without data begins, which some packers write first; the lower half of its first byte is arbitrary (RFC 8878, 3.1.2).
const ZSTD_SKIPPABLE: (u8, &[u8]) = (0x50, &[0x2a, 0x4d, 0x18]);
/// Largest window that a Zstandard frame may require, 128 MiB: what every decoder accepts without an option, up to `zstd --ultra -22`, but
/// not larger ones by `--long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Opens a trace. `-` is the standard input. gzip and Zstandard are unpacked. Without a format, the first bytes decide. Of Parquet only the
/// wanted columns are read; other formats have no columns. If there is no file with this name, but `PATH.blktrace.0` and so on, these are
/// opened: the files that blktrace wrote for each processor. Where one of several of these is named, a note says so.
///
/// # Errors
/// `Open` if there is no such file, `Read` if it cannot be read, `UnknownFormat` if no format fits.
pub fn open(path: &Path, format: Option<Format>, wanted: Wanted) -> Result<Box<dyn Source + Send>, TraceError> {
    if path == Path::new("-") {
        return from_reader(std::io::stdin(), path, format);
    }
    let file = match open_file(path) {
        Err(error) if !matches!(format, None | Some(Format::Blktrace)) => return Err(error),
        Err(error) => return open_processors(path, error),
        Ok(file) => file,
    };
    match format.or_else(|| searched(&file)) {
        Some(Format::Parquet) => Ok(Box::new(ParquetTrace::open(path)?.with_columns(wanted))),
        Some(Format::Record) => Ok(Box::new(Capture::open(path)?)),
        _ => Ok(noted(from_reader(file, path, format)?, path)),
    }
}

/// The format of a file that is read at arbitrary positions, so that it must not be a stream.
fn searched(file: &File) -> Option<Format> {
    // Examining a pipe would consume it.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut head = [0; 8];
    let len = file.read_at(&mut head, 0).ok()?;
    let head = &head[..len];
    if head.starts_with(PARQUET_MAGIC) {
        Some(Format::Parquet)
    } else {
        head.starts_with(&segments::MAGIC).then_some(Format::Record)
    }
}

fn open_file(path: &Path) -> Result<File, TraceError> {
    reading::open_file(path).map_err(|source| TraceError::Open { path: path.to_owned(), source })
}

/// Opens the files that blktrace wrote for each processor; returns `error` if there are none.
fn open_processors(path: &Path, error: TraceError) -> Result<Box<dyn Source + Send>, TraceError> {
    let files = processors(path).map(|(_, file)| open_file(&file)).collect::<Result<Vec<_>, _>>()?;
    if files.is_empty() { Err(error) } else { Ok(Box::new(Blktrace::new(files, Format::Blktrace.name()))) }
}

/// Opens a trace from an open file or stream; messages name it `path`.
///
/// # Errors
/// As for [`open`].
pub fn from_reader(
    from: impl Read + Send + 'static,
    path: &Path,
    format: Option<Format>,
) -> Result<Box<dyn Source + Send>, TraceError> {
    let from = Peeked::new(from);
    if from.head().starts_with(GZIP_MAGIC) {
        return from_unpacked(Peeked::new(MultiGzDecoder::new(from)), path, format);
    }
    if is_zstd(from.head()) {
        let unpacking = zstd::Decoder::new(from).and_then(|mut decoder| {
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Ok(decoder)
        });
        let unpacking = unpacking.map_err(|source| TraceError::Open { path: path.to_owned(), source })?;
        return from_unpacked(Peeked::new(unpacking), path, format);
    }
    from_unpacked(from, path, format)
}

fn is_zstd(head: &[u8]) -> bool {
    let (first, rest) = ZSTD_SKIPPABLE;
    let is_skippable = head.first().is_some_and(|byte| byte & 0xf0 == first) && head[1..].starts_with(rest);
    is_skippable || head.starts_with(ZSTD_MAGIC)
}

fn from_unpacked(
    mut from: Peeked<impl Read + Send + 'static>,
    path: &Path,
    format: Option<Format>,
) -> Result<Box<dyn Source + Send>, TraceError> {
    if from.head().is_empty()
        && let Some(source) = from.failed.take()
    {
        return Err(TraceError::Read { offset_bytes: 0, source });
    }
    let format = match format {
        Some(format) => format,
        None => detect::detect(from.head(), from.is_whole())
            .map_err(|why| TraceError::UnknownFormat { path: path.to_owned(), why })?,
    };
    if let Some(lines) = lines(format, from.head()) {
        let text = Text::new(from, format.name(), lines);
        let source = if is_from_first(format) { FromEarliest::new(text) } else { FromEarliest::with_own_zero(text) };
        return Ok(Box::new(source));
    }
    match format {
        Format::Vscsi => Ok(Box::new(Vscsi::new(from))),
        Format::Blktrace => Ok(Box::new(Blktrace::new(vec![from], format.name()))),
        Format::OracleGeneral => Ok(Box::new(OracleGeneral::new(from, format.name()))),
        _ => {
            let why = format!("{} is not read from a stream", format.name());
            Err(TraceError::UnknownFormat { path: path.to_owned(), why })
        }
    }
}

/// Whether the format's times do not define a zero, so that the first one is the zero unless it is an outlier.
fn is_from_first(format: Format) -> bool {
    matches!(format, Format::Msr | Format::Alibaba | Format::Tencent | Format::Systor | Format::Csv)
}

/// A stream whose first bytes have been examined.
struct Peeked<R> {
    head: Vec<u8>,
    /// Number of bytes of the head that have been read.
    at: usize,
    /// The error that ended the head.
    failed: Option<std::io::Error>,
    rest: R,
}

impl<R: Read> Peeked<R> {
    fn new(mut rest: R) -> Self {
        let mut head = Vec::new();
        let failed = (&mut rest).take(HEAD_BYTES as u64).read_to_end(&mut head).err();
        Self { head, at: 0, failed, rest }
    }

    fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether the head is the whole stream.
    fn is_whole(&self) -> bool {
        self.head.len() < HEAD_BYTES
    }
}

impl<R: Read> Read for Peeked<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = &self.head[self.at..];
        if left.is_empty() {
            return match &self.failed {
                // The stream is not read again: it might end as if nothing had been wrong.
                Some(error) => Err(std::io::Error::new(error.kind(), error.to_string())),
                None => self.rest.read(into),
            };
        }
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// Fails after a few bytes.
    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(ErrorKind::InvalidData.into());
            }
            let count = self.0.min(into.len());
            into[..count].fill(b'x');
            self.0 -= count;
            Ok(count)
        }
    }

    #[test]
    fn what_was_read_before_a_failure_is_handed_out() {
        for count in [1, HEAD_BYTES, HEAD_BYTES + 1] {
            let mut from = Peeked::new(Failing(count));
            let mut found = Vec::new();
            assert!(from.read_to_end(&mut found).is_err());
            assert_eq!(found.len(), count);
        }
    }
}
