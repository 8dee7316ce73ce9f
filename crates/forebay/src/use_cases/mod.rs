//! Published use cases of two tiers, run again in virtual time: the published figures beside those of the models and the pool.

mod published;
mod run;
mod table;

pub use published::{ALL, UseCase};
pub use run::{Plan, run};
pub use table::{json, text};
