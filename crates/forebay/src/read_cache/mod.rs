//! Hit ratios of read-cache policies: the same reads through a cache with each policy.

mod patterns;
mod requests;
mod run;
mod staging;
mod table;
mod verdict;

pub use run::{Plan, run};
pub use table::{json, text};
