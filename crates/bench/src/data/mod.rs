//! What writes contain (compressibility, duplicates, verification headers), and a map of what must be on the target.

mod content;
pub mod verify;

pub use content::{Content, DataError};
