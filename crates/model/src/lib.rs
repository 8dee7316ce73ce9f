//! SSDs in virtual time: how a drive serves commands, modelled by its parts, to the nanosecond.
//!
//! A model holds no data and reads no clock: commands arrive at given times, and it returns when each ends. The same commands at the same
//! times with the same seed always give the same nanoseconds.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod endurance;
pub mod host;
pub mod nand;
pub mod preset;
pub mod ssd;
pub mod xpoint;
