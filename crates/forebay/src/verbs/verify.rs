//! `forebay verify CONFIG`.

use crate::config;
use crate::output::Format;
use crate::pool;
use anyhow::{Result, bail};
use forebay_device::OpenMode;
use std::path::Path;

/// Checks the pool.
///
/// # Errors
/// A finding where something is wrong.
pub fn run(file: &Path, _format: Format) -> Result<()> {
    let config = config::load(file)?;
    let _devices = pool::open_devices(&config, OpenMode::ReadOnly)?;
    bail!("not there yet")
}
