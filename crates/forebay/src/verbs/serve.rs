//! `forebay serve CONFIG`.

use crate::config;
use crate::pool::Opening;
use anyhow::Result;
use std::path::Path;

/// How the flags say the pool is to be opened.
pub fn opening(salvage: bool, without_fast: bool, degraded: bool) -> Opening {
    match (salvage, without_fast, degraded) {
        (true, ..) => Opening::Salvage,
        (_, true, _) => Opening::WithoutFast,
        (.., true) => Opening::Degraded,
        _ => Opening::Recover,
    }
}

/// Serves the pool.
///
/// # Errors
/// What could not be done, or that the pool is damaged.
pub fn run(file: &Path, opening: Opening) -> Result<()> {
    let config = config::load_real(file)?;
    crate::daemon::serve(&config, file, opening)
}
