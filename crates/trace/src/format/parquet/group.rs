//! Writes row groups.

use super::texts::{Texts, text};
use super::{FORMAT, KEY_TRACE, KEY_VERSION, KEY_VOLUME, VERSION};
use crate::{Flags, Knows, Lifetime, NOT_KNOWN, Op, Request, TraceError};
use ::parquet::basic::{Compression, Encoding};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{WriterProperties, WriterVersion};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;
use bytes::Bytes;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group.
pub(super) const ROW_GROUP_ROWS: usize = 512 << 10;
/// Values that are made at a time for one column.
const BATCH: usize = 8 << 10;
/// Most bytes of a dictionary; in a row group that needs more, the rest of the column is plain strings.
const DICTIONARY_BYTES: usize = 4 << 20;

/// The columns, in the order in which [`write_rows`] fills them. In a partition by volume the directory gives the volume, and query engines
/// do not want such a column.
fn schema(has_volume: bool) -> String {
    let volume = if has_volume { "OPTIONAL BYTE_ARRAY volume (STRING);" } else { "" };
    format!(
        "message forebay_trace {{
            REQUIRED INT64 issued_ns (INTEGER(64, true));
            REQUIRED BYTE_ARRAY op (STRING);
            REQUIRED INT64 offset_bytes (INTEGER(64, true));
            REQUIRED INT64 size_bytes (INTEGER(64, true));
            OPTIONAL INT64 latency_ns (INTEGER(64, true));
            OPTIONAL INT64 queued_ns (INTEGER(64, true));
            {volume}
            OPTIONAL BYTE_ARRAY lifetime (STRING);
            OPTIONAL INT32 flags (INTEGER(32, true));
            OPTIONAL BOOLEAN meta;
            OPTIONAL BOOLEAN sync;
            OPTIONAL BOOLEAN fua;
            OPTIONAL INT32 depth (INTEGER(32, true));
            OPTIONAL INT32 io_class (INTEGER(32, true));
            OPTIONAL BYTE_ARRAY process (STRING);
            OPTIONAL INT32 pid (INTEGER(32, false));
            OPTIONAL INT64 cgroup (INTEGER(64, false));
            OPTIONAL INT64 inode (INTEGER(64, false));
            OPTIONAL BYTE_ARRAY path (STRING);
        }}"
    )
}

