//! Formatting, opening and recovering a pool.

pub mod format;
pub mod members;
pub mod open;
mod replay;

pub use format::{FormatError, format};
pub use members::{MemberError, assemble, read_superblock};
pub use open::{OpenError, RecoveryReport, open, salvage};
