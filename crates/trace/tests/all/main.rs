//! Formats, exports and generators: one program, so that what its tests share is built once. The test `files`, which takes root, is
//! another.

// In tests, a panic reports the failure.
#![allow(clippy::unwrap_used)]

mod export;
mod export_tools;
mod formats;
mod formats_blktrace;
mod formats_hostile;
mod generate;
mod parquet;
