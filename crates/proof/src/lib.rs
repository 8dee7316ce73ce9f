//! What a block may hold, and the medium that may lose it: one oracle and one lossy medium for the simulator, the demo,
//! the crash harness and the tests.
//!
//! Each user drives its own requests; what they may find afterwards is decided here alone. [`stamp`] names the write that
//! a sector comes from, [`oracle`] keeps what each block may hold, [`tally`] counts what blocks turned out to hold.
//! [`cache`] is what a power cut may lose, [`survival`] what of it is kept, [`leak`] what is written back before its time;
//! [`medium`] is a whole device in memory with such a cache.

#![forbid(unsafe_code)]

pub mod cache;
pub mod leak;
pub mod medium;
pub mod oracle;
pub mod stamp;
pub mod survival;
pub mod tally;
