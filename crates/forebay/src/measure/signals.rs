//! Ctrl-C: the first ends the run with what is known, a later one kills.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// A second signal so soon after the first is the same wish: timeout(1) signals the child and then its whole group, and
/// a terminal may send what a script sends as well.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Sets `stop` at SIGINT, SIGTERM and SIGHUP (a connection that was lost); another one, later than a second after the first, kills, as without us.
///
/// # Errors
/// Where the system does not let us.
pub fn watch(stop: &Arc<AtomicBool>) -> Result<()> {
    watch_number(stop, &Arc::default())
}

/// The same, and leaves the number of the last signal.
///
/// # Errors
/// As [`watch`].
pub fn watch_number(stop: &Arc<AtomicBool>, number: &Arc<AtomicI32>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let (stop, number) = (stop.clone(), number.clone());
    let body = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            // Whoever sees the stop may ask for the number.
            number.store(signal, Ordering::Relaxed);
            stop.store(true, Ordering::Release);
            if first.get_or_insert_with(Instant::now).elapsed() > SAME_WISH {
                // It does not return but for signals that we do not watch.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).context("cannot watch for Ctrl-C")?;
    Ok(())
}
