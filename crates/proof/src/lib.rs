//! What a block may hold, and the medium that may lose it: one oracle and one lossy medium for the simulator, the demo,
//! the crash harness and the tests.
//!
//! Each user drives its own requests; what they may find afterwards is decided here alone.

#![forbid(unsafe_code)]

pub mod medium;
pub mod oracle;
