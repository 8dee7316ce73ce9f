//! Write amplification of placement policies: the same streams through a log of bands with each policy.

mod policies;
mod run;
mod streams;
mod table;

pub use run::{Plan, run};
pub use table::{json, text};
