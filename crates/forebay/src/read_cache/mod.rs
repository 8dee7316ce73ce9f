//! Hit ratios of policies of the read cache: the same reads through caches with each of them.

mod patterns;
mod requests;
mod run;
mod staging;
mod table;
mod verdict;

pub use run::{Plan, run};
pub use table::{json, text};
