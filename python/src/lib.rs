//! What the Python package `forebay` has in Rust: it passes on, column by column, what our own readers of traces and of
//! records read. Everything else of the package is Python (`forebay/`).
#![forbid(unsafe_code)]

mod column;
mod error;
mod records;
mod trace;

use pyo3::prelude::*;

/// Readers of `forebay`'s files that give columns.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::records::RecordsReader;
    #[pymodule_export]
    use crate::trace::TraceReader;
}
