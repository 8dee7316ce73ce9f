//! Notifications to the service manager (sd_notify(3)), where there is one.

use sd_notify::{NotifyState, notify};
use tracing::warn;

/// Notifies that all exports can be used.
pub fn notify_ready() {
    // Fails only where the socket that the service manager named does not exist. The service manager would wait for
    // this notification.
    if let Err(error) = notify(&[NotifyState::Ready]) {
        warn!("the service manager could not be notified that the server is ready: {error}");
    }
}

/// Notifies that the configuration is being read again; [`notify_reloaded`] follows. `Type=notify-reload` requires the
/// time with it.
pub fn notify_reloading() {
    let now = NotifyState::monotonic_usec_now().ok();
    let states: Vec<NotifyState<'_>> = std::iter::once(NotifyState::Reloading).chain(now).collect();
    drop(notify(&states));
}

/// Notifies that the reload has ended, successfully or not.
pub fn notify_reloaded() {
    drop(notify(&[NotifyState::Ready]));
}

/// Notifies that the server is stopping.
pub fn notify_stopping() {
    drop(notify(&[NotifyState::Stopping]));
}
