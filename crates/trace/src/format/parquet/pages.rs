//! Checks the pages of a column before they are decoded, and converts strings to numbers.
//!
//! A string for each row would cost more than everything else. So a page reader below the decoder of a string column gives it a column of
//! integers: a dictionary of strings becomes a dictionary of their numbers, once per row group, and the decoder proceeds as with any
//! integer column.

use super::fields::Field;
use super::input::Input;
use crate::{Lifetime, Names, Op};
use ::parquet::basic::Encoding;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::ParquetError;
use ::parquet::file::serialized_reader::SerializedPageReader;
use bytes::Bytes;
use forebay_block::lock;
use std::sync::{Arc, Mutex};

/// Longest name or path that is accepted in bytes; Linux has paths of up to 4,096 bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// The number of a refused string.
pub(super) const REFUSED: i32 = -1;
/// Bytes of a refused string that are shown.
const SHOWN_BYTES: usize = 40;

/// State for decoding string columns, lent by the reader's caller during a read.
#[derive(Default)]
pub(super) struct Shared {
    pub names: Names,
    /// The last refused string, shortened.
    pub refused: String,
}

impl Shared {
    /// The number of a string of a column.
    fn number(&mut self, field: Field, text: &[u8]) -> i32 {
        let number = match field {
            Field::Op => position(Op::ALL.iter().map(|op| op.name()), text),
            Field::Lifetime => position(Lifetime::ALL.iter().map(|lifetime| lifetime.name()), text),
            _ if text.len() > TEXT_BYTES_MAX => None,
            _ => {
                let text = String::from_utf8_lossy(text);
                let names = &mut self.names;
                let table = match field {
                    Field::Volume => &mut names.volumes,
                    Field::Process => &mut names.processes,
                    _ => &mut names.paths,
                };
                i32::try_from(table.number(&text)).ok()
            }
        };
        number.unwrap_or_else(|| {
            self.refused = String::from_utf8_lossy(text.get(..SHOWN_BYTES).unwrap_or(text)).into_owned();
            REFUSED
        })
    }
}

fn position<'a>(mut names: impl Iterator<Item = &'a str>, text: &[u8]) -> Option<i32> {
    names.position(|name| name.as_bytes().eq_ignore_ascii_case(text)).and_then(|position| i32::try_from(position).ok())
}

/// Pages of one column of one row group.
pub(super) struct Pages {
    inner: SerializedPageReader<Input>,
    field: Field,
    shared: Arc<Mutex<Shared>>,
    /// Bytes of a value, for an integer column.
    width: usize,
    has_levels: bool,
    has_dictionary: bool,
}

impl Pages {
    pub fn new(
        inner: SerializedPageReader<Input>,
        field: Field,
        width: usize,
        has_levels: bool,
        shared: Arc<Mutex<Shared>>,
    ) -> Self {
        Self { inner, field, shared, width, has_levels, has_dictionary: false }
    }

    fn checked(&mut self, page: Page) -> Result<Page, ParquetError> {
        let is_dictionary = |encoding| matches!(encoding, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
        match page {
            Page::DictionaryPage { mut buf, num_values, encoding, is_sorted } => {
                if self.field.is_text() {
                    buf = self.numbers(&buf, Some(num_values as usize))?;
                } else if (num_values as usize).checked_mul(self.width).is_none_or(|bytes| bytes > buf.len()) {
                    // The crate allocates as many values as the header says.
                    return Err(damaged(format!("a dictionary of {num_values} values in {} bytes", buf.len())));
                }
                self.has_dictionary = true;
                Ok(Page::DictionaryPage { buf, num_values, encoding, is_sorted })
            }
            // The crate would panic there.
            _ if is_dictionary(page.encoding()) && !self.has_dictionary => {
                Err(damaged("a page needs a dictionary, and there is none".to_owned()))
            }
            _ if !self.field.is_text() || is_dictionary(page.encoding()) => Ok(page),
            page if page.encoding() != Encoding::PLAIN => {
                Err(ParquetError::NYI(format!("strings in the encoding {} are not supported", page.encoding())))
            }
            Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics } => {
                let levels = if self.has_levels { self.levels_bytes(&buf, def_level_encoding)? } else { 0 };
                let buf = self.plain(&buf, levels)?;
                Ok(Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics })
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            } => {
                let levels = (def_levels_byte_len as usize).saturating_add(rep_levels_byte_len as usize);
                Ok(Page::DataPageV2 {
                    buf: self.plain(&buf, levels)?,
                    num_values,
                    encoding,
                    num_nulls,
                    num_rows,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed,
                    statistics,
                })
            }
        }
    }

    /// Number of bytes of a page before its values.
    fn levels_bytes(&self, page: &Bytes, encoding: Encoding) -> Result<usize, ParquetError> {
        let length = page.first_chunk::<4>().filter(|_| encoding == Encoding::RLE);
        let length = length.ok_or_else(|| damaged("nulls of a page of strings cannot be distinguished".to_owned()))?;
        Ok((u32::from_le_bytes(*length) as usize).saturating_add(4))
    }

    /// Converts a page of plain strings to one of plain numbers; the `levels` bytes before them are kept.
    fn plain(&self, page: &Bytes, levels: usize) -> Result<Bytes, ParquetError> {
        let (levels, texts) =
            page.split_at_checked(levels).ok_or_else(|| damaged("a page shorter than its levels".to_owned()))?;
        let numbers = self.numbers(texts, None)?;
        Ok(Bytes::from([levels, &numbers].concat()))
    }

    /// The numbers of strings, 4 bytes each; `count` of them, or all that there are if it is `None`.
    fn numbers(&self, mut texts: &[u8], count: Option<usize>) -> Result<Bytes, ParquetError> {
        let mut numbers = Vec::new();
        let mut shared = lock(&self.shared);
        let mut done = 0;
        while count.map_or(!texts.is_empty(), |count| done < count) {
            let text = texts
                .split_first_chunk::<4>()
                .and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
            let (text, rest) = text.ok_or_else(|| damaged("a page of strings ends within one".to_owned()))?;
            numbers.extend_from_slice(&shared.number(self.field, text).to_le_bytes());
            texts = rest;
            done += 1;
        }
        Ok(Bytes::from(numbers))
    }
}

fn damaged(what: String) -> ParquetError {
    ParquetError::General(what)
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = self.inner.get_next_page()?;
        page.map(|page| self.checked(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.inner.skip_next_page()
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
