//! `forebay status CONFIG`.

use crate::output::{self, Format};
use crate::status::render;
use anyhow::Result;
use forebay_daemon::config;
use forebay_daemon::control::{Question, ask};
use std::path::Path;

/// Shows the server's status.
///
/// # Errors
/// No server answers.
pub fn run(file: &Path, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    let status = ask(&config, file, &Question::Status)?;
    match format {
        Format::Json => output::json(status),
        Format::Table => output::text(&render(&status)),
    }
}
