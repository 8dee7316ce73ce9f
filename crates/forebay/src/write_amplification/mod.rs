//! Write amplification of policies of placement: the same streams through a log of bands with each of them.

mod policies;
mod run;
mod streams;
mod table;

pub use run::{Plan, run};
pub use table::{json, text};
