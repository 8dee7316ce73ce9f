//! Writes results of analyses as two Parquet tables: figures for each row of each trace, and all curves and distributions as points.
//! Schema: `docs/analyze.md`.

use super::{KEY_VERSION, VERSION};
use crate::TraceError;
use crate::analysis::{Direction, Report, Row, Spread};
use crate::format::PartialFile;
use ::parquet::basic::Compression;
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of traces whose figures make one row group; bounds the memory for the points of a fleet.
const GROUP_TRACES: usize = 1024;

/// The results of one analysed trace.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Its name.
    pub trace: &'a str,
    /// Number of requests that were analysed.
    pub requests: u64,
    /// Number of parts that could not be read.
    pub faults: u64,
    /// Whether the trace could not be read to its end.
    pub is_cut: bool,
    /// The report of the analysis.
    pub report: &'a Report,
}

/// The path of the points: `NAME.curves.parquet` beside `NAME.parquet`.
#[must_use]
pub fn curves_path(path: &Path) -> PathBuf {
    path.with_extension("curves.parquet")
}

/// Writes both tables; neither file may exist. Both appear complete, or neither does.
///
/// # Errors
/// A file exists, or cannot be written.
pub fn write_figures(path: &Path, traces: &[Figures<'_>]) -> Result<(), TraceError> {
    let mut rows = Table::create(path, "forebay_rows", of_rows())?;
    let mut points = Table::create(&curves_path(path), "forebay_curves", of_points())?;
    for group in traces.chunks(GROUP_TRACES) {
        let all: Vec<(Figures<'_>, &Row)> =
            group.iter().flat_map(|figures| figures.report.rows.iter().map(|row| (*figures, row))).collect();
        rows.write(&all)?;
        points.write(&group.iter().flat_map(all_points).collect::<Vec<_>>())?;
    }
    let (rows, points) = (rows.finish()?, points.finish()?);
    rows.finish()?;
    points.finish()
}

type Number<R, T> = Box<dyn Fn(&R) -> Option<T>>;
type Quantile = fn(&Spread) -> u64;

/// How to get the value of a column; `None` is null.
enum Get<R> {
    Text(fn(&R) -> Option<String>),
    Int(Number<R, u64>),
    Real(Number<R, f64>),
}

struct Column<R> {
    name: String,
    get: Get<R>,
}

/// The columns of a table, in order.
struct Columns<R>(Vec<Column<R>>);

impl<R> Columns<R> {
    fn text(mut self, name: &str, get: fn(&R) -> Option<String>) -> Self {
        self.0.push(Column { name: name.to_owned(), get: Get::Text(get) });
        self
    }

    fn int(mut self, name: &str, get: impl Fn(&R) -> Option<u64> + 'static) -> Self {
        self.0.push(Column { name: name.to_owned(), get: Get::Int(Box::new(get)) });
        self
    }

    fn real(mut self, name: &str, get: impl Fn(&R) -> Option<f64> + 'static) -> Self {
        self.0.push(Column { name: name.to_owned(), get: Get::Real(Box::new(get)) });
        self
    }
}

type TracedRow<'a> = (Figures<'a>, &'a Row);

/// Columns of the table of rows. Facts about the whole trace are named `trace_...` and repeated in each of its rows.
fn of_rows<'a>() -> Columns<TracedRow<'a>> {
    Columns::<TracedRow<'a>>(Vec::new())
        .text("trace", |(of, _)| Some(of.trace.to_owned()))
        .text("row", |(_, row)| Some(row.name.clone()))
        .text("letter", |(_, row)| row.letter.map(String::from))
        .int("occupancy_bytes", |(_, row)| Some(row.occupancy_bytes))
        .int("written_bytes", |(_, row)| Some(row.written_bytes))
        .real("alpha", |(_, row)| row.alpha)
        .real("beta", |(_, row)| row.beta)
        .int("writes", |(_, row)| Some(row.writes))
        .int("reads", |(_, row)| Some(row.reads))
        .int("read_bytes", |(_, row)| Some(row.read_bytes))
        .int("discarded_bytes", |(_, row)| Some(row.discarded_bytes))
        .spread("read_latency", "_ns", |row| row.latency.read_ns.as_ref())
        .spread("write_latency", "_ns", |row| row.latency.write_ns.as_ref())
        .spread("life", "_ns", |row| row.life_ns.as_ref())
        .spread("life_written", "_bytes", |row| row.life_bytes.as_ref())
        .int("trace_requests", |(of, _)| Some(of.requests))
        .int("trace_faults", |(of, _)| Some(of.faults))
        .int("trace_is_cut", |(of, _)| Some(u64::from(of.is_cut)))
        .int("trace_one_block_in", |(of, _)| Some(of.report.one_block_in))
        .int("trace_duration_ns", |(of, _)| of.report.duration_ns)
        .int("trace_footprint_bytes", |(of, _)| Some(of.report.footprint_bytes))
        .int("trace_written_footprint_bytes", |(of, _)| Some(of.report.written_footprint_bytes))
        .real("trace_beta", |(of, _)| of.report.beta)
        .real("trace_alpha_fast", |(of, _)| of.report.alpha_fast)
        .int("trace_fast_bytes", |(of, _)| Some(of.report.fast_bytes))
        .int("trace_block_accesses", |(of, _)| Some(of.report.block_accesses))
        .int("trace_back_in_time", |(of, _)| Some(of.report.back_in_time))
        .int("trace_absurd", |(of, _)| Some(of.report.absurd))
}

/// The quantiles of a distribution, by name.
const QUANTILES: [(&str, Quantile); 5] =
    [("p50", |of| of.p50), ("p90", |of| of.p90), ("p99", |of| of.p99), ("p99_9", |of| of.p99_9), ("max", |of| of.max)];

impl Columns<TracedRow<'_>> {
    /// Adds the seven figures of a distribution.
    fn spread(mut self, name: &str, unit: &str, get: fn(&Row) -> Option<&Spread>) -> Self {
        self = self.real(&format!("{name}_count"), move |(_, row)| get(row).map(|of| of.count));
        self = self.real(&format!("{name}_mean{unit}"), move |(_, row)| get(row).map(|of| of.mean));
        for (quantile, of) in QUANTILES {
            self = self.int(&format!("{name}_{quantile}{unit}"), move |(_, row)| get(row).map(of));
        }
        self
    }
}

/// A point of a curve.
struct Point<'a> {
    trace: &'a str,
    kind: &'static str,
    series: &'a str,
    x: f64,
    y: f64,
}

