//! Which data is written together, and which band is collected next: pure policies, and a log of bands in memory that says
//! what each of them costs.
//!
//! Time is counted in blocks that hosts wrote.
#![forbid(unsafe_code)]

pub mod grouping;
pub mod log;
pub mod stay;
pub mod victim;
