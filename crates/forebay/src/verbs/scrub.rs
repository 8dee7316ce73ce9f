//! `forebay scrub CONFIG start|pause|status`.

use crate::output::{self, Format};
use crate::status::scrub;
use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::control::{Question, ScrubAction, ask};
use forebay_daemon::finding::finding;
use std::path::Path;

/// What is to be done about the scrub.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum ScrubVerb {
    /// Begin to read everything, or go on with that
    Start,
    /// Wait until it is started again
    Pause,
    /// Show how far it is, and what it has found
    Status,
}

/// Starts, pauses or shows it.
///
/// # Errors
/// Where no server answers; a finding where there is damage.
pub fn run(file: &Path, verb: ScrubVerb, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let action = match verb {
        ScrubVerb::Start => ScrubAction::Start,
        ScrubVerb::Pause => ScrubAction::Pause,
        ScrubVerb::Status => ScrubAction::Status,
    };
    let answer = ask(&config, file, &Question::Scrub { action })?;
    let damaged_bytes = answer["damaged_bytes"].as_u64().unwrap_or(0);
    match format {
        Format::Json => output::json(answer)?,
        Format::Table => output::text(&scrub::render(&answer))?,
    }
    if action == ScrubAction::Status && damaged_bytes > 0 {
        return Err(finding(format!(
            "{} are damaged or cannot be read: restore them from a backup, then write or discard them",
            output::size(damaged_bytes)
        )));
    }
    Ok(())
}
