//! `forebay demo`.
use crate::cli::DemoOptions;
use crate::output::Format;
use anyhow::Result;
/// Runs it.
pub fn run(_options: &DemoOptions, _format: Format) -> Result<()> {
    anyhow::bail!("not there yet")
}
