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

/// Keeps CPUs out of idle states with a long exit latency, while a command runs or until an interrupt.
///
/// # Errors
/// The kernel does not allow it, or the command cannot be started; a finding where the command fails.
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
    let mut child = Command::new(program)
        .args(arguments)
        .spawn()
        .with_context(|| format!("{}: cannot be started", program.to_string_lossy()))?;
    let mut is_passed_on = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // A signal from the terminal also reaches the command; a signal sent to this process alone does not and is passed on.
        if stop.load(Ordering::Relaxed) && !is_passed_on {
            is_passed_on = true;
            let _ =
                rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() { Ok(()) } else { Err(finding(format!("{}: {status}", program.to_string_lossy()))) }
}