/// Dictionaries for columns whose values repeat, differences for growing or scattered values; Snappy, which costs little.
fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("Forebay {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_write_batch_size(BATCH);
    for column in ["issued_ns", "offset_bytes", "latency_ns", "queued_ns"] {
        let path = ColumnPath::from(column);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

/// A Parquet file being written.
pub(super) struct Groups {
    writer: SerializedFileWriter<File>,
    has_volume: bool,
    knows: Knows,
}

impl Groups {
    pub fn new(file: File, has_volume: bool, knows: Knows) -> Result<Self, ParquetError> {
        let schema = Arc::new(parse_message_type(&schema(has_volume))?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties()))?;
        Ok(Self { writer, has_volume, knows })
    }

    /// Writes `rows` as one row group.
    pub fn write(&mut self, rows: &[Request], texts: &Texts) -> Result<(), ParquetError> {
        let group = Group { writer: self.writer.next_row_group()?, rows };
        write_rows(group, texts, self.knows, self.has_volume)
    }

    /// Writes the index. `trace` is the JSON of the trace, `volume` the name of the file's only volume.
    pub fn finish(mut self, trace: String, volume: Option<&str>) -> Result<(), ParquetError> {
        let volume = volume.map(|volume| (KEY_VOLUME, volume.to_owned()));
        for (key, value) in [(KEY_VERSION, VERSION.to_owned()), (KEY_TRACE, trace)].into_iter().chain(volume) {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self.writer.close().map(drop)
    }
}

/// A row group whose columns are written one after the other.
struct Group<'a, 'r> {
    writer: SerializedRowGroupWriter<'a, File>,
    rows: &'r [Request],
}

impl Group<'_, '_> {
    /// Writes the next column, which has no nulls; `value` returns the value of a request.
    fn all<T: DataType>(&mut self, value: impl Fn(&Request) -> T::T) -> Result<(), ParquetError> {
        let mut column = next(&mut self.writer)?;
        let mut values = Vec::with_capacity(BATCH);
        for rows in self.rows.chunks(BATCH) {
            values.clear();
            values.extend(rows.iter().map(&value));
            column.typed::<T>().write_batch(&values, None, None)?;
        }
        column.close()
    }

    /// Writes the next column; `value` returns the value of a request, or `None` for null.
    fn some<T: DataType>(&mut self, value: impl Fn(&Request) -> Option<T::T>) -> Result<(), ParquetError> {
        let mut column = next(&mut self.writer)?;
        let (mut values, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        for rows in self.rows.chunks(BATCH) {
            values.clear();
            levels.clear();
            for row in rows {
                let value = value(row);
                levels.push(i16::from(value.is_some()));
                values.extend(value);
            }
            column.typed::<T>().write_batch(&values, Some(&levels), None)?;
        }
        column.close()
    }
}

fn next<'a>(writer: &'a mut SerializedRowGroupWriter<'_, File>) -> Result<SerializedColumnWriter<'a>, ParquetError> {
    writer.next_column()?.ok_or_else(|| ParquetError::General("fewer columns in the schema than are filled".to_owned()))
}

/// Writes all columns in the order of [`schema`]. Values fit: [`unfit`] has checked.
fn write_rows(mut group: Group<'_, '_>, texts: &Texts, knows: Knows, has_volume: bool) -> Result<(), ParquetError> {
    let ops = Op::ALL.map(|op| fixed(op.name()));
    let lifetimes = Lifetime::ALL.map(|lifetime| fixed(lifetime.name()));
    let known = |value: u64| (value != NOT_KNOWN).then_some(value.cast_signed());
    // A trace without flags may still have some, such as that of an error.
    let has_flags =
        |r: &Request| r.flags.reported() != Flags::default() || knows.flags && !r.flags.has(Flags::NOT_KNOWN);
    let flag = |r: &Request, flag: Flags| has_flags(r).then_some(r.flags.has(flag));
    let has_lifetime =
        |r: &Request| r.lifetime != Lifetime::NotSet || knows.lifetime && !r.flags.has(Flags::NO_LIFETIME);
    group.all::<Int64Type>(|r| r.issued_ns.cast_signed())?;
    group.all::<ByteArrayType>(|r| ops[r.op as usize].clone())?;
    group.all::<Int64Type>(|r| r.offset_bytes.cast_signed())?;
    group.all::<Int64Type>(|r| r.len_bytes.cast_signed())?;
    group.some::<Int64Type>(|r| known(r.latency_ns))?;
    group.some::<Int64Type>(|r| known(r.queued_ns))?;
    if has_volume {
        group.some::<ByteArrayType>(|r| text(&texts.volumes, r.volume))?;
    }
    group.some::<ByteArrayType>(|r| has_lifetime(r).then(|| lifetimes[r.lifetime as usize].clone()))?;
    group.some::<Int32Type>(|r| has_flags(r).then_some(i32::from(r.flags.reported().0)))?;
    group.some::<BoolType>(|r| flag(r, Flags::META))?;
    group.some::<BoolType>(|r| flag(r, Flags::SYNC))?;
    group.some::<BoolType>(|r| flag(r, Flags::FUA))?;
    group.some::<Int32Type>(|r| (r.depth != 0).then_some(i32::from(r.depth)))?;
    group.some::<Int32Type>(|r| (r.io_class != Request::NO_CLASS).then_some(i32::from(r.io_class)))?;
    group.some::<ByteArrayType>(|r| text(&texts.processes, r.process))?;
    group.some::<Int32Type>(|r| (r.pid != 0).then_some(r.pid.cast_signed()))?;
    group.some::<Int64Type>(|r| (r.cgroup != 0).then_some(r.cgroup.cast_signed()))?;
    group.some::<Int64Type>(|r| (r.inode != 0).then_some(r.inode.cast_signed()))?;
    group.some::<ByteArrayType>(|r| text(&texts.paths, r.path))?;
    group.writer.close()?;
    Ok(())
}

/// A string that can be copied without cost.
fn fixed(text: &'static str) -> ByteArray {
    ByteArray::from(Bytes::from_static(text.as_bytes()))
}

/// The value of a request that the columns cannot hold, if any: they have 63 bits. Writers leave such requests out and count them.
#[must_use]
pub fn unfit(request: &Request) -> Option<(&'static str, u64)> {
    [
        ("issued_ns", request.issued_ns, false),
        ("offset_bytes", request.offset_bytes, false),
        ("size_bytes", request.len_bytes, false),
        ("latency_ns", request.latency_ns, true),
        ("queued_ns", request.queued_ns, true),
    ]
    .into_iter()
    .find(|&(_, value, may_lack)| value > i64::MAX as u64 && !(may_lack && value == NOT_KNOWN))
    .map(|(name, value, _)| (name, value))
}

/// Converts an error of the crate while `path` is written.
pub(super) fn failed(path: &Path, error: ParquetError) -> TraceError {
    let source = match error {
        // The operating system's error is the most informative.
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(format!("{FORMAT}: {error}")),
    };
    TraceError::WriteFile { path: path.to_owned(), source }
}
