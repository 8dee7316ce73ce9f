//! Errors of the readers as exceptions.

use forebay_bench::telemetry::TelemetryError;
use forebay_trace::TraceError;
use forebay_trace::format::Format;
use pyo3::PyErr;
use pyo3::exceptions::PyOSError;
use std::error::Error;
use std::io;
use std::path::Path;

mod python {
    pyo3::import_exception!(forebay._errors, FormatError);
}

/// A file that is not what it should be.
pub fn format_error(text: String) -> PyErr {
    python::FormatError::new_err(text)
}

/// What went wrong with `path` in the operating system, as Python's own: a file that is not there is a `FileNotFoundError`.
fn os_error(path: &Path, what: &str, source: &io::Error) -> PyErr {
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, format!("{what}: {source}"), path.as_os_str().to_owned())),
        None => format_error(format!("{}: {what}: {}", path.display(), with_causes(source))),
    }
}

/// An error and what caused it.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Why the trace `path` cannot be read.
pub fn of_trace(path: &Path, error: &TraceError) -> PyErr {
    match error {
        TraceError::Open { path, source } => os_error(path, "cannot be opened", source),
        TraceError::Read { offset_bytes, source } => {
            let what = format!("cannot be read from byte {offset_bytes} on; the file is damaged or cut off");
            os_error(path, &what, source)
        }
        TraceError::UnknownFormat { path, why } => {
            let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format_error(format!(
                "{}: no known format of traces ({why}); name it by format=, one of {}. Files NAME.fbt of `forebay bench` are \
                 read by forebay.records, its JSON by forebay.results",
                path.display(),
                known.join(", ")
            ))
        }
        error => format_error(format!(
            "{}: {}; give a trace as its recorder wrote it, or name its format by format=",
            path.display(),
            with_causes(error)
        )),
    }
}

/// Why the records `path` cannot be read.
pub fn of_records(path: &Path, error: &TelemetryError) -> PyErr {
    match error {
        TelemetryError::Open { path, source } => os_error(path, "cannot be opened", source),
        TelemetryError::Read { at_bytes, source } => {
            os_error(path, &format!("cannot be read from byte {at_bytes} on"), source)
        }
        error => format_error(format!("{}: {error}", path.display())),
    }
}
