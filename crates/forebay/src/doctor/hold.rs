//! `forebay doctor --hold`.

use crate::measure::signals;
use crate::output::{self, Format};
use anyhow::{Context, Result};
use forebay_daemon::finding::finding;
use forebay_platform::change::Hold;
use serde_json::json;
use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Keeps CPUs out of idle states that take time to leave, as long as a command runs or until it is interrupted.
///
/// # Errors
/// Where the kernel does not let us, and where the command cannot be started; a finding where it fails.
pub fn hold(command: &[OsString], format: Format) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let _hold = Hold::begin()?;
    let Some((program, arguments)) = command.split_first() else {
        let said = match format {
            Format::Json => output::json(json!({ "holding": true })),
            Format::Table => output::text("idle states are kept shallow; Ctrl-C ends it"),
        };
        said?;
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        return Ok(());
    };
    // A signal of the terminal reaches the command too, which ends as it sees fit; we wait for it.
    let status = Command::new(program).args(arguments).status();
    let status = status.with_context(|| format!("{}: cannot be started", program.to_string_lossy()))?;
    if status.success() { Ok(()) } else { Err(finding(format!("{}: {status}", program.to_string_lossy()))) }
}
