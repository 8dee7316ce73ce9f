//! Policies without I/O: which blocks are written together, which band is collected next, and which blocks have
//! copies on a faster tier; and a log of bands in memory that measures the cost of each grouping policy.
//!
//! Time is counted in blocks that hosts wrote.
#![forbid(unsafe_code)]

pub mod cache;
pub mod grouping;
pub mod log;
pub mod stay;
pub mod victim;
