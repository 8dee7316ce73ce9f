//! `forebay serve CONFIG`.

use crate::config;
use crate::pool::Opening;
use anyhow::Result;
use std::path::Path;

/// Serves the pool.
///
/// # Errors
/// What could not be done, or that the pool is damaged.
pub fn run(file: &Path, salvage: bool) -> Result<()> {
    let config = config::load_real(file)?;
    crate::daemon::serve(&config, file, if salvage { Opening::Salvage } else { Opening::Recover })
}
