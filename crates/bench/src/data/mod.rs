//! What writes contain: content of a set compressibility and share of duplicates, headers for verifying, and what is
//! known to be on the target.

mod content;
pub mod verify;

pub use content::{Content, DataError};
