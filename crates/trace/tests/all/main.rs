//! Tests of formats, exports and generators, as one program, so that shared parts are built once. The test `files`, which needs root, is
//! another program.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

mod export;
mod export_tools;
mod formats;
mod formats_blktrace;
mod formats_hostile;
mod generate;
mod parquet;
