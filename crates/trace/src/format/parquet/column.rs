//! Reads a column: integers, or strings as numbers.

use super::fields::Field;
use super::input::Input;
use super::pages::{Pages, Shared};
use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::{Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::serialized_reader::SerializedPageReader;
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, Type};
use std::sync::{Arc, Mutex};

/// A column and its decoder.
pub(super) struct Column {
    pub field: Field,
    /// The value for null: that of the field, or what a trace without such facts has.
    pub null: i64,
    /// Index of the column in the file.
    leaf: usize,
    /// The column's type for the decoder.
    decoded_as: ColumnDescPtr,
    has_levels: bool,
    is_unsigned: bool,
    decoder: Option<Decoder>,
    /// Byte of the file at which its part of the row group begins.
    pub begin_bytes: u64,
    narrow: Vec<i32>,
    values: Vec<i64>,
    levels: Vec<i16>,
}

enum Decoder {
    Narrow(ColumnReaderImpl<Int32Type>),
    Wide(ColumnReaderImpl<Int64Type>),
}

impl Column {
    /// Whether the statistics show that it has no value.
    pub fn is_null(&self, index: &ParquetMetaData) -> bool {
        index.row_groups().iter().all(|group| {
            let statistics = group.columns().get(self.leaf).and_then(|chunk| chunk.statistics());
            statistics.and_then(|of| of.null_count_opt()).is_some_and(|nulls| nulls >= group.num_rows().unsigned_abs())
        })
    }

    /// The column `field` of a file, if column number `leaf` can be it.
    ///
    /// # Errors
    /// What is wrong with its type.
    pub fn new(field: Field, leaf: usize, column: &ColumnDescPtr) -> Result<Self, String> {
        let (physical, kind) = (column.physical_type(), column.logical_type_ref());
        let (what, fits) = if field.is_text() {
            let is_text = matches!(kind, None | Some(LogicalType::String | LogicalType::Enum | LogicalType::Json));
            ("a string", is_text && physical == Physical::BYTE_ARRAY)
        } else {
            let is_integer = matches!(kind, None | Some(LogicalType::Integer(_)));
            ("an integer of 32 or 64 bits", is_integer && matches!(physical, Physical::INT32 | Physical::INT64))
        };
        // Old writers only set the converted type; the crate derives a logical type only for writing.
        let fits = fits
            && match column.converted_type() {
                ConvertedType::NONE => true,
                ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => field.is_text(),
                other => is_plain_integer(other) && !field.is_text(),
            };
        if !fits || column.max_rep_level() > 0 || column.max_def_level() > 1 {
            let kind = kind.map_or_else(|| format!("{:?}", column.converted_type()), |kind| format!("{kind:?}"));
            return Err(format!("column {} is {physical} ({kind}), not {what}", field.name()));
        }
        let has_levels = column.max_def_level() > 0;
        let decoded_as = if field.is_text() { number_column(field, has_levels)? } else { Arc::clone(column) };
        let is_unsigned = match kind {
            Some(LogicalType::Integer(kind)) => !kind.is_signed,
            _ => matches!(
                column.converted_type(),
                ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
            ),
        };
        let (narrow, values, levels) = Default::default();
        Ok(Self {
            field,
            null: field.null(),
            leaf,
            decoded_as,
            has_levels,
            is_unsigned,
            decoder: None,
            begin_bytes: 0,
            narrow,
            values,
            levels,
        })
    }

