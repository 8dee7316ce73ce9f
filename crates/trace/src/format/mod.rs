//! Formats of traces, a file each.

mod records;
mod vscsi;

pub use vscsi::Vscsi;
