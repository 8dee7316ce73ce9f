//! Telemetry as a Parquet file, for tools that analyse many runs at once. Schema: `docs/telemetry.md`.

use super::error::TelemetryError;
use super::reader::{Reader, Segment, Summary};
use super::record::Record;
use ::parquet::basic::{Compression, Encoding};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{WriterProperties, WriterVersion};
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::ColumnPath;
use forebay_block::OpKind;
use std::io::{Read, Write};
use std::sync::Arc;

/// Fewest rows of a row group, except the last; a group has at most one segment more.
const ROW_GROUP_ROWS: usize = 512 << 10;
/// Values that are made at a time for one column.
const BATCH: usize = 8 << 10;

/// The columns, in the order in which [`write_group`] fills them.
const SCHEMA: &str = "message forebay_io {
    REQUIRED BYTE_ARRAY job (STRING);
    REQUIRED INT32 thread (INTEGER(32, true));
    REQUIRED BYTE_ARRAY op (STRING);
    REQUIRED INT64 intended_ns (INTEGER(64, true));
    REQUIRED INT64 submitted_ns (INTEGER(64, true));
    REQUIRED INT64 completed_ns (INTEGER(64, true));
    REQUIRED INT64 submission_latency_ns (INTEGER(64, true));
    REQUIRED INT64 device_latency_ns (INTEGER(64, true));
    REQUIRED INT64 total_latency_ns (INTEGER(64, true));
    REQUIRED INT64 offset_bytes (INTEGER(64, true));
    REQUIRED INT32 size_bytes (INTEGER(32, false));
    REQUIRED INT32 depth (INTEGER(32, true));
    REQUIRED BOOLEAN error;
}";

/// Converts everything that `reader` provides, row group by row group. Needs about 30 MB, whatever the length. What is in `out` is useless
/// until this returns, as the index of a Parquet file comes last. Damage in what is read is no error: the summary and the file's metadata
/// report it.
///
/// # Errors
/// Reading or writing fails, or a time or an offset exceeds 2^63-1, which only happens in foreign files.
pub fn convert<R: Read, W: Write + Send>(reader: Reader<R>, out: W) -> Result<Summary, TelemetryError> {
    convert_in_groups(reader, out, ROW_GROUP_ROWS)
}

/// Like [`convert`], with row groups of at least `rows` rows.
pub(super) fn convert_in_groups<R: Read, W: Write + Send>(
    mut reader: Reader<R>,
    out: W,
    group_rows: usize,
) -> Result<Summary, TelemetryError> {
    let failed = |source| TelemetryError::Parquet { source };
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties())).map_err(failed)?;
    let header = reader.header().clone();
    let jobs: Vec<ByteArray> = header.jobs.iter().map(|name| ByteArray::from(name.as_str())).collect();
    let ops = OpKind::ALL.map(|kind| ByteArray::from(kind.name()));
    let mut rows = Rows::default();
    while let Some(segment) = reader.next_segment()? {
        rows.add(segment)?;
        if rows.records.len() >= group_rows {
            write_group(writer.next_row_group().map_err(failed)?, &rows, &jobs, &ops).map_err(failed)?;
            rows.clear();
        }
    }
    if !rows.records.is_empty() {
        write_group(writer.next_row_group().map_err(failed)?, &rows, &jobs, &ops).map_err(failed)?;
    }
    let summary = *reader.summary();
    let run_id: String = header.run_id.iter().map(|byte| format!("{byte:02x}")).collect();
    for (key, value) in [
        ("forebay.schema_version", "1".to_owned()),
        ("forebay.run_id", run_id),
        ("forebay.begin_unix_ns", header.begin_unix_ns.to_string()),
        ("forebay.metadata", header.metadata),
        ("forebay.records", summary.records.to_string()),
        ("forebay.records_dropped", summary.dropped.to_string()),
        ("forebay.whole", summary.is_whole().to_string()),
        ("forebay.missing_segments", summary.missing_segments.to_string()),
        ("forebay.damaged_bytes", summary.damaged_bytes.to_string()),
        ("forebay.torn_tail_bytes", summary.torn_tail_bytes.to_string()),
    ] {
        writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }
    writer.close().map_err(failed)?;
    Ok(summary)
}

