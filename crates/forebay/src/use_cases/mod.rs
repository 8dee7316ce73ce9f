//! Published use cases of two tiers, run again in virtual time: what was published beside what the models and the pool give.

mod published;
mod run;
mod table;

pub use published::{ALL, UseCase};
pub use run::{Plan, run};
pub use table::{json, text};
