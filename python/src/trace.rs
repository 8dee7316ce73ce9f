//! Traces: recordings of `forebay record`, and every other format that `forebay convert` reads.

use crate::column::{self, Column};
use crate::error::{format_error, of_trace};
use forebay_trace::format::parquet::{Wanted, knowledge, partitions, unfit};
use forebay_trace::format::{self, Format, segments};
use forebay_trace::{Fault, Faults, Flags, Knows, Lifetime, NameTable, Names, Request, Source, TraceError, generate};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Stands for a lifetime of which nothing is known.
const NO_LIFETIME: u8 = u8::MAX;

/// Reads a trace, some rows at a time, in the order in which it has them.
#[pyclass(frozen)]
pub struct TraceReader {
    path: PathBuf,
    columns: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    format: Option<Format>,
    wanted: Option<Wanted>,
    /// Files that come after the one that is read.
    files: VecDeque<PathBuf>,
    source: Option<Box<dyn Source + Send>>,
    rows: Vec<Request>,
    names: Names,
    knows: Knows,
    notes: Vec<String>,
    /// Of sources that were read to their end, and of all.
    faults_before: Faults,
    faults: Faults,
    /// Requests that the columns cannot hold, by their number among all.
    refused: Faults,
    received: u64,
    /// What is reported once the rows before it were given.
    failed: Option<TraceError>,
    /// What a capture says of itself.
    capture: Option<segments::Header>,
}

#[pymethods]
impl TraceReader {
    /// Opens a trace: a file, a directory by volume, or a generator by its name. Only the columns named are made.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, format: Option<&str>, columns: Vec<String>) -> PyResult<Self> {
        let format = format.map(format_named).transpose()?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        let wanted = Wanted {
            latency: has("latency_ns"),
            queued: has("queued_ns"),
            volume: has("volume"),
            lifetime: has("lifetime"),
            flags: has("flags"),
            depth: has("depth"),
            io_class: has("io_class"),
            process: has("process"),
            pid: has("pid"),
            cgroup: has("cgroup"),
            inode: has("inode"),
            path: has("path"),
        };
        let refused = Faults { by_line: true, ..Faults::default() };
        let mut state = State { format, wanted: Some(wanted), refused, ..State::default() };
        py.detach(|| state.open(&path))?;
        Ok(Self { path, columns, state: Mutex::new(state) })
    }

    /// The next rows, at most so many; `None` at the end.
    fn read<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let made = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.fill(rows);
            if state.rows.is_empty() {
                return state.failed.take().map_or(Ok(None), |error| Err(of_trace(&self.path, &error)));
            }
            let count = rows.min(state.rows.len());
            let (requests, knows) = (&state.rows[..count], state.knows);
            let columns = self.columns.iter().map(|name| Ok((name.clone(), column(name, requests, knows)?)));
            let columns = columns.collect::<PyResult<Vec<_>>>()?;
            state.rows.drain(..count);
            Ok(Some(columns))
        })?;
        made.map(|columns| column::into_python(py, columns)).transpose()
    }

    /// Names that the numbers of the column `volume`, `process` or `path` mean, from number `first` on.
    fn names(&self, column: &str, first: usize) -> PyResult<Vec<String>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |table: &NameTable| table.iter().skip(first.saturating_add(1)).map(str::to_owned).collect();
        Ok(match column {
            "volume" => of(&state.names.volumes),
            "process" => of(&state.names.processes),
            "path" => of(&state.names.paths),
            other => return Err(format_error(format!("column {other:?} has no names"))),
        })
    }

    /// What the trace can tell, and what could not be read of it up to now, as JSON.
    fn facts(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut facts = knowledge(state.knows, &state.faults);
        facts["requests"] = json!(state.received - state.refused.count);
        facts["refused"] = json!({ "count": state.refused.count, "first": first(&state.refused.first) });
        facts["notes"] = json!(state.notes);
        facts["capture"] = json!(state.capture.as_ref().map(|header| {
            let id: String = header.capture.iter().map(|byte| format!("{byte:02x}")).collect();
            let volumes: Vec<Value> = header
                .volumes
                .iter()
                .map(|volume| json!({ "name": volume.name, "size_bytes": volume.size_bytes }))
                .collect();
            json!({ "id": id, "begin_unix_ns": header.begin_unix_ns, "volumes": volumes })
        }));
        facts.to_string()
    }
}

fn first(faults: &[Fault]) -> Vec<Value> {
    faults.iter().map(|fault| json!({ "place": fault.place, "what": fault.what })).collect()
}

fn format_named(name: &str) -> PyResult<Format> {
    Format::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format_error(format!("format {name:?}: no such format; there are {}", known.join(", ")))
    })
}

