//! `forebay completions SHELL` and `forebay man FOLDER`: from the same source as `--help`.

use crate::cli::Cli;
use crate::output;
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Writes a shell's completions to standard output.
///
/// # Errors
/// Where that cannot be written.
pub fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut script);
    output::raw(&script)
}

/// Writes manual pages into a folder: one of the whole, one of each verb.
///
/// # Errors
/// Where the folder or a page cannot be written.
pub fn man(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
