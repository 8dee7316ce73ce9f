//! Formatting, opening and recovering a pool.

pub mod format;
pub mod members;
pub mod open;
mod replay;
mod report;

pub use format::{FormatError, format};
pub use members::{MemberError, assemble, read_superblock};
pub use open::{open, salvage};
pub use report::{OpenError, RecoveryReport};
