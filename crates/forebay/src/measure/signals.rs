//! Ctrl-C: the first signal ends the run and keeps its results so far, a later one kills.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A second signal this soon after the first counts as the same: timeout(1) signals the child and then its whole group, and a terminal may
/// repeat a script's signal.
const SAME_WISH: Duration = Duration::from_secs(1);

/// Sets `stop` at SIGINT, SIGTERM and SIGHUP (a lost connection). A signal more than a second after the first kills the process, as by
/// default.
///
/// # Errors
/// The handlers cannot be installed.
pub fn watch(stop: &Arc<AtomicBool>) -> Result<()> {
    watch_number(stop, &Arc::default())
}

/// Like [`watch`], but also the first signal kills where it comes more than a second after the time in `measured`, because there is no run
/// left to end. An earlier signal was meant for the run.
///
/// # Errors
/// As [`watch`].
pub fn watch_until(stop: &Arc<AtomicBool>, measured: &Arc<OnceLock<Instant>>) -> Result<()> {
    watch_all(stop, &Arc::default(), measured)
}

/// Like [`watch`], and stores the number of the last signal.
///
/// # Errors
/// As [`watch`].
pub fn watch_number(stop: &Arc<AtomicBool>, number: &Arc<AtomicI32>) -> Result<()> {
    watch_all(stop, number, &Arc::default())
}

fn watch_all(stop: &Arc<AtomicBool>, number: &Arc<AtomicI32>, measured: &Arc<OnceLock<Instant>>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for Ctrl-C")?;
    let (stop, number, measured) = (stop.clone(), number.clone(), measured.clone());
    let body = move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            // Stored before the stop flag, because whoever sees the flag may read the number.
            number.store(signal, Ordering::Relaxed);
            stop.store(true, Ordering::Release);
            let is_late = |since: &Instant| since.elapsed() > SAME_WISH;
            if first.as_ref().or(measured.get()).is_some_and(is_late) {
                // Returns only for signals that are not watched.
                let _ = emulate_default_handler(signal);
            }
            first.get_or_insert_with(Instant::now);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).context("cannot watch for Ctrl-C")?;
    Ok(())
}
