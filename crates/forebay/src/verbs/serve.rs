//! `forebay serve CONFIG`.

use crate::output::{self, Format};
use anyhow::{Context, Result};
use forebay_daemon::config;
use forebay_daemon::pool::Opening;
use forebay_daemon::server::{Announce, Handle, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tracing::warn;

/// Set to 1 where the server must end with the process that started it, as in the demo.
pub const STOP_WITH_PARENT: &str = "FOREBAY_STOP_WITH_PARENT";

/// Serves the pool until a signal arrives.
///
/// # Errors
/// What failed, such as a damaged pool.
pub fn run(file: &Path, opening: Opening, wait: Duration, format: Format) -> Result<()> {
    let config = config::load_real(file)?;
    raise_open_files();
    let (handle, asked) = Handle::new()?;
    // First, so that a signal while the pool is opened is a clean stop too.
    handle.watch_signals()?;
    if std::env::var_os(STOP_WITH_PARENT).is_some_and(|value| value == "1") {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("cannot ask to be notified of the parent's end")?;
    }
    let announce: Announce = match format {
        Format::Table => Box::new(output::line),
        Format::Json => Box::new(|line| output::json_line(announced(line))),
    };
    match Server::open(config, file, opening, wait, asked, announce)? {
        Some(server) => server.run(),
        None => Ok(()),
    }
}

/// Raises the limit of open files to its maximum: each client needs one. A shell's default (1024, for programs that use `select`) is far
/// below the hard limit; nothing here uses `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(why) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        warn!(
            cause = "open files",
            advice =
                "Raise it before the server is started (`ulimit -n`, LimitNOFILE= of the unit), where clients are many",
            "the limit of open files stays at {}: {why}",
            limit.current.unwrap_or_default()
        );
    }
}

/// JSON of a line of the server: its first word is the subject, followed by a URI or path.
fn announced(line: &str) -> Value {
    let (event, about) = line.split_once(' ').unwrap_or((line, ""));
    let uri = Some(about).filter(|about| event == "ready" && !about.starts_with("without "));
    json!({ "event": event, "uri": uri, "text": line })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--output json` was accepted but did not change these lines.
    #[test]
    fn regression_what_is_ready_is_said_for_programs() {
        let uri = "nbd+unix:///db?socket=/run/db.sock";
        let line = format!("ready {uri}");
        assert_eq!(announced(&line), json!({ "event": "ready", "uri": uri, "text": line }));
        let line = "ready without exports, control socket /run/control";
        assert_eq!(announced(line), json!({ "event": "ready", "uri": null, "text": line }));
    }
}
