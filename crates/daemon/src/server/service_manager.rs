//! What the service manager hears (sd_notify(3)), where there is one.

use sd_notify::{NotifyState, notify};
use tracing::warn;

/// All exports can be used.
pub fn is_ready() {
    // Fails only where the socket that the service manager named is not there: it would wait for this.
    if let Err(error) = notify(&[NotifyState::Ready]) {
        warn!("the service manager could not be notified that the server is ready: {error}");
    }
}

/// The configuration is being read again; [`has_reloaded`] follows. With `Type=notify-reload` it is believed by the time that goes with it.
pub fn reloads() {
    let now = NotifyState::monotonic_usec_now().ok();
    let states: Vec<NotifyState<'_>> = std::iter::once(NotifyState::Reloading).chain(now).collect();
    drop(notify(&states));
}

/// It was read, or could not be.
pub fn has_reloaded() {
    drop(notify(&[NotifyState::Ready]));
}

/// The server is on its way out.
pub fn stops() {
    drop(notify(&[NotifyState::Stopping]));
}
