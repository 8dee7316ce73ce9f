//! `forebay serve CONFIG`.

use crate::output;
use anyhow::{Context, Result};
use forebay_daemon::config;
use forebay_daemon::pool::Opening;
use forebay_daemon::server::{Handle, Server, wait_for_devices};
use std::path::Path;
use std::time::Duration;

/// Set to 1 where the server is to end with the process that started it, as the demo's does.
pub const STOP_WITH_PARENT: &str = "FOREBAY_STOP_WITH_PARENT";

/// How the flags say the pool is to be opened.
pub fn opening(salvage: bool, without_fast: bool, degraded: bool, accept_loss: bool) -> Opening {
    match (salvage, without_fast, degraded, accept_loss) {
        (true, ..) => Opening::Salvage,
        (_, true, ..) => Opening::WithoutFast,
        (_, _, true, _) => Opening::Degraded,
        (.., true) => Opening::AcceptLoss,
        _ => Opening::Recover,
    }
}

/// Serves the pool until a signal comes.
///
/// # Errors
/// What could not be done, or that the pool is damaged.
pub fn run(file: &Path, opening: Opening, wait: Duration) -> Result<()> {
    let config = config::load_real(file)?;
    let (handle, asked) = Handle::new()?;
    // First, so that a signal while the pool is opened is a clean stop as well.
    handle.watch_signals()?;
    if std::env::var_os(STOP_WITH_PARENT).is_some_and(|value| value == "1") {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("cannot ask to be notified of the parent's end")?;
    }
    wait_for_devices(&config, wait, &asked);
    Server::open(config, file, opening, asked, Box::new(output::line))?.run()
}
