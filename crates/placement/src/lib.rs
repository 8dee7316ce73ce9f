//! Which data is written together, which band is collected next, and which blocks have copies on a faster tier: pure
//! policies, and a log of bands in memory that says what each of them costs.
//!
//! Time is counted in blocks that hosts wrote.
#![forbid(unsafe_code)]

pub mod cache;
pub mod grouping;
pub mod log;
pub mod stay;
pub mod victim;