fn of_points<'a>() -> Columns<Point<'a>> {
    Columns::<Point<'a>>(Vec::new())
        .text("trace", |point| Some(point.trace.to_owned()))
        .text("kind", |point| Some(point.kind.to_owned()))
        .text("series", |point| Some(point.series.to_owned()).filter(|series| !series.is_empty()))
        .real("x", |point| Some(point.x))
        .real("y", |point| Some(point.y))
}

fn all_points<'a>(of: &Figures<'a>) -> Vec<Point<'a>> {
    let (trace, report) = (of.trace, of.report);
    let mut points = Vec::new();
    let mut add = |kind, series, x: f64, y: Option<f64>| {
        points.extend(y.map(|y| Point { trace, kind, series, x, y }));
    };
    for point in &report.curve {
        let size = point.size_bytes as f64;
        add("miss_ratio", "", size, point.miss_ratio);
        add("read_miss_ratio", "", size, point.read_miss_ratio);
        add("alpha", "", size, point.alpha);
    }
    for depth in &report.depths {
        for &(at, requests, time) in &depth.histogram {
            add("depth_requests", &depth.process, at as f64, Some(requests));
            add("depth_time", &depth.process, at as f64, Some(time));
        }
    }
    for operation in &report.operations {
        add("requests", operation.op, 0.0, Some(operation.requests as f64));
        add("bytes", operation.op, 0.0, Some(operation.bytes as f64));
    }
    for burst in &report.bursts {
        let window = burst.window_ns as f64;
        add("burst_busy", "", window, Some(burst.busy));
        add("burst_p99_bytes_per_s", "", window, Some(burst.p99_bytes_per_s));
        add("burst_max_bytes_per_s", "", window, Some(burst.max_bytes_per_s));
        add("burst_max_over_mean", "", window, Some(burst.max_over_mean));
    }
    for slice in &report.over_time.slices {
        let begin = slice.begin as f64;
        for (series, touched) in [("", &slice.all), ("read", &slice.reads), ("write", &slice.writes)] {
            let real = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
            add("slice_bytes", series, begin, Some(touched.moved_bytes as f64));
            add("working_set_bytes", series, begin, real(touched.block_bytes));
            add("working_set_new_bytes", series, begin, real(touched.new_block_bytes));
        }
    }
    for (series, direction) in [("read", &report.reads), ("write", &report.writes)] {
        let Direction { aligned_4k, aligned_512, sequential, sequential_bytes, .. } = *direction;
        add("aligned_share", series, 4096.0, aligned_4k);
        add("aligned_share", series, 512.0, aligned_512);
        add("sequential_share", series, 0.0, sequential);
        add("sequential_bytes_share", series, 0.0, sequential_bytes);
    }
    let spreads = [
        ("size_bytes", "read", &report.reads.sizes),
        ("size_bytes", "write", &report.writes.sizes),
        ("run_bytes", "read", &report.reads.runs),
        ("run_bytes", "write", &report.writes.runs),
        ("gap_ns", "", &report.gaps_ns),
        ("overwrite_ns", "", &report.overwrite_ns),
        ("overwrite_bytes", "", &report.overwrite_bytes),
        ("reread_ns", "", &report.reread_ns),
    ];
    for (kind, series, found) in spreads {
        let Some(found) = found else { continue };
        let quantiles = [(0.5, found.p50), (0.9, found.p90), (0.99, found.p99), (0.999, found.p99_9), (1.0, found.max)];
        for (share, value) in quantiles {
            add(kind, series, share, Some(value as f64));
        }
    }
    points
}

