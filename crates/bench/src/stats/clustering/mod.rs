//! Stalls cluster, so latencies are not independent, and intervals that assume independence are too narrow. Here a run is kept by blocks of
//! time. The uneven distribution of a value's exceedances over the blocks gives the number of independent samples that the run is worth;
//! figures without a formula are resampled by whole blocks.

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
