//! Runs work that may take long on a thread of its own. The event loop must not wait for it, because all clients
//! would wait, too.

use anyhow::{Context, Result, anyhow};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// Work in progress on a thread.
pub struct Beside<T>(Receiver<T>);

impl<T: Send + 'static> Beside<T> {
    /// Starts the work. Where `Self` is dropped before it ends, the result is dropped on the thread.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn begin(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<Self> {
        let (send, result) = sync_channel(1);
        let run = move || drop(send.send(work()));
        Builder::new().name(name.to_owned()).spawn(run).with_context(|| format!("a thread for {name}"))?;
        Ok(Self(result))
    }

    /// The result, once; `None` while the work runs.
    pub fn ended(&self) -> Option<Result<T>> {
        match self.0.try_recv() {
            Ok(result) => Some(Ok(result)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(without_result())),
        }
    }

    /// Waits for the result. Must not be called in the event loop.
    pub fn wait(&self) -> Result<T> {
        self.0.recv().map_err(|_| without_result())
    }

    /// Waits for the result for at most `limit`; `None` where the work still runs.
    pub fn wait_for(&self, limit: Duration) -> Option<Result<T>> {
        match self.0.recv_timeout(limit) {
            Ok(result) => Some(Ok(result)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(without_result())),
        }
    }
}

fn without_result() -> anyhow::Error {
    anyhow!("the thread ended without a result")
}