impl State {
    /// Finds out what `path` is, and opens the first of it.
    fn open(&mut self, path: &Path) -> PyResult<()> {
        if let Some(made) = path.to_str().and_then(generate::open) {
            let made = made.map_err(|error| format_error(format!("{}: {error}", path.display())))?;
            self.source = Some(made);
            return Ok(());
        }
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let found = partitions(path).map_err(|error| of_trace(path, &error))?;
                self.files = found.into_iter().flat_map(|partition| partition.files).collect();
                if self.files.is_empty() {
                    return Err(format_error(format!(
                        "{}: is a directory without volume=NAME/*.parquet; give one file of it",
                        path.display()
                    )));
                }
            }
            // What is no file may let one wait for ever.
            Ok(metadata) if !metadata.is_file() => {
                return Err(format_error(format!("{}: is neither a file nor a directory", path.display())));
            }
            // Where there is no such file it may stand for those of blktrace.
            _ => self.files.push_back(path.to_owned()),
        }
        self.capture = self.files.front().and_then(|file| segments::capture_header(file).ok());
        self.open_next().map_err(|error| of_trace(path, &error))
    }

    /// Opens the next file, if there is one.
    fn open_next(&mut self) -> Result<(), TraceError> {
        let Some(mut file) = self.files.pop_front() else { return Ok(()) };
        if file == Path::new("-") {
            // Which is the standard input to our readers.
            file = PathBuf::from("./-");
        }
        self.source = Some(format::open(&file, self.format, self.wanted.unwrap_or(Wanted::ALL))?);
        Ok(())
    }

    /// Reads until there are so many rows, or no more.
    fn fill(&mut self, rows: usize) {
        while self.rows.len() < rows && self.failed.is_none() {
            if self.source.is_none()
                && let Err(error) = self.open_next()
            {
                self.failed = Some(error);
            }
            let Some(mut source) = self.source.take() else { return };
            let before = self.rows.len();
            let read = source.read(&mut self.rows, &mut self.names);
            self.leave_out(before);
            self.knows = source.knows();
            self.faults = sum(&self.faults_before, source.faults());
            match read {
                Ok(true) => self.source = Some(source),
                Ok(false) => {
                    self.notes.append(&mut source.notes());
                    self.faults_before = self.faults.clone();
                }
                Err(error) => {
                    self.files.clear();
                    self.failed = Some(error);
                }
            }
        }
    }

    /// Leaves out what columns of 63 bits cannot hold, of the rows from `first` on.
    fn leave_out(&mut self, first: usize) {
        let (received, refused) = (&mut self.received, &mut self.refused);
        let mut index = 0;
        self.rows.retain(|request| {
            index += 1;
            if index <= first {
                return true;
            }
            *received += 1;
            let Some((what, value)) = unfit(request) else { return true };
            refused.note(*received, || format!("{what} of {value} is above 2^63 - 1"));
            false
        });
    }
}

fn sum(before: &Faults, current: &Faults) -> Faults {
    let mut both = before.clone();
    for fault in &current.first {
        both.note(fault.place, || fault.what.clone());
    }
    both.count = before.count + current.count;
    both.missing = before.missing + current.missing;
    both.by_line = current.by_line;
    both
}

/// The column `name` of these requests. What is not known is -1 in signed columns, 0 in those of ids, and [`NO_LIFETIME`].
fn column(name: &str, requests: &[Request], knows: Knows) -> PyResult<Column> {
    let i64s =
        |value: fn(&Request) -> u64| Column::I64(requests.iter().map(|request| value(request).cast_signed()).collect());
    let i32s = |value: &dyn Fn(&Request) -> Option<u16>| {
        Column::I32(requests.iter().map(|request| value(request).map_or(-1, i32::from)).collect())
    };
    // The first name is that of what is not known.
    let names = |number: fn(&Request) -> u32| {
        Column::I32(requests.iter().map(|request| number(request).cast_signed() - 1).collect())
    };
    Ok(match name {
        "issued_ns" => i64s(|request| request.issued_ns),
        "op" => Column::U8(requests.iter().map(|request| request.op as u8).collect()),
        "offset_bytes" => i64s(|request| request.offset_bytes),
        "size_bytes" => i64s(|request| request.len_bytes),
        // What is not known has all bits set, which is -1.
        "latency_ns" => i64s(|request| request.latency_ns),
        "queued_ns" => i64s(|request| request.queued_ns),
        "volume" => names(|request| request.volume),
        "lifetime" => {
            let is_known = |request: &Request| knows.lifetime || request.lifetime != Lifetime::NotSet;
            let value = |request| if is_known(request) { request.lifetime as u8 } else { NO_LIFETIME };
            Column::U8(requests.iter().map(value).collect())
        }
        "flags" => i32s(&|request| (knows.flags || request.flags != Flags::default()).then_some(request.flags.0)),
        "depth" => i32s(&|request| (request.depth != 0).then_some(request.depth)),
        "io_class" => i32s(&|request| (request.io_class != Request::NO_CLASS).then_some(request.io_class)),
        "process" => names(|request| request.process),
        "pid" => Column::U32(requests.iter().map(|request| request.pid).collect()),
        "cgroup" => Column::U64(requests.iter().map(|request| request.cgroup).collect()),
        "inode" => Column::U64(requests.iter().map(|request| request.inode).collect()),
        "path" => names(|request| request.path),
        other => return Err(format_error(format!("traces have no column {other:?}"))),
    })
}
