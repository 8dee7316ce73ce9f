//! Runs work before the server is ready on a thread of its own, so that a stop does not wait for a device, an object
//! store or a long recovery.

use super::beside::Beside;
use super::handle::Asked;
use super::service_manager;
use anyhow::Result;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::info;

/// How long a stop waits for the opening of the pool. A pool that is open by then is closed like any other, with a
/// clean checkpoint.
const GRACE: Duration = Duration::from_secs(1);

/// Whether the server is to stop. Work that only waits should give up then.
#[derive(Clone, Debug, Default)]
pub struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread named `name` and returns its result. `None` where the server was asked to stop meanwhile,
/// and the work failed or did not end within a second. The value of such work is dropped when it ends, or with the
/// process.
///
/// # Errors
/// The error of the work, or no thread could be started.
pub fn unless_stopped<T: Send + 'static>(
    asked: &Asked,
    name: &str,
    work: impl FnOnce(&Stopping) -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    let stopping = Stopping::default();
    let (ended, end) = UnixStream::pair()?;
    let for_work = stopping.clone();
    let working = Beside::begin(name, move || {
        // Dropped once the work has ended, also by a panic, which wakes the waiting thread.
        let _end = end;
        work(&for_work)
    })?;
    if !asked.wait_for_stop(&ended) {
        return working.wait().and_then(|result| result).map(Some);
    }
    stopping.0.store(true, Ordering::Relaxed);
    service_manager::notify_stopping();
    info!("asked to stop before it was ready: what is being opened is waited for {} s at most", GRACE.as_secs());
    match working.wait_for(GRACE) {
        Some(Ok(Ok(result))) => return Ok(Some(result)),
        Some(Ok(Err(why)) | Err(why)) => info!("stopped before it was ready: {why:#}"),
        None => info!("stopped before it was ready: the next start opens the pool anew"),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Handle;
    use std::sync::mpsc::channel;

    /// Regression: a signal during the opening was handled only when the opening had ended, and then as an error:
    /// after 43 s where a bucket did not answer.
    #[test]
    fn regression_a_stop_does_not_wait_for_what_is_being_opened() {
        let (handle, asked) = Handle::new().unwrap();
        assert_eq!(unless_stopped(&asked, "work", |_| Ok(7)).unwrap(), Some(7));
        let failed = unless_stopped::<()>(&asked, "work", |_| anyhow::bail!("no device")).unwrap_err();
        assert_eq!(failed.to_string(), "no device");
        let (go_on, waits) = channel::<()>();
        let (gave_up, noticed) = channel();
        handle.stop();
        let work = move |stopping: &Stopping| {
            let _ = waits.recv();
            gave_up.send(stopping.is_asked())?;
            Ok(7)
        };
        assert_eq!(unless_stopped(&asked, "work", work).unwrap(), None);
        go_on.send(()).unwrap();
        assert!(noticed.recv().unwrap(), "the work does not know that the server is to stop");
        // Work that ends at once returns its value all the same, for a clean stop. Its failure is no error of a
        // server that was to stop.
        assert_eq!(unless_stopped(&asked, "work", |_| Ok(7)).unwrap(), Some(7));
        assert_eq!(unless_stopped::<()>(&asked, "work", |_| anyhow::bail!("no device")).unwrap(), None);
        // Where the handle was dropped, nobody can ask for a stop.
        let (handle, asked) = Handle::new().unwrap();
        drop(handle);
        let work = |_: &Stopping| {
            std::thread::sleep(Duration::from_millis(10));
            Ok(())
        };
        assert_eq!(unless_stopped(&asked, "work", work).unwrap(), Some(()));
    }
}
