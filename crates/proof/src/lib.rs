//! The contents that a block may have, and a medium that may lose them: one oracle and one lossy medium for the
//! simulator, the demo, the crash harness and the tests.
//!
//! Each user sends its own requests; only this crate decides which contents are permitted afterwards. [`stamp`] marks
//! a sector with the write that it comes from, [`oracle`] knows the contents that each block may have, [`tally`]
//! counts the contents that were found. [`cache`] contains the sectors that a power cut may lose, [`survival`]
//! chooses which of them are kept, [`leak`] which are written back early; [`medium`] is a whole device in memory with
//! such a cache.

#![forbid(unsafe_code)]

pub mod cache;
pub mod leak;
pub mod medium;
pub mod oracle;
pub mod stamp;
pub mod survival;
pub mod tally;