    /// Moves to the beginning of a row group.
    pub fn begin(
        &mut self,
        input: &Arc<Input>,
        group: &RowGroupMetaData,
        shared: &Arc<Mutex<Shared>>,
    ) -> Result<(), ParquetError> {
        self.decoder = None;
        let wrong = |what: &str| ParquetError::General(what.to_owned());
        let chunk = group.columns().get(self.leaf).ok_or_else(|| wrong("it is missing"))?;
        let begin = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        // The crate asserts that these are not negative.
        let begin = u64::try_from(begin).map_err(|_| wrong("it begins before the file"))?;
        self.begin_bytes = begin;
        if chunk.compressed_size() < 0 {
            return Err(wrong("its length is negative"));
        }
        let rows = usize::try_from(group.num_rows()).map_err(|_| wrong("the number of rows is negative"))?;
        let pages = SerializedPageReader::new(Arc::clone(input), chunk, rows, None)?;
        let is_wide = self.decoded_as.physical_type() == Physical::INT64;
        let width = if is_wide { 8 } else { 4 };
        let pages = Box::new(Pages::new(pages, self.field, width, self.has_levels, Arc::clone(shared)));
        let column = Arc::clone(&self.decoded_as);
        self.decoder = Some(if is_wide {
            Decoder::Wide(ColumnReaderImpl::new(column, pages))
        } else {
            Decoder::Narrow(ColumnReaderImpl::new(column, pages))
        });
        Ok(())
    }

    /// The values of the last [`Self::read`], with [`Self::null`] for nulls.
    pub fn values(&self) -> &[i64] {
        &self.values
    }

    /// Reads exactly `count` values.
    pub fn read(&mut self, count: usize) -> Result<(), ParquetError> {
        self.values.clear();
        self.levels.clear();
        let rows = match &mut self.decoder {
            Some(Decoder::Wide(decoder)) => {
                decoder.read_records(count, Some(&mut self.levels), None, &mut self.values)?.0
            }
            Some(Decoder::Narrow(decoder)) => {
                self.narrow.clear();
                let rows = decoder.read_records(count, Some(&mut self.levels), None, &mut self.narrow)?.0;
                if self.is_unsigned {
                    self.values.extend(self.narrow.iter().map(|&value| i64::from(value.cast_unsigned())));
                } else {
                    self.values.extend(self.narrow.iter().map(|&value| i64::from(value)));
                }
                rows
            }
            None => 0,
        };
        if rows != count || (self.has_levels && self.levels.len() != count) {
            return Err(ParquetError::General(format!(
                "it has {} rows less than the row group",
                count - rows.min(count)
            )));
        }
        if self.has_levels {
            spread(&mut self.values, &self.levels, self.null);
        }
        if self.values.len() != count {
            return Err(ParquetError::General("it has fewer values than rows".to_owned()));
        }
        Ok(())
    }

    /// Whether a negative 64-bit number is just a large one.
    pub fn has_all_bits(&self) -> bool {
        self.field.is_id() && self.is_unsigned
    }
}

/// Makes room for nulls: `values` has only the other values.
fn spread(values: &mut Vec<i64>, levels: &[i16], null: i64) {
    let mut next = values.len();
    if next == levels.len() {
        return;
    }
    values.resize(levels.len(), null);
    if next == 0 {
        return;
    }
    // From the end, so that no value is overwritten before it was moved.
    for (index, &level) in levels.iter().enumerate().rev() {
        values[index] = match next.checked_sub(1).filter(|_| level > 0) {
            Some(from) => {
                next = from;
                values[from]
            }
            None => null,
        };
    }
}

fn is_plain_integer(kind: ConvertedType) -> bool {
    matches!(
        kind,
        ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
            | ConvertedType::UINT_8
            | ConvertedType::UINT_16
            | ConvertedType::UINT_32
            | ConvertedType::UINT_64
    )
}

/// The type under which the decoder sees a column of strings: a column of numbers.
fn number_column(field: Field, has_levels: bool) -> Result<ColumnDescPtr, String> {
    let repetition = if has_levels { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let kind = Type::primitive_type_builder(field.name(), Physical::INT32).with_repetition(repetition).build();
    let kind = kind.map_err(|error| error.to_string())?;
    Ok(Arc::new(ColumnDescriptor::new(Arc::new(kind), i16::from(has_levels), 0, field.name().into())))
}
