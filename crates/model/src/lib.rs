//! SSDs in virtual time: what a drive does with commands, by its parts, to the nanosecond.
//!
//! A model holds no data and knows no clock: commands arrive at given times, and it says when each ends. The same commands
//! at the same times with the same seed give the same nanoseconds for ever.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod endurance;
pub mod host;
pub mod nand;
pub mod preset;
pub mod ssd;
pub mod xpoint;
