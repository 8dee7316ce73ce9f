//! I/O traces: their formats and their analysis.
//!
//! A trace is a stream of batches of [`Request`]s ([`Source`]), with names of volumes, processes and files beside them ([`Names`]). Readers
//! never hold a whole trace; they count and locate what they cannot read ([`Faults`]).

#![deny(unsafe_code)]

mod ahead;
pub mod analysis;
pub mod capture;
mod error;
pub mod files;
pub mod format;
pub mod generate;
mod hash;
mod names;
mod order;
pub mod reading;
mod request;
pub mod rocksdb_log;
mod source;
mod worker;

pub use ahead::Ahead;
pub use error::TraceError;
pub use forebay_prism::Lifetime;
pub use names::{NameTable, Names, TableLevels};
pub use order::{Sorted, Steady};
pub use request::{Flags, NOT_KNOWN, Op, Request};
pub use source::{BATCH_REQUESTS, Fault, Faults, Knows, Source};
