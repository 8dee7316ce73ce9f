//! `forebay completions SHELL` and `forebay man FOLDER`, generated from the same source as `--help`.

use crate::cli::Cli;
use crate::output::{self, Format};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;
use std::path::Path;

/// Writes a shell's completions to standard output.
///
/// # Errors
/// The output cannot be written.
pub fn completions(shell: Shell, format: Format) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut script);
    match format {
        Format::Table => output::raw(&script),
        Format::Json => output::json(json!({ "shell": shell.to_string(), "script": String::from_utf8_lossy(&script) })),
    }
}

/// Writes manual pages into a folder: one for the program, one for each verb.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn man(folder: &Path, format: Format) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))?;
    match format {
        Format::Table => Ok(()),
        Format::Json => output::json(json!({ "folder": folder })),
    }
}