/// A table that is being written.
struct Table<R> {
    columns: Vec<Column<R>>,
    writer: SerializedFileWriter<File>,
    partial: PartialFile,
}

impl<R> Table<R> {
    fn create(path: &Path, name: &str, columns: Columns<R>) -> Result<Self, TraceError> {
        let Columns(columns) = columns;
        let partial = PartialFile::create(path)?;
        let failed = |source| TraceError::WriteFile { path: path.to_owned(), source };
        let fields: Vec<String> = columns
            .iter()
            .map(|column| {
                let name = &column.name;
                match column.get {
                    Get::Text(_) => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
                    Get::Int(_) => format!("OPTIONAL INT64 {name} (INTEGER(64, true));"),
                    Get::Real(_) => format!("OPTIONAL DOUBLE {name};"),
                }
            })
            .collect();
        let file = partial.file().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_created_by(format!("Forebay {}", env!("CARGO_PKG_VERSION")))
            .set_compression(Compression::SNAPPY)
            .build();
        let schema = parse_message_type(&format!("message {name} {{ {} }}", fields.concat()));
        let writer = schema
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)))
            .map_err(|error| failed(std::io::Error::other(error)))?;
        Ok(Self { columns, writer, partial })
    }

    fn write(&mut self, rows: &[R]) -> Result<(), TraceError> {
        if rows.is_empty() {
            return Ok(());
        }
        let written = self.try_write(rows);
        written.map_err(|error| failed(&self.partial, error))
    }

    fn try_write(&mut self, rows: &[R]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for column in &self.columns {
            match &column.get {
                Get::Text(get) => {
                    let value = |row: &R| get(row).map(|text| ByteArray::from(text.into_bytes()));
                    put::<ByteArrayType, _>(&mut group, rows, value)?;
                }
                Get::Int(get) => {
                    // 2^63 bytes or requests do not occur.
                    let value = |row: &R| get(row).map(|value| i64::try_from(value).unwrap_or(i64::MAX));
                    put::<Int64Type, _>(&mut group, rows, value)?;
                }
                Get::Real(get) => put::<DoubleType, _>(&mut group, rows, get)?,
            }
        }
        group.close().map(drop)
    }

    /// Ends the table; returns the file, which is to get its name.
    fn finish(mut self) -> Result<PartialFile, TraceError> {
        self.writer.append_key_value_metadata(KeyValue::new(KEY_VERSION.to_owned(), VERSION.to_owned()));
        self.writer.close().map_err(|error| failed(&self.partial, error))?;
        Ok(self.partial)
    }
}

