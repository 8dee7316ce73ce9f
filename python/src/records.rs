//! Records of single I/Os, as `forebay bench --records` writes them.

use crate::column::{self, Column};
use crate::error::{format_error, of_records};
use forebay_bench::telemetry::{Reader, Record, TelemetryError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Reads a file `NAME.fbt`, some rows at a time.
#[pyclass(frozen)]
pub struct RecordsReader {
    path: PathBuf,
    columns: Vec<String>,
    state: Mutex<State>,
}

struct State {
    reader: Reader<File>,
    rows: Vec<Row>,
    /// What is reported once the rows before it were given.
    failed: Option<TelemetryError>,
    is_over: bool,
}

/// A record and who made it.
struct Row {
    job: u32,
    thread: u32,
    record: Record,
}

#[pymethods]
impl RecordsReader {
    /// Opens a file; only the columns named are made.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, columns: Vec<String>) -> PyResult<Self> {
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format_error(format!("{}: is no regular file", path.display())));
        }
        let reader = py.detach(|| Reader::open(&path)).map_err(|error| of_records(&path, &error))?;
        let state = State { reader, rows: Vec::new(), failed: None, is_over: false };
        Ok(Self { path, columns, state: Mutex::new(state) })
    }

    /// The next rows, at most so many; `None` at the end.
    fn read<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let made = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.fill(rows);
            if state.rows.is_empty() {
                return state.failed.take().map_or(Ok(None), |error| Err(of_records(&self.path, &error)));
            }
            let count = rows.min(state.rows.len());
            let columns = self.columns.iter().map(|name| Ok((name.clone(), column(name, &state.rows[..count])?)));
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            state.rows.drain(..count);
            Ok(Some(columns))
        })?;
        made.map(|columns| column::into_python(py, columns)).transpose()
    }

    /// Names of the jobs, by number.
    fn jobs(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).reader.header().jobs.clone()
    }

    /// What the file says of its run, and what was found up to now, as JSON.
    fn facts(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (header, summary) = (state.reader.header(), state.reader.summary());
        let run_id: String = header.run_id.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "run_id": run_id,
            "begin_unix_ns": header.begin_unix_ns,
            "metadata": header.metadata,
            "records": summary.records,
            "dropped": summary.dropped,
            "is_whole": summary.is_whole(),
            "has_footer": summary.footer.is_some(),
            "missing_segments": summary.missing_segments,
            "damaged_bytes": summary.damaged_bytes,
            "torn_tail_bytes": summary.torn_tail_bytes,
        })
        .to_string()
    }
}

impl State {
    /// Reads until there are so many rows, or no more.
    fn fill(&mut self, rows: usize) {
        while self.rows.len() < rows && !self.is_over {
            let segment = match self.reader.next_segment() {
                Ok(Some(segment)) => segment,
                Ok(None) => {
                    self.is_over = true;
                    return;
                }
                Err(error) => return self.fail(error),
            };
            if let Err(error) = segment.check_signed() {
                return self.fail(error);
            }
            let (job, thread) = (segment.job, segment.thread);
            self.rows.extend(segment.records.iter().map(|&record| Row { job, thread, record }));
        }
    }

    fn fail(&mut self, error: TelemetryError) {
        self.failed = Some(error);
        self.is_over = true;
    }
}

/// The column `name` of these rows. Values fit: each segment was checked.
fn column(name: &str, rows: &[Row]) -> PyResult<Column> {
    let i64s =
        |value: fn(&Record) -> u64| Column::I64(rows.iter().map(|row| value(&row.record).cast_signed()).collect());
    Ok(match name {
        "job" => Column::I32(rows.iter().map(|row| row.job.cast_signed()).collect()),
        "thread" => Column::I32(rows.iter().map(|row| row.thread.cast_signed()).collect()),
        "op" => Column::U8(rows.iter().map(|row| row.record.kind as u8).collect()),
        "intended_ns" => i64s(|record| record.intended_ns),
        "submitted_ns" => i64s(|record| record.submitted_ns),
        "completed_ns" => i64s(|record| record.completed_ns),
        // Differences of two that are not negative always fit.
        "submission_latency_ns" => i64s(|record| record.submitted_ns.wrapping_sub(record.intended_ns)),
        "device_latency_ns" => i64s(|record| record.completed_ns.wrapping_sub(record.submitted_ns)),
        "total_latency_ns" => i64s(|record| record.completed_ns.wrapping_sub(record.intended_ns)),
        "offset_bytes" => i64s(|record| record.offset_bytes),
        "size_bytes" => Column::U32(rows.iter().map(|row| row.record.len_bytes).collect()),
        "depth" => Column::I32(rows.iter().map(|row| i32::from(row.record.depth)).collect()),
        "error" => Column::U8(rows.iter().map(|row| u8::from(row.record.failed)).collect()),
        other => return Err(format_error(format!("records have no column {other:?}"))),
    })
}
