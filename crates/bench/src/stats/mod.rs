//! What makes figures believable: percentiles with intervals, withheld where samples are too few; stalls that cluster
//! taken into account; runs summed up and compared; steady state; Little's law; saturation; the depths applications
//! use. Pure functions and small types: no I/O, no clock, chance only from a seed.

pub mod application_depth;
pub mod clustering;
pub mod compare;
pub mod confidence;
pub mod distribution;
pub mod little;
pub mod mean;
pub mod open_loop;
pub mod percentile;
pub mod saturation;
pub mod steady;

#[cfg(test)]
mod coverage_tests;

pub use confidence::{Confidence, Interval};
