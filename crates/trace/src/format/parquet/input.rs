//! The bytes of a Parquet file, with limits on what is read at a time.

use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;
use std::fs::File;
use std::io::{Cursor, Error, ErrorKind};
use std::os::unix::fs::FileExt;

/// Largest page in bytes, packed or unpacked. Common writers make pages of about 1 MiB; DuckDB makes one page of a column of a row group,
/// which has a dozen MiB for long paths.
pub(super) const PAGE_BYTES_MAX: u64 = 32 << 20;
/// Largest header of a page: about 30 bytes, more with statistics of strings.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Bytes of a header that are read first.
const HEADER_BYTES: usize = 256;
/// Deepest nesting of structs in a header.
const NESTING_MAX: u32 = 8;

/// A file that is read at arbitrary positions.
pub(super) struct Input {
    file: File,
    len_bytes: u64,
}

impl Input {
    pub fn new(file: File) -> std::io::Result<Self> {
        let len_bytes = file.metadata()?.len();
        Ok(Self { file, len_bytes })
    }

    /// The bytes of a range that lies within the file.
    pub fn bytes(&self, offset_bytes: u64, len_bytes: usize) -> std::io::Result<Vec<u8>> {
        let is_within = offset_bytes.checked_add(len_bytes as u64).is_some_and(|end| end <= self.len_bytes);
        if !is_within {
            return Err(Error::new(ErrorKind::UnexpectedEof, "it reaches beyond the end of the file"));
        }
        let mut bytes = vec![0; len_bytes];
        self.file.read_exact_at(&mut bytes, offset_bytes)?;
        Ok(bytes)
    }
}

impl Length for Input {
    fn len(&self) -> u64 {
        self.len_bytes
    }
}

impl ChunkReader for Input {
    type T = Cursor<Vec<u8>>;

    /// Only page headers are read in this way. The crate allocates what a header says before it checks whether that is possible
    /// (apache/arrow-rs issue 10734), so the header is checked here first.
    fn get_read(&self, offset_bytes: u64) -> Result<Self::T, ParquetError> {
        for wanted in [HEADER_BYTES, HEADER_BYTES_MAX] {
            let rest = self.len_bytes.saturating_sub(offset_bytes);
            let take = wanted.min(usize::try_from(rest).unwrap_or(wanted));
            let bytes = self.bytes(offset_bytes, take)?;
            if let Some(page_bytes) = page_bytes(&bytes) {
                if page_bytes > PAGE_BYTES_MAX {
                    return Err(ParquetError::NYI(format!("a page of {page_bytes} bytes, more than {PAGE_BYTES_MAX}")));
                }
                return Ok(Cursor::new(bytes));
            }
        }
        Err(ParquetError::General("no header of a page".to_owned()))
    }

    fn get_bytes(&self, offset_bytes: u64, len_bytes: usize) -> Result<Bytes, ParquetError> {
        if len_bytes as u64 > PAGE_BYTES_MAX {
            return Err(ParquetError::NYI(format!("a page of {len_bytes} bytes, more than {PAGE_BYTES_MAX}")));
        }
        Ok(Bytes::from(self.bytes(offset_bytes, len_bytes)?))
    }
}

/// The larger of a page's two sizes, by its header; `None` if this is no header, or is cut off.
///
/// Layout: `PageHeader` in parquet-format's `parquet.thrift` (field 2 `uncompressed_page_size`, field 3
/// `compressed_page_size`, both `i32`), in Thrift's compact protocol (`thrift-compact-protocol.md`).
fn page_bytes(header: &[u8]) -> Option<u64> {
    let mut header = Header { rest: header };
    let (mut id, mut largest) = (0_i64, 0);
    loop {
        let field = header.byte()?;
        if field == 0 {
            return Some(largest);
        }
        id = if field >> 4 == 0 { header.integer()? } else { id.checked_add(i64::from(field >> 4))? };
        if matches!(id, 2 | 3) && field & 15 == 5 {
            // Negative sizes become enormous, so they are refused too.
            largest = largest.max(header.integer()?.cast_unsigned());
        } else {
            header.skip(field & 15, NESTING_MAX)?;
        }
    }
}

/// The rest of a header.
struct Header<'a> {
    rest: &'a [u8],
}

impl Header<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A zigzag-encoded number.
    fn integer(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    fn skip(&mut self, kind: u8, nesting: u32) -> Option<()> {
        let nesting = nesting.checked_sub(1)?;
        match kind {
            // The value of a boolean is in the kind.
            1 | 2 => {}
            3 => drop(self.byte()?),
            4..=6 => drop(self.varint()?),
            7 => self.rest = self.rest.get(8..)?,
            8 => {
                let len_bytes = usize::try_from(self.varint()?).ok()?;
                self.rest = self.rest.get(len_bytes..)?;
            }
            12 => loop {
                let field = self.byte()?;
                if field == 0 {
                    break;
                }
                if field >> 4 == 0 {
                    self.integer()?;
                }
                self.skip(field & 15, nesting)?;
            },
            // A page header has neither lists nor maps.
            _ => return None,
        }
        Some(())
    }
}
