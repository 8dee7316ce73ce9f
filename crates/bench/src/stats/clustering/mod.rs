//! Stalls cluster, so latencies are not independent, and an interval that takes them so is too narrow. Here a run is
//! kept by blocks of time; how unevenly the exceedances of a value fall on them says how many independent samples the
//! run is worth, and whole blocks are resampled for what has no formula.

mod blocks;
mod bootstrap;
mod dispersion;
mod series;

#[cfg(test)]
pub use blocks::sum_of_middles_ns;
pub use blocks::{BLOCKS, Block, Blocks, Cell};
pub use bootstrap::{RESAMPLES, bootstrap_percentile, bounds_of};
pub use dispersion::Clustering;
pub use series::{BLOCKS_MIN, MEAN_SAMPLES_MIN, SIGNIFICANCE, SumError, mean_interval};