/// Dictionaries for columns whose values repeat, differences for growing ones; Snappy, which costs little.
fn properties() -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("Forebay {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(true)
        .set_write_batch_size(BATCH);
    for column in [
        "intended_ns",
        "submitted_ns",
        "completed_ns",
        "submission_latency_ns",
        "device_latency_ns",
        "total_latency_ns",
        "offset_bytes",
    ] {
        let path = ColumnPath::from(column);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    builder.build()
}

/// The rows of the next row group.
#[derive(Default)]
struct Rows {
    records: Vec<Record>,
    /// Job and thread of the records up to an index, in order.
    runs: Vec<(usize, u32, u32)>,
}

impl Rows {
    fn add(&mut self, segment: &Segment) -> Result<(), TelemetryError> {
        segment.check_signed()?;
        self.records.extend_from_slice(&segment.records);
        self.runs.push((self.records.len(), segment.job, segment.thread));
        Ok(())
    }

    fn clear(&mut self) {
        self.records.clear();
        self.runs.clear();
    }
}

/// A row group whose columns are written one after the other.
struct Group<'a, 'r, W: Write + Send> {
    writer: SerializedRowGroupWriter<'a, W>,
    rows: &'r Rows,
}

impl<W: Write + Send> Group<'_, '_, W> {
    /// Writes the next column; `value` returns the value of a record.
    fn column<T: DataType>(&mut self, value: impl Fn(&Record) -> T::T) -> Result<(), ParquetError> {
        let mut column = next(&mut self.writer)?;
        for records in self.rows.records.chunks(BATCH) {
            let values: Vec<T::T> = records.iter().map(&value).collect();
            column.typed::<T>().write_batch(&values, None, None)?;
        }
        column.close()
    }

    /// Writes the next column; `value` returns the value for the job and thread of a record.
    fn column_of_runs<T: DataType>(&mut self, value: impl Fn(u32, u32) -> T::T) -> Result<(), ParquetError> {
        let mut column = next(&mut self.writer)?;
        let mut begin = 0;
        for &(end, job, thread) in &self.rows.runs {
            let values = vec![value(job, thread); BATCH.min(end - begin)];
            while begin < end {
                let count = values.len().min(end - begin);
                column.typed::<T>().write_batch(&values[..count], None, None)?;
                begin += count;
            }
        }
        column.close()
    }
}

fn next<'a, W: Write + Send>(
    writer: &'a mut SerializedRowGroupWriter<'_, W>,
) -> Result<::parquet::file::writer::SerializedColumnWriter<'a>, ParquetError> {
    writer.next_column()?.ok_or_else(|| ParquetError::General("fewer columns in the schema than are filled".to_owned()))
}

/// Writes all columns, in the order of [`SCHEMA`].
fn write_group<W: Write + Send>(
    writer: SerializedRowGroupWriter<'_, W>,
    rows: &Rows,
    jobs: &[ByteArray],
    ops: &[ByteArray; OpKind::ALL.len()],
) -> Result<(), ParquetError> {
    let mut group = Group { writer, rows };
    // The reader only returns jobs with a name. Values fit: Rows::add has checked, and differences of two values that are not negative
    // always fit.
    group.column_of_runs::<ByteArrayType>(|job, _| jobs.get(job as usize).cloned().unwrap_or_default())?;
    group.column_of_runs::<Int32Type>(|_, thread| thread.cast_signed())?;
    group.column::<ByteArrayType>(|r| ops[r.kind as usize].clone())?;
    group.column::<Int64Type>(|r| r.intended_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.submitted_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.completed_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.submitted_ns.cast_signed() - r.intended_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.completed_ns.cast_signed() - r.submitted_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.completed_ns.cast_signed() - r.intended_ns.cast_signed())?;
    group.column::<Int64Type>(|r| r.offset_bytes.cast_signed())?;
    group.column::<Int32Type>(|r| r.len_bytes.cast_signed())?;
    group.column::<Int32Type>(|r| i32::from(r.depth))?;
    group.column::<BoolType>(|r| r.failed)?;
    group.writer.close()?;
    Ok(())
}
