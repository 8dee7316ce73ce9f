//! Hit ratios of policies of the read cache: the same reads through caches with each of them.

mod requests;
mod run;
mod staging;
mod table;

pub use run::{Plan, run};
pub use table::{json, text};