fn failed(partial: &PartialFile, error: ParquetError) -> TraceError {
    TraceError::WriteFile { path: partial.to().to_owned(), source: std::io::Error::other(error) }
}

/// Writes a column of a row group.
fn put<T: DataType, R>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[R],
    get: impl Fn(&R) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let found: Vec<Option<T::T>> = rows.iter().map(get).collect();
    let levels: Vec<i16> = found.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = found.into_iter().flatten().collect();
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(&values, Some(&levels), None)?;
        column.close()?;
    }
    Ok(())
}

#[cfg(test)]
// In tests, a panic reports the failure.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Options};
    use crate::{Knows, Names, Op, Request};
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;

    fn report() -> Report {
        let mut analysis = Analysis::new(&Options::default());
        let request =
            |at: u64, op, offset_bytes| Request { latency_ns: 7, ..Request::new(at * 1000, op, offset_bytes, 4096) };
        let requests =
            [request(0, Op::Write, 0), request(1, Op::Write, 0), request(2, Op::Write, 8192), request(3, Op::Read, 0)];
        analysis.add(&requests, &Names::default(), Knows { op: true, time: true, latency: true, ..Knows::default() });
        analysis.finish(&Names::default())
    }

    #[test]
    fn figures_come_back_with_their_types() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("found.parquet");
        let report = report();
        let of = |trace| Figures { trace, requests: 4, faults: 0, is_cut: false, report: &report };
        write_figures(&path, &[of("a"), of("b")]).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let columns = reader.metadata().file_metadata().schema_descr().columns().to_vec();
        let at = |name: &str| columns.iter().position(|column| column.name() == name).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 2 * report.rows.len());
        let (row, found) = (&rows[0], &report.rows[0]);
        assert_eq!(row.get_string(at("trace")).unwrap(), "a");
        assert_eq!(row.get_string(at("row")).unwrap(), &found.name);
        assert_eq!(row.get_long(at("written_bytes")).unwrap(), found.written_bytes.cast_signed());
        assert_eq!(row.get_double(at("beta")).ok(), found.beta);
        assert_eq!(
            row.get_long(at("write_latency_p99_ns")).ok(),
            found.latency.write_ns.as_ref().map(|of| of.p99.cast_signed())
        );
        assert_eq!(row.get_long(at("trace_requests")).unwrap(), 4);
        let reader = SerializedFileReader::new(File::open(curves_path(&path)).unwrap()).unwrap();
        let points: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        let alphas =
            points.iter().filter(|row| row.get_string(0).unwrap() == "b" && row.get_string(1).unwrap() == "alpha");
        assert_eq!(alphas.count(), report.curve.iter().filter(|point| point.alpha.is_some()).count());
        let sets = points.iter().filter(|row| {
            row.get_string(0).unwrap() == "b"
                && row.get_string(1).unwrap() == "working_set_bytes"
                && row.is_null(2).unwrap()
        });
        let sets: Vec<(f64, f64)> = sets.map(|row| (row.get_double(3).unwrap(), row.get_double(4).unwrap())).collect();
        assert_eq!(sets.len(), report.over_time.slices.len());
        assert_eq!((sets[0], sets.iter().map(|set| set.1).sum::<f64>()), ((0.0, 4096.0), 4.0 * 4096.0));
        let writes = points.iter().find(|row| {
            row.get_string(1).unwrap() == "requests" && row.get_string(2).ok().is_some_and(|op| op == "write")
        });
        assert_eq!(writes.unwrap().get_double(4).unwrap(), 3.0);
    }

    #[test]
    fn nothing_is_overwritten_and_nothing_left_half() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("found.parquet");
        std::fs::write(curves_path(&path), "mine").unwrap();
        assert!(write_figures(&path, &[]).is_err());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(std::fs::read(curves_path(&path)).unwrap(), b"mine");
    }
}
