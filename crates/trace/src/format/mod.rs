//! Formats of traces, a file each.

mod records;
pub mod segments;
mod vscsi;

pub use segments::Segments;
pub use vscsi::Vscsi;
