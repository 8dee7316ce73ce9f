//! `forebay top CONFIG`.

use crate::measure::signals;
use crate::output::{self, Format};
use crate::status;
use anyhow::{Result, ensure};
use forebay_daemon::config;
use forebay_daemon::control::{Question, ask};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of checking for Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shows the status repeatedly, until Ctrl-C.
///
/// # Errors
/// No server answers.
pub fn run(file: &Path, interval_seconds: f64, count: Option<u64>, format: Format) -> Result<()> {
    ensure!(
        (0.1..=3600.0).contains(&interval_seconds),
        "--interval is {interval_seconds}; it goes from 0.1 to 3600 seconds"
    );
    let config = config::load_real(file)?;
    let stop = Arc::default();
    signals::watch(&stop)?;
    let clear = std::io::stdout().is_terminal() && format == Format::Table;
    let mut left = count;
    let mut before = Value::Null;
    while left != Some(0) && !is_over(&stop) {
        let now = match ask(&config, file, &Question::Status) {
            // A busy server is asked again for a while.
            Err(_) if is_over(&stop) => break,
            answer => answer?,
        };
        if clear {
            output::clear()?;
        }
        match format {
            // One line per object: readers take them line by line.
            Format::Json => output::json_line(now)?,
            Format::Table => {
                output::screen(&page(&before, &now))?;
                before = now;
            }
        }
        left = left.map(|left| left - 1);
        if left != Some(0) {
            wait(Duration::from_secs_f64(interval_seconds), &stop);
        }
    }
    Ok(())
}

fn is_over(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Acquire)
}

/// Waits for `time`, or until the end is requested.
fn wait(time: Duration, stop: &AtomicBool) {
    let begin = Instant::now();
    while let Some(left) = time.checked_sub(begin.elapsed()).filter(|_| !is_over(stop)) {
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// What changes between updates comes before what may not fit on the terminal.
fn page(before: &Value, now: &Value) -> String {
    let rates = [status::rates::head(before, now)].into_iter().chain(status::rates::tables(before, now));
    let head = std::iter::once(status::head(now));
    head.chain(rates).chain(status::tables(now)).collect::<Vec<_>>().join("\n\n")
}
