//! The tiered volume, sans-I/O: mapping, journal, staging, bands, garbage collection, recovery.

pub mod request;

pub use request::{Completion, Extent, ExtentState, Op, Outcome, Request, RequestError};
