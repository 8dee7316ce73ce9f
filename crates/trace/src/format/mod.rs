//! Formats of traces, a file each.

pub mod parquet;
mod records;
mod vscsi;

pub use vscsi::Vscsi;
