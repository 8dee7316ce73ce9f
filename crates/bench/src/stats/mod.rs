//! Statistics that make figures believable: percentiles with intervals, withheld with too few samples; stalls that cluster; summaries and
//! comparisons of runs; steady state; Little's law; saturation; the depths that applications use. Pure functions and small types: no I/O,
//! no clock, randomness only from a seed.

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
